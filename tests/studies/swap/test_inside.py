"""One head by hand, what a `Swap` leaves alone, and what it refuses.

The textbook as oracle, gradients, plans and nested uses: tests/models/swap. Choices of layers: tests/models.
"""

from typing import Any

import pytest
import torch
from torch import nn

import attncli
from attncli.errors import InputError
from tests.models.families import of_transformers
from tests.models.swap.oracle import main_output
from tests.studies.swap.models import Relu, Strides, tower

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers and of torch's nested tensors


def test_one_head_by_hand_in_a_model_that_relies_on_strides() -> None:
    torch.manual_seed(0)
    model, x = Strides(), torch.randn(2, 7, 32)
    q, k, v = model.heads(x)
    mask = torch.ones(7, 7, dtype=torch.bool).tril()
    scales = torch.tensor([8**-0.5, 1 / 8, 8**-0.5, 8**-0.5])[:, None, None]
    outputs = (q @ k.mT * scales).masked_fill(~mask, -torch.inf).softmax(-1) @ v
    expected = model.out(outputs.transpose(1, 2).reshape(2, 7, 32))
    with attncli.Swap("scaled_dot:scale=1/d", layers=["Strides"], heads=[1]) as swap:
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
        (nn.Sequential(Strides(), Relu()), "model", {"layers": ["[01]"]}, "1: its attention was not replaced: relu in"),
        (Strides(), "model", {"heads": [4]}, "got 4; expected 0 to 3, of the 4 heads of Strides"),
        (nn.MultiheadAttention(32, 4, 0.1), "model", {}, "it ran with dropout"),
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
