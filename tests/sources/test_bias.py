"""The bias of a config: its shape against NumPy's broadcasting, and the numbers that mask a key."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attncli.api import run
from attncli.errors import InputError
from attncli.models.inputs import Inputs
from tests.experiments import Notes, call_inputs, result_of

B, H, N, M = 2, 4, 3, 5
INF = float("inf")


def inputs(folder: Path | None = None, /, bias: Any = None, leading: tuple[int, ...] = (B,), **keys: Any) -> Inputs:
    """Return inputs with scores of shape (*leading, N, M)."""
    data = {"queries": {"shape": [*leading, N, 4]}, "keys": {"shape": [*leading, M, 4]}, **keys.pop("data", {})}
    return call_inputs(folder, data=data | {"bias": bias}, **keys)


def bias_of(*args: Any, **keys: Any) -> Tensor:
    bias = inputs(*args, **keys).bias
    assert bias is not None
    return bias


FITTING = [(M,), (1,), (), (1, M), (N, 1), (N, M), (H, N, M), (1, N, M), (B, 1, 1, M), (1, H, N, 1), (B, H, N, M)]


@pytest.mark.parametrize("shape", FITTING)
def test_every_shape_that_numpy_broadcasts_to_the_scores(shape: tuple[int, ...], tmp_path: Path) -> None:
    given = np.random.default_rng(0).normal(size=shape)
    np.save(tmp_path / "bias.npy", given)
    bias = bias_of(tmp_path, {"file": "bias.npy"}, (B, H))
    assert bias.ndim == 4
    assert bias.numel() == given.size  # nothing is repeated
    np.testing.assert_array_equal(
        bias.expand(B, H, N, M).numpy(), np.broadcast_to(given.astype(np.float32), (B, H, N, M)), strict=True
    )


def notes_of(bias: Any, leading: tuple[int, ...] = (B,)) -> list[str]:
    progress = Notes()
    data = {"queries": {"shape": [*leading, N, 4]}, "keys": {"shape": [*leading, M, 4]}, "bias": bias}
    result_of(None, progress, data=data)
    return progress.notes


def test_three_axes_are_those_of_heads_which_a_note_says_where_they_might_be_of_the_batch() -> None:
    given = np.random.default_rng(1).normal(size=(2, N, M))
    assert notes_of(np.ones((H, N, M)).tolist(), (B, H)) == []
    said = ["data.bias: shape [2, 3, 5] is read as (heads, n, m), the same for all batch elements"]
    assert notes_of(given.tolist(), (2, 2)) == said
    bias = bias_of(None, given.tolist(), (2, 2)).expand(2, 2, N, M)
    assert torch.equal(bias, torch.from_numpy(given).float().expand(2, 2, N, M))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_it_has_the_dtype_of_the_scores_and_a_generator_of_its_own(dtype: str) -> None:
    computed = torch.float64 if dtype == "float64" else torch.float32
    bias = bias_of(None, [0.1, 1e5, -1e38, 0, 1], dtype=dtype)
    assert torch.equal(bias[0, 0], torch.tensor([0.1, 1e5, -1e38, 0, 1], dtype=torch.float64).to(computed))
    source = {"shape": [N, M], "fill": "uniform", "low": -3, "high": 5}
    drawn = bias_of(None, source, dtype=dtype)
    assert -3 <= float(drawn.min()) < 0 < float(drawn.max()) <= 5
    assert torch.equal(drawn, bias_of(None, source, dtype="float64").to(computed))
    assert torch.equal(drawn, bias_of(None, source, data={"values": {"shape": [M, 9]}}, dtype=dtype))
    assert not torch.equal(drawn, bias_of(None, source, seed=1, dtype=dtype))
    assert torch.equal(inputs(None, source).queries, inputs().queries)


def test_minus_infinity_masks_the_key_and_is_joined_with_the_mask(tmp_path: Path) -> None:
    mask = np.random.default_rng(5).random((N, M)) < 0.7
    np.save(tmp_path / "mask.npy", mask)
    bias = np.random.default_rng(6).normal(size=(B, 1, M)).astype(np.float32)
    bias[0, 0, 1] = bias[1, 0, 4] = -INF
    found = inputs(tmp_path, bias.tolist(), mask={"file": "mask.npy"}, data={"valid_lens": [3, 5]})
    expected = [
        [[j < [3, 5][i] and bool(mask[q, j]) and (i, j) not in ((0, 1), (1, 4)) for j in range(M)] for q in range(N)]
        for i in range(B)
    ]
    assert found.valid.whole.tolist() == expected
    assert found.bias is not None
    np.testing.assert_array_equal(found.bias.numpy(), np.where(np.isinf(bias), 0, bias))
    assert notes_of([[0, -INF, 0, 0, -INF]]) == ["data.bias: 2 of 5 numbers are -inf, which masks these keys"]


@pytest.mark.parametrize("wrong", [float("nan"), INF, 1e39])
def test_what_is_no_number_is_refused_at_valid_keys_and_no_matter_elsewhere(wrong: float) -> None:
    rows = [[0.0, 1.0, 2.0, 3.0, wrong], [0.0] * M, [0.0] * M]
    for keys in ({"data": {"valid_lens": [4, 2]}}, {"mask": {"causal": "top_left"}}):
        assert bias_of(None, rows, **keys)[0, 0].tolist() == [0, 1, 2, 3, 0]
    for bias, leading, lengths, index in (
        (rows, (B,), [4, 5], "[0][4]"),
        ([rows, rows], (B,), [4, 5], "[1][0][4]"),
        (rows, (B, H), [[4, 5, 5], [5, 5, 5]], "[0][4]"),
    ):
        with pytest.raises(InputError, match=r"got .*; expected a finite number that float32 holds") as caught:
            inputs(None, bias, leading, data={"valid_lens": lengths})
        assert str(caught.value).startswith(f"data.bias{index}: ")


@pytest.mark.usefixtures("sketches")
def test_a_run_with_a_bias_from_a_file_runs_again_from_its_folder(tmp_path: Path) -> None:
    """The saved bias and mask together have the same effect as the file."""
    bias = np.random.default_rng(7).normal(size=(N, M))
    bias[1, 2] = -INF
    np.save(tmp_path / "bias.npy", bias)
    data = {"queries": {"shape": [B, N, 4]}, "keys": {"shape": [B, M, 4]}, "bias": {"file": str(tmp_path / "bias.npy")}}
    first = run({"data": data, "scorers": ["dot"]}, out=tmp_path / "run")
    (tmp_path / "bias.npy").unlink()
    again = run(tmp_path / "run" / "config.yaml")
    assert not bool(first.inputs["valid"][:, 1, 2].any())
    for name in ("bias", "valid"):
        assert torch.equal(first.inputs[name], again.inputs[name])
    assert torch.equal(first.tensors["dot/weights"], again.tensors["dot/weights"])
