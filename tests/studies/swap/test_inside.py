"""The model's own scorer leaves the outputs of a model as they are; other scorers have the effect of a formula."""

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
FAMILIES = [
    *((kind, way) for kind in ("vit", "albert", "gqa") for way in ("sdpa", "eager")),
    *((kind, None) for kind in ("t5", "swinv2")),
]
pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers and of torch's nested tensors


def result(model: nn.Module, inputs: Any, entry: Any, **where: Any) -> tuple[Tensor, dict[str, int]]:
    """Return the main output with an entry inside; for the entry None the output of the model as it is, but watched."""
    swap = attncli.Swap("model" if entry is None else entry, **where)
    if entry is None:
        swap.layers = []
    with swap:
        swap.take_names(model)
        given = model(**inputs) if isinstance(inputs, dict) else model(inputs)
    args, named = ((), inputs) if isinstance(inputs, dict) else ((inputs,), {})
    main = outputs_of(model, args, named, given).main
    assert main is not None
    return main, swap.swapped


def relative(new: Tensor, own: Tensor) -> float:
    return float((new - own).norm() / own.norm())


@pytest.mark.parametrize(("kind", "way"), FAMILIES)
@torch.no_grad()
def test_its_own_scorer_changes_no_model_and_another_does(kind: str, way: str | None) -> None:
    """Other families, and gradients: tests/swapping."""
    model, inputs = of_transformers(kind, way)
    own, _ = result(model, inputs, None)
    same, calls = result(model, inputs, "model")
    assert relative(same, own) < 1e-5
    assert len(calls) == {"t5": 6, "swinv2": 4}.get(kind, 2)
    assert relative(result(model, inputs, LESS)[0], own) > 1e-3


@pytest.mark.parametrize("softcap", [None, 5.0])
@pytest.mark.parametrize("in_place", [False, True])
def test_attention_that_is_written_out(softcap: float | None, in_place: bool) -> None:
    torch.manual_seed(0)
    model, x = Written(softcap, in_place).eval(), torch.randn(2, 10, 32)
    own, _ = result(model, x, None)
    torch.testing.assert_close(own, model(x))
    assert relative(result(model, x, "model")[0], own) < 1e-6
    assert relative(result(model, x, "sparsemax")[0], own) > 1e-3


def test_modules_of_torch() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model, padding = nn.TransformerEncoder(layer, 2).eval(), torch.zeros(2, 10, dtype=torch.bool)
    padding[1, 7:] = True
    inputs = {"src": torch.randn(2, 10, 32), "src_key_padding_mask": padding}
    own, _ = result(model, inputs, None)
    assert relative(result(model, inputs, "model")[0][~padding], own[~padding]) < 1e-6
    assert relative(result(model, inputs, LESS)[0], own) > 1e-3


def test_one_head_by_hand_in_a_model_that_relies_on_strides() -> None:
    torch.manual_seed(0)
    model, x = Strides().eval(), torch.randn(2, 7, 32)
    q, k, v = model.heads(x)
    mask = torch.ones(7, 7, dtype=torch.bool).tril()
    scales = torch.tensor([8**-0.5, 1 / 8, 8**-0.5, 8**-0.5])[:, None, None]
    outputs = (q @ k.mT * scales).masked_fill(~mask, -torch.inf).softmax(-1) @ v
    expected = model.out(outputs.transpose(1, 2).reshape(2, 7, 32))
    found, calls = result(model, x, LESS, layers=["Strides"], heads=[1])
    torch.testing.assert_close(found, expected)
    assert calls == {"Strides": 1}
    assert model(x).requires_grad, "the model is as before"


LAYERS: dict[Any, list[int]] = {  # of twelve layers by ranges, names and patterns, as for `capture`
    "layers.[03].attention": [0, 3],
    "0,5-7": [0, 5, 6, 7],
    ("3-4", "*.7.*", 9): [3, 4, 7, 9],
    3: [3],
}


class Twelve(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleDict({"attention": Strides()}) for _ in range(12))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer["attention"](x)  # type: ignore[index]
        return x


@pytest.mark.parametrize("layers", LAYERS, ids=str)
def test_layers_by_ranges_and_patterns(layers: Any) -> None:
    """The study chooses the same layers as `Swap`, and for text alone the same as `Capture`."""
    model, x = Twelve().eval(), torch.randn(1, 4, 32)
    chosen = [f"layers.{number}.attention" for number in LAYERS[layers]]
    assert [*result(model, x, "zero", layers=layers)[1]] == chosen
    found = attncli.swap(model, x, scorers=["sparsemax"], by="layer", layers=layers)
    assert [row["layer"] for row in found.records if row["label"] == "zero"] == chosen
    if isinstance(layers, str):
        with attncli.Capture(layers=layers) as seen, torch.no_grad():
            seen.take_names(model)
            model(x)
        assert [record.layer for record in seen.records] == chosen


def test_a_pattern_has_all_calls_of_a_layer_and_a_name_has_one() -> None:
    model, inputs = of_transformers("albert", "sdpa")
    first, second = result(model, inputs, "zero")[1]
    assert [*result(model, inputs, "zero", layers=["*attention*"])[1]] == [first, second]
    assert [*result(model, inputs, "zero", layers=[first])[1]] == [first]


