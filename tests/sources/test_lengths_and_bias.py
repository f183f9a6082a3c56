"""Valid lengths, masks and the bias of a config against slow loops and NumPy's broadcasting."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attncli.errors import InputError
from attncli.models.inputs import Inputs
from tests.experiments import Notes, call_inputs, result_of

B, H, N, M = 2, 4, 3, 5
INF = float("inf")


def data_of(leading: tuple[int, ...] = (B,), n: int = N, m: int = M, **data: Any) -> dict[str, Any]:
    """Return the key `data` for scores of shape (*leading, n, m)."""
    return {"queries": {"shape": [*leading, n, 4]}, "keys": {"shape": [*leading, m, 4]}, **data}


def inputs(folder: Path | None = None, /, leading: tuple[int, ...] = (B,), bias: Any = None, **keys: Any) -> Inputs:
    return call_inputs(folder, data=data_of(leading, bias=bias, **keys.pop("data", {})), **keys)


def lengths(*args: Any, **keys: Any) -> Tensor:
    found = inputs(*args, **keys).valid.lengths
    assert found is not None
    return found


def bias_of(*args: Any, **keys: Any) -> Tensor:
    bias = inputs(*args, **keys).bias
    assert bias is not None
    return bias


def notes_of(bias: Any, leading: tuple[int, ...] = (B,)) -> list[str]:
    progress = Notes()
    result_of(None, progress, data=data_of(leading, bias=bias))
    return progress.notes


def test_random_lengths_have_both_ends_and_follow_the_seed() -> None:
    def drawn(n: int = 1, seed: int = 0) -> Tensor:
        return lengths(leading=(3000,), data={"valid_lens": {"random": [2, 5]}, "n": n, "m": 6}, seed=seed)

    counts = drawn().bincount(minlength=7).tolist()
    assert counts[:2] + counts[6:] == [0, 0, 0]
    assert all(abs(count - 750) < 5 * (3000 * 0.25 * 0.75) ** 0.5 for count in counts[2:6])
    assert torch.equal(drawn(), drawn(n=7))
    assert not torch.equal(drawn(), drawn(seed=1))


@pytest.mark.parametrize("name", ["lens.npy", "lens.csv"])
@pytest.mark.parametrize(
    ("given", "n", "expected"),
    [
        ([2, 5], N, [2, 5]),
        ([[1, 2, 3], [5, 0, 4]], N, [[1, 2, 3], [5, 0, 4]]),
        ([[2], [5]], N, [2, 5]),  # a column
        ([[2], [5]], 1, [[2], [5]]),  # a length for the only query, which is the same
    ],
)
def test_lengths_in_files(name: str, given: list[Any], n: int, expected: list[Any], tmp_path: Path) -> None:
    if name == "lens.npy":
        np.save(tmp_path / name, np.array(given, dtype=np.int32))
    else:
        np.savetxt(tmp_path / name, np.atleast_2d(given), fmt="%d", delimiter=",")
    assert lengths(tmp_path, data={"valid_lens": {"file": name}, "n": n}).tolist() == expected


@pytest.mark.parametrize("given", [[0, 4], [[1, 2, 3], [5, 0, 4]]], ids=["per example", "per query"])
@pytest.mark.parametrize("causal", [False, "top_left", "bottom_right"])
@pytest.mark.parametrize("with_files", [False, True])
def test_lengths_causal_file_and_minus_infinity_are_joined(
    given: Any, causal: Any, with_files: bool, tmp_path: Path
) -> None:
    """For all heads of an example."""
    draw = np.random.default_rng(3)
    mask, bias = draw.random((B, 1, N, M)) < (0.5 if with_files else 1), draw.normal(size=(B, 1, 1, M))
    bias[0, 0, 0, 1] = bias[1, 0, 0, 3] = -INF if with_files else 0
    np.save(tmp_path / "mask.npy", mask)
    keys = {"causal": causal, **({"file": "mask.npy"} if with_files else {})}
    found = inputs(tmp_path, (B, 2), bias.tolist(), data={"valid_lens": given}, mask=keys)
    joined = found.valid
    assert torch.equal(joined.empty_rows, ~joined.whole.any(-1))
    late = {False: M, "top_left": 0, "bottom_right": M - N}[causal]
    for i, h, q, j in product(range(B), range(2), range(N), range(M)):
        length = given[i][q] if isinstance(given[i], list) else given[i]
        is_seen = mask[i, 0, q, j] and bias[i, 0, 0, j] > -INF
        assert joined.whole[i, h, q, j] == (j < length and j <= q + late and is_seen)
    assert found.bias is not None
    np.testing.assert_array_equal(found.bias.numpy(), np.where(np.isinf(bias), 0, bias).astype(np.float32))


FITTING = [(M,), (1,), (), (1, M), (N, 1), (N, M), (H, N, M), (1, N, M), (B, 1, 1, M), (1, H, N, 1), (B, H, N, M)]


@pytest.mark.parametrize("shape", FITTING)
def test_every_shape_that_numpy_broadcasts_to_the_scores(shape: tuple[int, ...], tmp_path: Path) -> None:
    given = np.random.default_rng(0).normal(size=shape)
    np.save(tmp_path / "bias.npy", given)
    bias = bias_of(tmp_path, (B, H), {"file": "bias.npy"})
    assert bias.ndim == 4
    assert bias.numel() == given.size  # nothing is repeated
    np.testing.assert_array_equal(
        bias.expand(B, H, N, M).numpy(), np.broadcast_to(given.astype(np.float32), (B, H, N, M)), strict=True
    )


def test_three_axes_are_those_of_heads_and_notes_name_doubts_and_masked_keys() -> None:
    given = np.random.default_rng(1).normal(size=(2, N, M))
    assert notes_of(np.ones((H, N, M)).tolist(), (B, H)) == []
    said = ["data.bias: shape [2, 3, 5] is read as (heads, n, m), the same for all batch elements"]
    assert notes_of(given.tolist(), (2, 2)) == said
    assert notes_of([[0, -INF, 0, 0, -INF]]) == ["data.bias: 2 of 5 numbers are -inf, which masks these keys"]
    bias = bias_of(None, (2, 2), given.tolist()).expand(2, 2, N, M)
    assert torch.equal(bias, torch.from_numpy(given).float().expand(2, 2, N, M))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_it_has_the_dtype_of_the_scores_and_a_generator_of_its_own(dtype: str) -> None:
    computed = torch.float64 if dtype == "float64" else torch.float32
    bias = bias_of(bias=[0.1, 1e5, -1e38, 0, 1], dtype=dtype)
    assert torch.equal(bias[0, 0], torch.tensor([0.1, 1e5, -1e38, 0, 1], dtype=torch.float64).to(computed))
    source = {"shape": [N, M], "fill": "uniform", "low": -3, "high": 5}
    drawn = bias_of(bias=source, dtype=dtype)
    assert -3 <= float(drawn.min()) < 0 < float(drawn.max()) <= 5
    assert torch.equal(drawn, bias_of(bias=source, dtype="float64").to(computed))
    assert torch.equal(drawn, bias_of(bias=source, data={"values": {"shape": [M, 9]}}, dtype=dtype))
    assert not torch.equal(drawn, bias_of(bias=source, seed=1, dtype=dtype))
    assert torch.equal(inputs(bias=source).queries, inputs().queries)


@pytest.mark.parametrize("wrong", [float("nan"), INF, 1e39])
def test_what_is_no_number_is_refused_at_valid_keys_and_no_matter_elsewhere(wrong: float) -> None:
    rows = [[0.0, 1.0, 2.0, 3.0, wrong], [0.0] * M, [0.0] * M]
    for keys in ({"data": {"valid_lens": [4, 2]}}, {"mask": {"causal": "top_left"}}):
        assert bias_of(bias=rows, **keys)[0, 0].tolist() == [0, 1, 2, 3, 0]
    for bias, leading, lengths, index in (
        (rows, (B,), [4, 5], "[0][4]"),
        ([rows, rows], (B,), [4, 5], "[1][0][4]"),
        (rows, (B, H), [[4, 5, 5], [5, 5, 5]], "[0][4]"),
    ):
        with pytest.raises(InputError, match=r"got .*; expected a finite number that float32 holds") as caught:
            inputs(None, leading, bias, data={"valid_lens": lengths})
        assert str(caught.value).startswith(f"data.bias{index}: ")
