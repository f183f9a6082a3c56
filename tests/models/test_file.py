"""The file of a capture: its tensors and its JSON, read again, and refused where something is wrong with it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

import attncli
from attncli.errors import InputError
from attncli.models.tokens import text_padding
from attncli.sources.captured import is_captured, read_captured
from tests.models.written import FLOAT_MASK, KEYS, MASK, QUERIES, VALUES, Computed, normal

ROLES = ("queries", "keys", "values", "output", "valid", "bias", "sinks")


@pytest.fixture
def file(here: Path) -> Path:
    """Save two layers with the same masks, one of them called twice, and a layer that cannot be followed."""

    def masked(_: nn.Module, queries: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(queries, KEYS, VALUES, FLOAT_MASK, scale=0.5)

    model = Computed(
        lambda module, queries: [getattr(module, name)(queries) for name in ("first", "second", "first", "third")],
        first=Computed(masked),
        second=Computed(masked),
        third=Computed(lambda _, queries: torch.relu(queries @ KEYS.mT) @ VALUES),
    )
    attncli.save(attncli.capture(model, QUERIES), "seen.safetensors", model="mine", text="a b")
    return Path("seen.safetensors")


def one_call() -> attncli.Capture:
    return attncli.capture(lambda: F.scaled_dot_product_attention(QUERIES, KEYS, VALUES))


def metadata(file: Path) -> dict[str, Any]:
    with safe_open(file, framework="pt") as opened:
        (text,) = opened.metadata().values()
    content: dict[str, Any] = json.loads(text)
    return content


def changed(file: Path, change: Callable[[dict[str, Any], dict[str, torch.Tensor]], None]) -> Path:
    """Return a copy of the file with changed content."""
    content, tensors = metadata(file), load_file(file)
    change(content, tensors)
    save_file(tensors, file, {"attncli": json.dumps(content)})
    return file


def test_what_the_file_holds(file: Path) -> None:
    tensors, content = load_file(file), metadata(file)
    names = [f"{layer}.{role}" for layer in ("first", "second", "first#1") for role in ROLES[:4]]
    assert set(tensors) == {*names, "first.valid", "first.bias"}, "masks that are the same once"
    assert_close(tensors["first#1.queries"], QUERIES)
    assert tensors["first.valid"].dtype == torch.bool
    layers = content.pop("layers")
    facts = {"version": 1, "model": "mine", "text": "a b", "without_weights": []}
    facts |= dict.fromkeys(("revision", "tokens", "padding", "transformers"))
    assert content == {**facts, "torch": torch.__version__}
    assert list(layers) == ["first", "second", "first#1", "third"]
    second = layers["second"]
    facts = {"class": "Computed", "how": "function", "scale": 0.5, "pre_scale": 1.0, "groups": 1, "empty_row": "zero"}
    facts |= {"valid": "first.valid", "bias": "first.bias", **dict.fromkeys(("heads", "softcap", "problem"))}
    assert second == {**facts, "error": pytest.approx(0, abs=1e-5), "summary": second["summary"]}
    assert "relu in place of a softmax" in layers["third"]["problem"]


def test_a_file_without_summaries_has_them_when_it_is_read(file: Path) -> None:
    """So have files of 0.4.0. A run of doctor keeps them."""
    stored = {name: layer.get("summary") for name, layer in metadata(file)["layers"].items()}

    def change(content: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        del content["without_weights"]
        for layer in content["layers"].values():
            layer.pop("summary", None)

    result = attncli.run({"study": "doctor", "data": {"capture": str(changed(file, change))}}, out="checked")
    assert result.summaries == {name: summary for name, summary in stored.items() if name != "third"}
    assert attncli.load("checked").summaries == result.summaries
    assert json.loads(Path("checked/results.json").read_text())["summaries"] == result.summaries


def test_what_is_read_is_what_was_seen(file: Path) -> None:
    captured = read_captured(file)
    assert captured.about["text"] == "a b"
    assert captured.usable == ["first", "second", "first#1"]
    record = captured.read("first#1")
    assert (record.name, record.layer, record.call, record.kind, record.scale) == (
        "first#1",
        "first",
        1,
        "Computed",
        0.5,
    )
    assert_close(record.valid, MASK)
    assert_close(record.rescored(), record.output, rtol=0, atol=1e-5)
    assert is_captured(file)


def test_nothing_is_replaced_by_accident(file: Path) -> None:
    seen = one_call()
    with pytest.raises(InputError, match=r"which exists; expected a new file; overwrite=True replaces it"):
        attncli.save(seen, file)
    with pytest.raises(InputError, match=r"expected a name that ends in .safetensors"):
        attncli.save(seen, "seen.pt")
    attncli.save(seen, file, overwrite=True)
    assert list(read_captured(file).layers) == ["function"]
    assert [path.name for path in Path().iterdir()] == [file.name]


WRONG: dict[str, tuple[Callable[[dict[str, Any], dict[str, torch.Tensor]], object], str]] = {
    "version": (lambda content, _: content.update(version=2), "its format is 2; this version of attncli reads 1"),
    "no layers": (lambda content, _: content.pop("layers"), "what it says of its layers cannot be read"),
    "no scale": (lambda content, _: content["layers"]["first"].update(pre_scale=0), "what it says of its layers"),
    "heads": (lambda content, _: content["layers"]["first"].update(heads=[0]), "do not fit"),
    "keys of another size": (lambda _, tensors: tensors.update({"first.keys": normal(2, 4, 3, 8)}), "do not fit"),
    "a mask of another size": (lambda _, tensors: tensors.update({"first.valid": MASK[..., :3].clone()}), "do not fit"),
    "truth values": (lambda _, tensors: tensors.update({"first.output": tensors["first.output"] > 0}), "do not fit"),
    "nothing": (lambda _, tensors: tensors.update({name: each[:0] for name, each in tensors.items()}), "do not fit"),
    "no values": (lambda _, tensors: tensors.pop("first.values"), "holds no tensor of real numbers with this name"),
}


@pytest.mark.parametrize("name", WRONG)
def test_files_that_are_wrong(name: str, file: Path) -> None:
    change, reason = WRONG[name]
    changed(file, lambda content, tensors: (change(content, tensors), None)[1])
    with pytest.raises(InputError, match=reason):
        read_captured(file).read("first")


@pytest.mark.parametrize("about", [float("nan"), b"text", {1, 2}, "\ud800", [float("inf")]])
def test_metadata_that_json_cannot_hold(about: Any, here: Path) -> None:
    with pytest.raises(InputError, match=r"^attncli.save: text: got .*; expected text, or what else JSON can"):
        attncli.save(one_call(), "seen.safetensors", text=about)
    assert not list(here.iterdir())


@pytest.mark.parametrize("mask", [{"full_attention": torch.ones(2, 3)}, "text", None, {1}, [[]]])
def test_an_attention_mask_without_numbers_says_nothing_of_padding(mask: Any) -> None:
    assert text_padding({"attention_mask": mask}) is None