def test_a_name_of_digits_is_a_name() -> None:
    model, x = nn.Sequential(nn.Identity(), Strides()).eval(), torch.randn(1, 4, 32)
    assert [*result(model, x, "zero", layers=["1"])[1]] == ["1"]
    assert [*result(model, x, "zero", layers=[0])[1]] == ["1"]


def test_a_module_that_runs_twice_is_two_calls_and_a_cache_is_followed() -> None:
    model, inputs = of_transformers("albert", "sdpa")
    _, calls = result(model, inputs, "zero")
    (first, second) = calls
    assert second == f"{first}#1"
    assert result(model, inputs, "zero", layers=[1])[1] == {second: 1}
    model, inputs = of_transformers("gqa", "sdpa")
    options = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    own = model.generate(**inputs, **options)  # type: ignore[operator]
    with attncli.Swap("model") as swap:
        swap.take_names(model)
        assert torch.equal(model.generate(**inputs, **options), own)  # type: ignore[operator]
    assert set(swap.swapped.values()) == {4}


def test_weights_that_a_model_returns_stay_its_own() -> None:
    model, inputs = of_transformers("bert", "eager")
    own = model(**inputs, output_attentions=True).attentions
    with attncli.Swap("uniform", layers=[0]) as swap:
        swap.take_names(model)
        torch.testing.assert_close(model(**inputs, output_attentions=True).attentions[0], own[0])


def test_inference_mode_and_bfloat16() -> None:
    model, inputs = of_transformers("gqa", "sdpa")
    model = model.bfloat16()
    with torch.inference_mode():
        own, _ = result(model, inputs, None)
        same, _ = result(model, inputs, "model")
        assert same.dtype == torch.bfloat16
        assert relative(same.float(), own.float()) < 0.05


@pytest.mark.parametrize(
    ("model", "entry", "where", "message"),
    [
        (Relu(), "model", {}, "attention was not replaced: Relu: relu in place of a softmax"),
        (tower()[0], "model", {"layers": ["third"]}, '"third"; no layer with attention; known: first, second'),
        (Mixed(), "model", {"layers": ["*st"]}, "last: its attention was not replaced: relu in place"),
        (tower()[0], "model", {"heads": [4]}, "got 4; expected 0 to 3, of the 4 heads of first"),
        (tower()[0].train(), {"scorer": "dott"}, {}, "did you mean `dot`"),
        (nn.Linear(32, 4), "model", {}, "attention was not replaced: none ran"),
    ],
)
def test_what_cannot_be_replaced(model: nn.Module, entry: Any, where: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message.replace("[", r"\[")):
        result(model, torch.randn(2, 7, 32), entry, **where)


def test_dropout_is_refused() -> None:
    model, inputs = of_transformers("bert", "sdpa")
    with pytest.raises(InputError, match="it ran with dropout"):
        result(model.train(), inputs, "model")


def test_one_swap_serves_again() -> None:
    model, inputs = tower()
    swap, outputs = attncli.Swap("dot"), []
    for _ in range(2):
        with swap, torch.no_grad():
            outputs.append(model(*inputs) if isinstance(inputs, tuple) else model(inputs))
        assert len(swap.swapped) == len(set(swap.swapped)) > 0
        assert set(swap.swapped.values()) == {1}
    torch.testing.assert_close(*outputs, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"heads": []}, r"heads: got \[\]; expected at least 1 entry"),
        ({"heads": [True]}, r"heads\[0\]: got true; expected an integer"),
        ({"layers": range(0)}, r"layers: got \[\]; expected at least 1 entry"),
        ({"layers": [-1]}, r"layers\[0\]: got -1; expected the name of a layer, or its number from 0"),
    ],
)
def test_places_that_are_no_lists_of_numbers(where: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        attncli.Swap("dot", **where)


def test_a_swap_has_no_query_to_explain() -> None:
    model, inputs = tower()
    result = attncli.swap(model, inputs, scorers=["dot"], by="all")
    with pytest.raises(InputError) as caught:
        result.explain()
    expected = 'result.explain: got "swap"; only experiments of the study attention have queries to explain'
    assert str(caught.value) == expected


def test_arguments_of_the_function() -> None:
    model, inputs = tower()
    for scorers, message in ((5, "scorers: got 5; expected a list"), (["dots"], "did you mean `dot`")):
        with pytest.raises(InputError, match=message):
            attncli.swap(model, inputs, scorers=scorers)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="model: got 5; expected a torch module"):
        attncli.swap(5, inputs)
    with pytest.raises(InputError, match="running the model gave AttributeError: 'list'"):
        attncli.swap(model, ([inputs, inputs],))
    with pytest.raises(InputError, match=r"heads: got \[0\]; they are for `by: head`"):
        attncli.swap(model, inputs, heads=[0])
    with pytest.raises(InputError, match="which are 1,000,000,000 numbers; expected at most 100,000"):
        attncli.sweep("d2l", over={"seed": range(10**9)})
