"""Configs, run folders and tensor files give the same tensors. The tests of studies have wrong sources."""

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor
from torch.testing import assert_close

from attncli.engine.runs.saving import save_named
from attncli.errors import InputError
from attncli.models.inputs import Inputs
from attncli.sources.source import read_source
from tests.experiments import call_inputs, result_of


def read(path: Path, notes: list[str] | None = None) -> Inputs:
    """Return the inputs in a source without layers."""
    (inputs,) = read_source(path, ([] if notes is None else notes).append).values()
    return inputs


DATA: dict[str, Any] = {
    "queries": {"shape": [2, 3, 4, 5]},
    "keys": {"shape": [2, 3, 6, 5]},
    "values": {"shape": [1, 6, 2]},
    "valid_lens": [2, 6],
}
CONFIG: dict[str, Any] = {"seed": 7, "data": DATA, "mask": {"causal": "top_left"}}


@pytest.mark.parametrize("source", ["own.yaml", ".", "qkv.safetensors"])
def test_every_kind_of_source_gives_the_same(source: str, tmp_path: Path) -> None:
    result, expected = result_of(**CONFIG), call_inputs(**CONFIG)
    tensors = {name: result.inputs[name].contiguous() for name in ("queries", "keys", "values", "valid")}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(CONFIG | {"scorers": ["of no interest"]}))
    save_named(tmp_path / "tensors.safetensors", {**result.inputs, **result.tensors})
    save_named(tmp_path / "qkv.safetensors", {**tensors})
    got = read(tmp_path / source)
    for role in ("queries", "keys", "values"):
        assert_close(getattr(got, role), getattr(expected, role), rtol=0, atol=0)
    assert torch.equal(got.valid.whole, expected.valid.whole)


@pytest.mark.parametrize("batch", [None, 1, 2])
def test_values_may_be_left_out(batch: int | None, tmp_path: Path) -> None:
    values = {} if batch is None else {"values": torch.ones(batch, 4, 2)}
    save_named(tmp_path / "a.safetensors", {"queries": torch.ones(3, 5), "keys": torch.ones(4, 5), **values})
    inputs = read(tmp_path / "a.safetensors")
    assert inputs.values.shape == (batch or 1, 4, 2 if values else 0)
    assert inputs.queries.shape == (batch or 1, 3, 5)
    assert inputs.valid.is_full


QK = {"queries": torch.ones(2, 3, 4), "keys": torch.ones(2, 5, 4)}
CAUSAL = torch.ones(3, 5).tril().bool()
NOT_THE_FIRST = torch.arange(5).expand(3, 5) > 0
LENGTHS = torch.tensor([4, 2])
WITHIN = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]]).bool()[:, None]  # LENGTHS as a mask, b 1 m
NAMES = "; a mask is named valid or mask, lengths are named valid_lens"
READINGS: dict[str, tuple[dict[str, Tensor], Tensor, list[str]]] = {
    "nothing": ({}, torch.ones(1, 1, 1).bool(), []),
    "valid": ({"valid": CAUSAL}, CAUSAL, []),
    "valid keys": (
        {"valid": WITHIN[:, 0].long()}, WITHIN, ["a.pt: valid: shape [2, 5], read as (batch, keys)"],
    ),
    "lengths": ({"valid_lens": LENGTHS}, WITHIN, []),
    "several": (
        {"valid_lens": LENGTHS, "valid": CAUSAL, "mask": NOT_THE_FIRST, "bias": torch.ones(3, 5), "x": LENGTHS},
        WITHIN & CAUSAL & NOT_THE_FIRST,
        [
            "a.pt: mask: each text keeps keys 1 to 4; if 1 means to ignore a key, "
            "use a config with `mask: {file, tensor: mask, invert: true}`",
            f"a.pt: not used: bias, x{NAMES}",
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", READINGS)
def test_masks_lengths_and_whatever_else_a_file_has(name: str, tmp_path: Path) -> None:
    beside, valid, said = READINGS[name]
    torch.save(QK | beside, tmp_path / "a.pt")
    notes: list[str] = []
    inputs = read(tmp_path / "a.pt", notes)
    assert torch.equal(inputs.valid.whole, valid.expand(2, 3, 5))
    assert notes == said


def test_masks_that_are_none(tmp_path: Path) -> None:
    for tensor, message in (
        (CAUSAL.float(), "floats; expected True and False"),
        (CAUSAL.mT, r"shape \[5, 3\]; expected"),
    ):
        torch.save(QK | {"valid": tensor}, tmp_path / "a.pt")
        with pytest.raises(InputError, match=f'got "valid" of .*, {message}'):
            read(tmp_path / "a.pt")


def test_a_run_needs_no_notes(tmp_path: Path) -> None:
    """The results of a run in the same file are no unused tensors, but those of a file that only has the name are."""
    save_named(tmp_path / "tensors.safetensors", {**QK, "dot/curve": torch.ones(2)})
    (tmp_path / "results.json").write_text("{}")
    notes: list[str] = []
    for source in (tmp_path, tmp_path / "tensors.safetensors"):
        assert read(source, notes).valid.is_full
    assert notes == []
    (tmp_path / "results.json").unlink()
    read(tmp_path / "tensors.safetensors", notes)
    assert notes == [f"tensors.safetensors: not used: dot/curve{NAMES}"]


def test_a_bias_is_no_part_of_queries_and_keys(tmp_path: Path) -> None:
    bias = [0.5, 0, -torch.inf, 0, 0, 0]
    result = result_of(data=DATA | {"bias": bias})
    save_named(tmp_path / "tensors.safetensors", result.inputs)
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({"data": DATA | {"bias": bias}}))
    notes: list[str] = []
    for source in (tmp_path, tmp_path / "own.yaml"):
        valid = read(source, notes).valid.whole
        assert torch.equal(valid, result.inputs["valid"])
        assert not bool(valid[..., 2].any())
    assert notes[:2] == [
        f"{tmp_path.name}: bias: a bias is added to scores, and is not used here",
        "own.yaml: data.bias: a bias is added to scores, and is not used here",
    ]
