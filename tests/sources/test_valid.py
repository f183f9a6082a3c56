"""Valid lengths and masks of a config against slow loops."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from attncli.models.inputs import Inputs
from tests.experiments import call_inputs

B, N, M = 2, 3, 5


def inputs(
    folder: Path | None = None, /, leading: tuple[int, ...] = (B,), n: int = N, m: int = M, **keys: Any
) -> Inputs:
    """Return inputs with scores of shape (*leading, n, m)."""
    data = {"queries": {"shape": [*leading, n, 4]}, "keys": {"shape": [*leading, m, 4]}, **keys.pop("data", {})}
    return call_inputs(folder, data=data, **keys)


def lengths(*args: Any, **keys: Any) -> Tensor:
    found = inputs(*args, **keys).valid.lengths
    assert found is not None
    return found


def test_random_lengths_have_both_ends_and_follow_the_seed() -> None:
    def drawn(n: int = 1, seed: int = 0) -> Tensor:
        return lengths(leading=(3000,), n=n, m=6, data={"valid_lens": {"random": [2, 5]}}, seed=seed)

    counts = drawn().bincount(minlength=7).tolist()
    assert counts[:2] + counts[6:] == [0, 0, 0]
    assert all(abs(count - 750) < 5 * (3000 * 0.25 * 0.75) ** 0.5 for count in counts[2:6])
    assert torch.equal(drawn(), drawn(n=7))
    assert not torch.equal(drawn(), drawn(seed=1))


@pytest.mark.parametrize("name", ["lens.npy", "lens.safetensors", "lens.csv"])
@pytest.mark.parametrize("given", [[2, 5], [[1, 2, 3], [5, 0, 4]]])
def test_lengths_in_files(name: str, given: list[Any], tmp_path: Path) -> None:
    if name == "lens.npy":
        np.save(tmp_path / name, np.array(given, dtype=np.int32))
    elif name == "lens.csv":
        np.savetxt(tmp_path / name, np.atleast_2d(given), fmt="%d", delimiter=",")
    else:
        save_file({"lens": torch.tensor(given)}, tmp_path / name)
    assert lengths(tmp_path, data={"valid_lens": {"file": name}}).tolist() == given


def test_a_column_of_lengths(tmp_path: Path) -> None:
    """One for each batch element; where there is one query, a length for it, which is the same."""
    (tmp_path / "lens.csv").write_text("2\n5\n")
    for n, expected in ((3, [2, 5]), (1, [[2], [5]])):
        assert lengths(tmp_path, n=n, data={"valid_lens": {"file": "lens.csv"}}).tolist() == expected


@pytest.mark.parametrize("given", [[0, 4], [[1, 2, 3], [5, 0, 4]]], ids=["per example", "per query"])
@pytest.mark.parametrize("causal", [False, "top_left", "bottom_right"])
@pytest.mark.parametrize("with_file", [False, True])
def test_lengths_causal_and_file_are_joined(given: Any, causal: Any, with_file: bool, tmp_path: Path) -> None:
    """For all heads of an example."""
    mask = np.random.default_rng(3).random((B, 1, N, M)) < (0.5 if with_file else 1)
    np.save(tmp_path / "mask.npy", mask)
    keys = {"causal": causal, **({"file": "mask.npy"} if with_file else {})}
    joined = inputs(tmp_path, (B, 2), data={"valid_lens": given}, mask=keys).valid
    assert torch.equal(joined.empty_rows, ~joined.whole.any(-1))
    late = {False: M, "top_left": 0, "bottom_right": M - N}[causal]
    for i, h, q, j in product(range(B), range(2), range(N), range(M)):
        length = given[i][q] if isinstance(given[i], list) else given[i]
        assert joined.whole[i, h, q, j] == (j < length and j <= q + late and mask[i, 0, q, j])
