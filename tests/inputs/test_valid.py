"""Valid lengths and masks of a config against slow loops."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from attncli.errors import InputError
from attncli.inputs.build import Inputs
from tests.experiments import inputs_of

B, N, M = 2, 3, 5


def inputs(
    folder: Path | None = None, /, leading: tuple[int, ...] = (B,), n: int = N, m: int = M, **keys: Any
) -> Inputs:
    """Inputs with scores of shape (*leading, n, m)."""
    data = {"queries": {"shape": [*leading, n, 4]}, "keys": {"shape": [*leading, m, 4]}, **keys.pop("data", {})}
    return inputs_of(folder, data=data, **keys)


def valid(*args: Any, **keys: Any) -> list[Any]:
    """The mask of the inputs, in full."""
    made = inputs(*args, **keys).valid
    assert made.whole.dtype == torch.bool
    assert torch.equal(made.empty_rows, ~made.whole.any(-1))
    full: list[Any] = made.whole.tolist()
    return full


def lengths(*args: Any, **keys: Any) -> Tensor:
    made = inputs(*args, **keys).valid.lengths
    assert made is not None
    return made


def refused(folder: Path | None = None, /, **keys: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        inputs(folder, **keys)
    return [str(problem) for problem in caught.value.problems]


def seen(length: Callable[[int, int], int], n: int = N, m: int = M) -> list[list[list[bool]]]:
    """Key j of batch element i, query q is valid where j < length(i, q)."""
    return [[[j < length(i, q) for j in range(m)] for q in range(n)] for i in range(B)]


def test_without_lengths_and_mask_nothing_is_masked() -> None:
    for made in (inputs().valid, inputs(mask={"causal": False}).valid):
        assert made.is_full
        assert made.joined is None
        assert bool(made.whole.all())


def test_one_length_per_example() -> None:
    assert valid(data={"valid_lens": [0, 5]}) == seen(lambda i, q: [0, 5][i])


def test_one_length_per_query() -> None:
    given = [[1, 2, 3], [5, 0, 4]]
    assert valid(data={"valid_lens": given}) == seen(lambda i, q: given[i][q])


def test_lengths_are_those_of_all_heads() -> None:
    given = [[1, 2, 3], [5, 0, 4]]
    heads = valid(leading=(B, 2), data={"valid_lens": given})
    assert heads == [[example, example] for example in seen(lambda i, q: given[i][q])]


def test_an_unbatched_experiment_has_one_example() -> None:
    assert valid(leading=(), data={"valid_lens": [2]}) == [[[True, True, False, False, False]] * N]
    assert valid(leading=(), data={"valid_lens": [[1, 2, 3]]}) == [[[j < k for j in range(M)] for k in (1, 2, 3)]]


def test_random_lengths_have_both_ends() -> None:
    data = {
        "queries": {"shape": [3000, 1, 1]},
        "keys": {"shape": [1, 6, 1]},
        "valid_lens": {"random": [2, 5]},
    }
    drawn = inputs_of(data=data).valid.lengths
    assert drawn is not None
    assert drawn.shape == (3000,)
    counts = drawn.bincount(minlength=7).tolist()
    assert counts[:2] == [0, 0]
    assert counts[6] == 0
    assert all(abs(count - 750) < 5 * (3000 * 0.25 * 0.75) ** 0.5 for count in counts[2:6])


def test_random_lengths_follow_the_seed_and_nothing_else() -> None:
    source = {"valid_lens": {"random": [0, 5]}}
    first = lengths(leading=(50,), data=source)
    assert torch.equal(first, lengths(leading=(50,), n=7, data=source))
    assert not torch.equal(first, lengths(leading=(50,), data=source, seed=1))
    assert lengths(data={"valid_lens": {"random": [4, 4]}}).tolist() == [4, 4]


LENGTH_FILES: dict[str, Callable[[Any, Path], object]] = {
    "lens.npy": lambda given, path: np.save(path, np.array(given, dtype=np.int32)),
    "lens.safetensors": lambda given, path: save_file({"lens": torch.tensor(given)}, path),
    "lens.csv": lambda given, path: np.savetxt(path, np.atleast_2d(given), fmt="%d", delimiter=","),
}


@pytest.mark.parametrize("name", LENGTH_FILES)
@pytest.mark.parametrize("given", [[2, 5], [[1, 2, 3], [5, 0, 4]]])
def test_lengths_in_files(name: str, given: list[Any], tmp_path: Path) -> None:
    LENGTH_FILES[name](given, tmp_path / name)
    assert lengths(tmp_path, data={"valid_lens": {"file": name}}).tolist() == given


@pytest.mark.parametrize(
    ("text", "n", "expected"),
    [
        ("2,5\n", 3, [2, 5]),  # a row
        ("2\n5\n", 3, [2, 5]),  # a column
        ("2\n5\n", 1, [[2], [5]]),  # one for each of one query: the same lengths
        ("2,5\n4,1\n", 2, [[2, 5], [4, 1]]),
    ],
)
def test_a_row_or_a_column_of_lengths(text: str, n: int, expected: list[Any], tmp_path: Path) -> None:
    (tmp_path / "lens.csv").write_text(text)
    assert lengths(tmp_path, n=n, data={"valid_lens": {"file": "lens.csv"}}).tolist() == expected


def test_lengths_of_a_single_example_with_as_many_queries(tmp_path: Path) -> None:
    (tmp_path / "lens.csv").write_text("1,2,3\n")
    assert lengths(tmp_path, leading=(1,), data={"valid_lens": {"file": "lens.csv"}}).tolist() == [[1, 2, 3]]


def causal(n: int, m: int, offset: int) -> list[list[list[bool]]]:
    return [[[j <= i + offset for j in range(m)] for i in range(n)]] * B


@pytest.mark.parametrize(("n", "m"), [(4, 4), (3, 5), (5, 3), (1, 4), (4, 1)])
def test_causal(n: int, m: int) -> None:
    assert valid(n=n, m=m, mask={"causal": "top_left"}) == causal(n, m, 0)
    assert valid(n=n, m=m, mask={"causal": "bottom_right"}) == causal(n, m, m - n)


def test_causal_is_unambiguous_on_a_square_only() -> None:
    assert valid(n=4, m=4, mask={"causal": True}) == causal(4, 4, 0)
    expected = "expected top_left or bottom_right, which differ where the numbers are not equal"
    assert refused(mask={"causal": True}) == [f"mask.causal: got true for 3 queries and 5 keys; {expected}"]


def some_mask(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).random(shape) < 0.5


@pytest.mark.parametrize("shape", [(N, M), (B, N, M), (1, N, M), (B, 1, M), (B, N, 1), (1, 1, M)])
def test_masks_in_files(shape: tuple[int, ...], tmp_path: Path) -> None:
    mask = some_mask(*shape)
    np.save(tmp_path / "mask.npy", mask)
    assert valid(tmp_path, mask={"file": "mask.npy"}) == np.broadcast_to(mask, (B, N, M)).tolist()


@pytest.mark.parametrize("shape", [(N, M), (B, 1, 1, M), (B, 4, N, M), (1, 4, N, 1)])
def test_masks_of_heads(shape: tuple[int, ...], tmp_path: Path) -> None:
    mask = some_mask(*shape)
    np.savez(tmp_path / "masks.npz", other=mask, mine=~mask)
    made = valid(tmp_path, leading=(B, 4), mask={"file": "masks.npz", "tensor": "mine"})
    assert made == (~np.broadcast_to(mask, (B, 4, N, M))).tolist()


@pytest.mark.parametrize(("name", "fmt"), [("mask.csv", "%d"), ("MASK.CSV", "%.1f")])
def test_masks_of_zeros_and_ones(name: str, fmt: str, tmp_path: Path) -> None:
    mask = some_mask(N, M)
    np.savetxt(tmp_path / name, mask, fmt=fmt, delimiter=",")
    made = inputs(tmp_path, mask={"file": name}).valid.mask
    assert made is not None
    assert made.dtype == torch.bool
    assert made.tolist() == mask.tolist()


def test_a_csv_mask_of_other_numbers(tmp_path: Path) -> None:
    (tmp_path / "mask.csv").write_text("0,1,2,0,0\n" * N)
    problem = "mask.file: got torch.int64 values; expected booleans, True = may attend"
    assert refused(tmp_path, mask={"file": "mask.csv"}) == [problem]


def test_lengths_causal_and_file_are_joined(tmp_path: Path) -> None:
    given, mask = [[1, 2, 3], [5, 0, 4]], some_mask(B, N, M)
    np.save(tmp_path / "mask.npy", mask)
    made = valid(tmp_path, data={"valid_lens": given}, mask={"causal": "bottom_right", "file": "mask.npy"})
    joined = [
        [[j < given[i][q] and j <= q + M - N and bool(mask[i, q, j]) for j in range(M)] for q in range(N)]
        for i in range(B)
    ]
    assert made == joined
    without = valid(data={"valid_lens": given}, mask={"causal": "top_left"})
    assert without == [[[j < given[i][q] and j <= q for j in range(M)] for q in range(N)] for i in range(B)]
