"""One name for a layer, with and without a head of the model, and the longer name wherever a layer is chosen."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

import attncli
from attncli.catalogue.fitted import METADATA
from attncli.config.tensors import CapturedData
from attncli.errors import InputError
from attncli.sources.captured import read_calls
from tests.models.families import SMALL, of_transformers
from tests.models.written import Computed

NAMES = ["layers.0.self_attn", "layers.1.self_attn"]
LONG = [f"model.{name}" for name in NAMES]
CHOICES: list[tuple[Any, list[str]]] = [
    (1, NAMES[1:]),
    ("0-1", NAMES),
    (LONG[0], NAMES[:1]),
    ("model.layers.*", NAMES),
    (["*.0.self_attn", 1], NAMES),
]


@pytest.fixture(scope="module")
def model() -> tuple[Any, dict[str, Any]]:
    return of_transformers("gqa", "sdpa")


def names_of(seen: attncli.Capture) -> list[str]:
    return [record.name for record in seen.records]


def test_a_head_and_a_compiler_change_no_name(model: tuple[Any, dict[str, Any]]) -> None:
    with_head, inputs = model
    assert names_of(attncli.capture(with_head, **inputs)) == NAMES
    assert names_of(attncli.capture(with_head.model, **inputs)) == NAMES
    assert names_of(attncli.capture(torch.compile(with_head, backend="eager"), **inputs)) == NAMES
    bert = transformers.BertForSequenceClassification(transformers.BertConfig(**SMALL)).eval()
    (name, _) = names_of(attncli.capture(bert, input_ids=inputs["input_ids"]))
    assert name == "encoder.layer.0.attention.self"


def test_two_layers_never_share_a_name() -> None:
    first, inner, second = (nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(3))
    inner.a = second
    model = Computed(
        lambda module, x: module.model.a(module.a(x, x, x)[0], x, x), a=first, model=inner, base_model_prefix="model"
    )
    assert names_of(attncli.capture(model, torch.randn(1, 3, 8))) == ["a", "model.a"]


@pytest.mark.parametrize(("layers", "expected"), CHOICES)
def test_a_layer_is_chosen_in_one_way(
    layers: Any, expected: list[str], model: tuple[Any, dict[str, Any]], here: Path
) -> None:
    with_head, inputs = model
    for each in (with_head, with_head.model):
        with torch.no_grad(), attncli.Capture(layers) as seen, attncli.Swap("uniform", layers=layers) as swap:
            each(**inputs)
        assert names_of(seen) == list(swap.swapped) == expected
        with (
            torch.no_grad(),
            attncli.Swap(dict.fromkeys([layers] if isinstance(layers, int | str) else layers, "zero")) as swap,
        ):
            each(**inputs)
        assert list(swap.swapped) == expected
        attncli.save(attncli.capture(each, **inputs), "seen.safetensors", overwrite=True)
        data = CapturedData.model_validate({"capture": "seen.safetensors", "layers": layers})
        calls = [each.call for each in read_calls(data, torch.float32, torch.device("cpu"))[1]]
        assert [call.name for call in calls if call is not None] == expected
    result = attncli.swap(with_head, **inputs, scorers=["cosine"], by="layer", layers=layers)
    assert [row["layer"] for row in result.records if row["label"] == "cosine"] == expected


@pytest.mark.parametrize("layers", ["decoder.*", "decoder.layers.0.self_attn"])
@torch.no_grad()
def test_only_the_models_own_prefix_is_accepted(layers: str, model: tuple[Any, dict[str, Any]]) -> None:
    with_head, inputs = model
    with pytest.raises(InputError, match="no layer with attention"), attncli.Swap("zero", layers=layers):
        with_head(**inputs)


def test_a_fit_with_longer_names_is_read(model: tuple[Any, dict[str, Any]], here: Path) -> None:
    """Files of 0.4.0 have the names of the model with its head."""
    with_head, inputs = model
    attncli.fit(with_head, inputs, scorers=["cosine"], steps=2, out="fit")
    file = Path("fit/fitted.safetensors")
    entry = [{"fitted": "fit", "label": "cosine"}]
    new = attncli.swap(with_head, **inputs, scorers=entry, by="layer").records
    with safe_open(file, framework="pt") as opened:
        content = json.loads(opened.metadata()[METADATA])
    content["layers"] = {f"model.{name}": facts for name, facts in content["layers"].items()}
    tensors = {name.replace("/layers", "/model.layers"): tensor for name, tensor in load_file(file).items()}
    save_file(tensors, file, {METADATA: json.dumps(content)})
    old = attncli.swap(with_head, **inputs, scorers=entry, by="layer").records
    for row in [*new, *old]:
        del row["seconds"]
    assert old == new
