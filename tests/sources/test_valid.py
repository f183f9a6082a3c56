"""Valid lengths and masks of a config against slow loops."""

from collections.abc import Callable
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


def valid(*args: Any, **keys: Any) -> list[Any]:
    """Return the whole mask of the inputs."""
    mask = inputs(*args, **keys).valid
    assert mask.whole.dtype == torch.bool
    assert torch.equal(mask.empty_rows, ~mask.whole.any(-1))
    full: list[Any] = mask.whole.tolist()
    return full


def lengths(*args: Any, **keys: Any) -> Tensor:
    found = inputs(*args, **keys).valid.lengths
    assert found is not None
    return found


def seen(length: Callable[[int, int], int], n: int = N, m: int = M) -> list[list[list[bool]]]:
    """Return the mask where key j is valid for query q of batch element i if j < length(i, q)."""
    return [[[j < length(i, q) for j in range(m)] for q in range(n)] for i in range(B)]


def test_without_lengths_and_mask_nothing_is_masked() -> None:
    for mask in (inputs().valid, inputs(mask={"causal": False}).valid):
        assert mask.is_full
        assert mask.joined is None
        assert bool(mask.whole.all())


def test_lengths_per_example_or_per_query_for_all_heads() -> None:
    given = [[1, 2, 3], [5, 0, 4]]
    assert valid(data={"valid_lens": [0, 5]}) == seen(lambda i, q: [0, 5][i])
    heads = valid(leading=(B, 2), data={"valid_lens": given})
    assert heads == [[example, example] for example in seen(lambda i, q: given[i][q])]
    assert valid(leading=(), data={"valid_lens": [[1, 2, 3]]}) == [[[j < k for j in range(M)] for k in (1, 2, 3)]]


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


def test_lengths_causal_and_file_are_joined(tmp_path: Path) -> None:
    given, mask = [[1, 2, 3], [5, 0, 4]], np.random.default_rng(3).random((B, N, M)) < 0.5
    np.save(tmp_path / "mask.npy", mask)
    for causal, late in (("bottom_right", M - N), ("top_left", 0)):
        joined = valid(tmp_path, data={"valid_lens": given}, mask={"causal": causal, "file": "mask.npy"})
        for i, q, j in product(range(B), range(N), range(M)):
            assert joined[i][q][j] == (j < given[i][q] and j <= q + late and mask[i, q, j])
