"""Configs, run folders and tensor files give the same tensors. What is refused, the studies' tests show."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch import Tensor
from torch.testing import assert_close

from attncli.errors import InputError
from attncli.inputs.source import read_source
from attncli.runs.saving import save_named
from tests.experiments import inputs_of, result_of

DATA: dict[str, Any] = {
    "queries": {"shape": [2, 3, 4, 5]},
    "keys": {"shape": [2, 3, 6, 5]},
    "values": {"shape": [1, 6, 2]},
    "valid_lens": [2, 6],
}


def written(kind: str, folder: Path) -> Path:
    """The same inputs as a config, a run folder, or a file of each format that has names."""
    inputs = inputs_of(data=DATA, seed=7, mask={"causal": "top_left"})
    tensors = {"q": inputs.queries, "K": inputs.keys, "value": inputs.values}
    named = {name: tensor.contiguous() for name, tensor in (tensors | {"valid": inputs.valid.whole}).items()}
    if kind == "config":
        experiment = {"seed": 7, "data": DATA, "mask": {"causal": "top_left"}, "scorers": ["of no interest"]}
        (folder / "own.yaml").write_text(yaml.safe_dump(experiment))
        return folder / "own.yaml"
    if kind == "run":
        result = result_of(data=DATA, seed=7, mask={"causal": "top_left"})
        save_named(folder / "tensors.safetensors", {**result.inputs, **result.tensors})
        return folder
    path = folder / f"qkv{kind}"
    if kind == ".npz":
        np.savez(path, allow_pickle=False, **{name: tensor.numpy() for name, tensor in named.items()})
    elif kind == ".pt":
        torch.save(named, path)
    else:
        save_named(path, named)
    return path


@pytest.mark.parametrize("kind", ["config", "run", ".npz", ".pt", ".safetensors"])
def test_every_kind_of_source_gives_the_same(kind: str, tmp_path: Path) -> None:
    expected, got = inputs_of(data=DATA, seed=7, mask={"causal": "top_left"}), read_source(written(kind, tmp_path))
    for role in ("queries", "keys", "values"):
        assert_close(getattr(got, role), getattr(expected, role), rtol=0, atol=0)
    assert torch.equal(got.valid.whole, expected.valid.whole)


@pytest.mark.parametrize(
    ("values", "shape"),
    [({}, (1, 4, 0)), ({"V": torch.ones(4, 2)}, (1, 4, 2)), ({"v": torch.ones(2, 4, 2)}, (2, 4, 2))],
)
def test_values_may_be_left_out(values: dict[str, Tensor], shape: tuple[int, ...], tmp_path: Path) -> None:
    save_named(tmp_path / "a.safetensors", {"q": torch.ones(3, 5), "k": torch.ones(4, 5), **values})
    inputs = read_source(tmp_path / "a.safetensors")
    assert inputs.values.shape == shape
    assert inputs.queries.shape == (shape[0], 3, 5)
    assert inputs.valid.is_full


def test_values_that_do_not_fit(tmp_path: Path) -> None:
    save_named(tmp_path / "a.safetensors", {"q": torch.ones(3, 5), "k": torch.ones(4, 5), "v": torch.ones(3, 5)})
    with pytest.raises(InputError, match=r"whose values have 3 values; expected 4, one for each key"):
        read_source(tmp_path / "a.safetensors")


def test_a_size_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    def refuse(shapes: Any) -> None:
        raise InputError.of(f"too large: {shapes['keys']}", ["data"])

    with pytest.raises(InputError, match=r"own.yaml:2:3: data: too large: \(2, 3, 6, 5\)"):
        read_source(written("config", tmp_path), refuse)
