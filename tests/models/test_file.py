"""The file of a capture: its tensors and its JSON, read again, and refused where something is wrong with it."""

import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

import attncli
from attncli.config.tensors import CapturedData
from attncli.errors import InputError
from attncli.models.tokens import text_padding
from attncli.sources.captured import is_captured, read_calls, read_captured
from tests.models.written import BIAS, KEYS, MASK, QUERIES, VALUES, normal

PARTS = ("queries", "keys", "values", "output", "valid", "bias", "sinks")


@pytest.fixture
def file(here: Path) -> Path:
    """Save two layers with the same masks, one of them called twice, and a layer that cannot be followed."""

    class Masked(nn.Module):
        def forward(self, queries: torch.Tensor) -> torch.Tensor:
            mask = BIAS.masked_fill(~MASK, -torch.inf)
            return F.scaled_dot_product_attention(queries, KEYS, VALUES, mask, scale=0.5)

    class Relu(nn.Module):
        def forward(self, queries: torch.Tensor) -> torch.Tensor:
            return torch.relu(queries @ KEYS.mT) @ VALUES

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.third = Masked(), Masked(), Relu()

        def forward(self, queries: torch.Tensor) -> None:
            for layer in (self.first, self.second, self.first, self.third):
                layer(queries)

    attncli.save(attncli.capture(Model(), QUERIES), "seen.safetensors", model="mine", text="a b")
    return Path("seen.safetensors")


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


def test_an_ending_in_capitals(here: Path) -> None:
    capitals = here / "seen.SAFETENSORS"
    attncli.save(attncli.capture(lambda: F.scaled_dot_product_attention(QUERIES, KEYS, VALUES)), capitals)
    assert is_captured(capitals)
    assert {row["layer"] for row in attncli.run(capitals).records} == {"function"}


def test_what_the_file_holds(file: Path) -> None:
    tensors, content = load_file(file), metadata(file)
    names = [f"{layer}.{part}" for layer in ("first", "second", "first#1") for part in PARTS[:4]]
    assert set(tensors) == {*names, "first.valid", "first.bias"}, "masks that are the same once"
    assert_close(tensors["first#1.queries"], QUERIES)
    assert tensors["first.valid"].dtype == torch.bool
    assert {**content, "layers": 0, "torch": 0} == {
        "version": 1,
        "model": "mine",
        "revision": None,
        "text": "a b",
        "tokens": None,
        "padding": None,
        "without_weights": [],
        "torch": 0,
        "transformers": None,
        "layers": 0,
    }
    layers = content["layers"]
    assert list(layers) == ["first", "second", "first#1", "third"]
    assert 0 <= layers["second"].pop("error") < 1e-5
    product = float((QUERIES @ KEYS.mT).abs().masked_fill(~MASK, 0.0).max())
    assert layers["second"].pop("summary") == {
        "mask": "other",
        "padding": None,
        "scale": 0.5,
        "softcap": None,
        "groups": 1,
        "sinks": False,
        "largest_product": pytest.approx(product, rel=1e-5),
        "strongest_key": "key 0",
    }
    assert layers["second"] == {
        "class": "Masked",
        "how": "function",
        "scale": 0.5,
        "pre_scale": 1.0,
        "groups": 1,
        "heads": None,
        "softcap": None,
        "empty_row": "zero",
        "problem": None,
        "valid": "first.valid",
        "bias": "first.bias",
    }
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
    assert (record.name, record.layer, record.call, record.kind, record.scale) == ("first#1", "first", 1, "Masked", 0.5)
    assert_close(record.valid, MASK)
    assert_close(record.rescored(), record.output, rtol=0, atol=1e-5)
    assert is_captured(file)


