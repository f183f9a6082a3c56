"""The model's own scorer leaves the outputs of a model as they are, other scorers do not, and what `Swap` refuses.

The textbook as oracle, gradients, plans and nested uses: tests/models/swap. Choices of layers: tests/models.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attncli
from attncli.errors import InputError
from attncli.models.outputs import outputs_of
from tests.models.families import of_transformers
from tests.studies.swap.models import Mixed, Relu, Strides, Written, tower

LESS = {"scorer": "scaled_dot", "scale": "1/d"}
pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers and of torch's nested tensors


def main_output(model: nn.Module, inputs: Any) -> Tensor:
    named = inputs if isinstance(inputs, dict) else {"x": inputs}
    with torch.no_grad():
        main = outputs_of(model, (), named, model(**named)).main
    assert main is not None
    return main


def encoder() -> tuple[nn.Module, Any]:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    padding = torch.zeros(2, 10, dtype=torch.bool)
    padding[1, 7:] = True
    return nn.TransformerEncoder(layer, 2), {"src": torch.randn(2, 10, 32), "src_key_padding_mask": padding}


def written(*options: Any) -> tuple[nn.Module, Any]:
    return Written(*options), torch.randn(2, 10, 32)


MODELS: dict[str, tuple[Callable[[], tuple[nn.Module, Any]], int, float]] = {  # with their calls, and a bound
    "vit": (partial(of_transformers, "vit"), 2, 1e-5),
    "t5": (partial(of_transformers, "t5"), 6, 1e-5),
    "swinv2": (partial(of_transformers, "swinv2"), 4, 1e-5),
    "modules of torch": (encoder, 2, 1e-6),
    "written": (written, 1, 1e-6),
    "softcap": (partial(written, 5.0), 1, 1e-6),
    "masked in place": (partial(written, None, True), 1, 1e-6),
}


@pytest.mark.parametrize("name", MODELS)
def test_its_own_scorer_changes_no_model_and_another_does(name: str) -> None:
    torch.manual_seed(0)
    make, count, bound = MODELS[name]
    model, inputs = make()
    own = main_output(model.eval(), inputs)
    shown = own != 0  # torch gives zeros at padding
    for entry, is_own in (("model", True), (LESS, False)):
        with attncli.Swap(entry) as swap:
            change = float((main_output(model, inputs) - own)[shown].norm() / own.norm())
        if is_own:
            assert change < bound
        else:
            assert change > 1e-3
        assert len(swap.swapped) == count


def test_one_head_by_hand_in_a_model_that_relies_on_strides() -> None:
    torch.manual_seed(0)
    model, x = Strides(), torch.randn(2, 7, 32)
    q, k, v = model.heads(x)
    mask = torch.ones(7, 7, dtype=torch.bool).tril()
    scales = torch.tensor([8**-0.5, 1 / 8, 8**-0.5, 8**-0.5])[:, None, None]
    outputs = (q @ k.mT * scales).masked_fill(~mask, -torch.inf).softmax(-1) @ v
    expected = model.out(outputs.transpose(1, 2).reshape(2, 7, 32))
    with attncli.Swap(LESS, layers=["Strides"], heads=[1]) as swap:
        torch.testing.assert_close(model(x), expected)
    assert swap.swapped == {"Strides": 1}


def test_a_cache_of_keys_is_followed() -> None:
    model, inputs = of_transformers("gqa", "sdpa")
    options = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    own = model.generate(**inputs, **options)  # type: ignore[operator]
    with attncli.Swap("model") as swap:
        assert torch.equal(model.generate(**inputs, **options), own)  # type: ignore[operator]
    assert set(swap.swapped.values()) == {4}


def test_weights_that_a_model_returns_stay_its_own() -> None:
    model, inputs = of_transformers("bert", "eager")
    own = model(**inputs, output_attentions=True).attentions
    with attncli.Swap("uniform", layers=[0]):
        torch.testing.assert_close(model(**inputs, output_attentions=True).attentions[0], own[0])


def test_inference_mode_and_bfloat16() -> None:
    model, inputs = of_transformers("gqa", "sdpa")
    model = model.bfloat16()
    with torch.inference_mode():
        own = main_output(model, inputs)
        with attncli.Swap("model"):
            same = main_output(model, inputs)
    assert same.dtype == torch.bfloat16
    assert float((same.float() - own.float()).norm() / own.float().norm()) < 0.05


@pytest.mark.parametrize(
    ("model", "entry", "where", "message"),
    [
        (Relu(), "model", {}, "attention was not replaced: Relu: relu in place of a softmax"),
        (nn.Flatten(), "model", {}, "attention was not replaced: none ran"),
        (Mixed(), "model", {"layers": ["*st"]}, "last: its attention was not replaced: relu in place"),
        (Strides(), "model", {"heads": [4]}, "got 4; expected 0 to 3, of the 4 heads of Strides"),
        (nn.MultiheadAttention(32, 4, 0.1), "model", {}, "it ran with dropout"),
        (Strides(), {"scorer": "dott"}, {}, "did you mean `dot`"),
        (Strides(), "dot", {"heads": [True]}, "heads[0]: got true; expected an integer"),
        (Strides(), "dot", {"layers": range(0)}, "layers: got []; expected at least 1 entry"),
        (Strides(), "dot", {"layers": [-1]}, "layers[0]: got -1; expected the name of a layer, or its number from 0"),
    ],
)
def test_what_cannot_be_replaced(model: nn.Module, entry: Any, where: dict[str, Any], message: str) -> None:
    x = torch.randn(2, 7, 32)
    with pytest.raises(InputError) as caught, torch.no_grad(), attncli.Swap(entry, **where):
        model(*[x] * (3 if isinstance(model, nn.MultiheadAttention) else 1))
    assert message in str(caught.value)


def test_arguments_of_the_function() -> None:
    model, inputs = tower()
    for arguments, keys, message in (
        ((model, inputs), {"scorers": 5}, "scorers: got 5; expected a list"),
        ((model, inputs), {"heads": [0]}, "heads: got [0]; they are for `by: head`"),
        ((5, inputs), {}, "model: got 5; expected a torch module"),
        ((model, ([inputs, inputs],)), {}, "running the model gave AttributeError: 'list'"),
    ):
        with pytest.raises(InputError) as caught:
            attncli.swap(*arguments, **keys)
        assert message in str(caught.value)
    with pytest.raises(InputError, match=r'result\.explain: got "swap"; only experiments of the study attention have'):
        attncli.swap(model, inputs, scorers=["dot"], by="all").explain()