def test_a_layer_that_is_called_like_a_later_call(file: Path) -> None:
    def change(content: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        content["layers"] = {"x#0": content["layers"]["first"]}
        tensors |= {f"x#0.{part}": tensors[f"first.{part}"].clone() for part in PARTS[:4]}

    assert list(attncli.run(changed(file, change)).layers) == ["x#0"]


def test_sinks_and_softcap_are_read(here: Path) -> None:
    sinks = normal(1, 4, 1, 1).expand(2, 4, 5, 1)

    def attention() -> torch.Tensor:
        scores = torch.cat([2 * torch.tanh(QUERIES @ KEYS.mT / 2), sinks], -1)
        return scores.softmax(-1)[..., :-1] @ VALUES

    seen = attncli.capture(attention)
    attncli.save(seen, "sinks.safetensors")
    record = read_captured(Path("sinks.safetensors")).read("function")
    assert (record.softcap, record.bias, record.valid) == (2.0, None, None)
    assert_close(record.weights(), seen.records[0].weights())


def test_nothing_is_replaced_by_accident(file: Path) -> None:
    seen = attncli.capture(lambda: F.scaled_dot_product_attention(QUERIES, KEYS, VALUES))
    with pytest.raises(InputError, match=r"which exists; expected a new file; overwrite=True replaces it"):
        attncli.save(seen, file)
    with pytest.raises(InputError, match=r"expected a name that ends in .safetensors"):
        attncli.save(seen, "seen.pt")
    attncli.save(seen, file, overwrite=True)
    assert list(read_captured(file).layers) == ["function"]
    assert [path.name for path in Path().iterdir()] == [file.name]


def in_groups_of_three(content: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    content["layers"]["first"]["groups"] = 3
    tensors |= {f"first.{part}": tensors[f"first.{part}"][:, :1].clone() for part in ("keys", "values")}


WRONG: dict[str, tuple[Callable[[dict[str, Any], dict[str, torch.Tensor]], object], str]] = {
    "version": (lambda content, _: content.update(version=2), "its format is 2; this version of attncli reads 1"),
    "no layers": (lambda content, _: content.pop("layers"), "what it says of its layers cannot be read"),
    "groups": (lambda content, _: content["layers"]["first"].update(groups=0), "what it says of its layers"),
    "no scale": (lambda content, _: content["layers"]["first"].update(pre_scale=0), "what it says of its layers"),
    "endless": (lambda content, _: content["layers"]["first"].update(scale=10**400), "what it says of its layers"),
    "heads": (lambda content, _: content["layers"]["first"].update(heads=[0]), "do not fit"),
    "an entry": (lambda content, _: content["layers"].update(first=3), "what it says of its layers"),
    "keys of another size": (lambda _, tensors: tensors.update({"first.keys": normal(2, 4, 3, 8)}), "do not fit"),
    "a mask of another size": (lambda _, tensors: tensors.update({"first.valid": MASK[..., :3].clone()}), "do not fit"),
    "a mask of numbers": (lambda _, tensors: tensors.update({"first.valid": MASK.float()}), "do not fit"),
    "heads that groups do not divide": (in_groups_of_three, "do not fit"),
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


def test_files_of_another_kind(here: Path) -> None:
    save_file({"queries": QUERIES}, "plain.safetensors")
    Path("broken.safetensors").write_bytes(b"x" * 9)
    assert not any(is_captured(Path(f"{name}.safetensors")) for name in ("plain", "broken", "missing"))


def test_reading_takes_as_many_steps_as_there_are_calls(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times as many calls take at most ten times as many function calls, and open the file equally often."""
    opened, steps, before = Counter[int](), Counter[int](), sys.getprofile()

    def noted(*args: Any, **kwargs: Any) -> Any:
        opened[layers] += 1
        return safe_open(*args, **kwargs)

    def count(frame: FrameType, event: str, function: object) -> None:
        steps[layers] += event in ("call", "c_call")

    for module in ("core.files", "sources.captured"):
        monkeypatch.setattr(f"attncli.{module}.safe_open", noted)
    heads = [each[:1, :1, :2] for each in (QUERIES, KEYS, VALUES)]
    for layers in (1, 4, 40):  # the first warms up: some work is done once per process
        seen = attncli.capture(lambda: F.scaled_dot_product_attention(heads[0], heads[1], heads[2]))
        seen.records = [replace(seen.records[0], layer=f"h.{i}", call=j) for j in range(4) for i in range(layers)]
        attncli.save(seen, f"{layers}.safetensors")
        data = CapturedData(capture=f"{layers}.safetensors")
        sys.setprofile(count)
        try:
            captured, read = read_calls(data, torch.float32, torch.device("cpu"))
        finally:
            sys.setprofile(before)
        assert len(read) == len(captured.layers) == 4 * layers
    assert opened[40] == opened[4] > 0
    assert steps[40] <= 10 * steps[4]


def one_call() -> attncli.Capture:
    return attncli.capture(lambda: F.scaled_dot_product_attention(QUERIES, KEYS, VALUES))


@pytest.mark.parametrize("about", [float("nan"), b"text", {1, 2}, "\ud800", [float("inf")]])
def test_metadata_that_json_cannot_hold(about: Any, here: Path) -> None:
    with pytest.raises(InputError, match=r"^attncli.save: text: got .*; expected text, or what else JSON can"):
        attncli.save(one_call(), "seen.safetensors", text=about)
    assert not list(here.iterdir())


def test_the_version_of_a_file_is_its_own(here: Path) -> None:
    attncli.save(one_call(), "seen.safetensors", version="mine", layers="mine")
    assert attncli.run({"data": {"capture": "seen.safetensors"}, "scorers": ["scaled_dot"]}).records


@pytest.mark.parametrize("mask", [{"full_attention": torch.ones(2, 3)}, "text", None, {1}, [[]]])
def test_an_attention_mask_without_numbers_says_nothing_of_padding(mask: Any) -> None:
    assert text_padding({"attention_mask": mask}) is None
