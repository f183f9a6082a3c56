"""Masks, the softmax over valid keys, and the weighted sum of the values: the only softmax in the project.

Shape legend, here and everywhere else: `b` batch, `n` queries, `m` keys (and values), `q` `k` `v` feature sizes of
queries, keys and values, `h` hidden units, `d` the feature size where q = k. Leading axes are free: (n, m), (b, n, m)
and (b, heads, n, m) all work, and the first leading axis is the batch. `valid` is boolean, True = may attend.
"""

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from attncli.errors import InputError, got
from attncli.precision import at_least_float32

EmptyRow = Literal["zero", "uniform", "nan", "error"]


def masked_softmax(scores: Tensor, valid_lens: Any = None, *, mask: Any = None, empty_row: EmptyRow = "zero") -> Tensor:
    """Softmax over the keys that each query may attend to; every other weight is exactly 0.

    Args:
        scores: (..., n, m), any floating dtype; never written to.
        valid_lens: integers in 0..m, (b,) for one length per example or (b, n) for one per query; tensor, array, lists.
        mask: boolean (n, m), or of the scores' rank with sizes of 1 repeated; True = may attend. Tensor, array or
            lists; joined with `valid_lens`.
        empty_row: the weights of a query with no valid key: `zero`, `uniform` (over all m keys, as D2L's code gives),
            `nan`, or `error`.

    Returns:
        Weights (..., n, m), float64 for float64 scores and float32 otherwise.

    Raises:
        InputError: lengths or mask that do not fit the scores; an empty row where `empty_row` is `error`.
    """
    (scores,) = at_least_float32(scores)
    return softmax_over_valid(scores, valid_mask(scores.shape, valid_lens, mask, scores.device), empty_row)


def attend(
    scores: Tensor,
    values: Tensor,
    valid_lens: Any = None,
    *,
    mask: Any = None,
    empty_row: EmptyRow = "zero",
) -> tuple[Tensor, Tensor]:
    """Attention pooling: the output (..., n, v) for values (..., m, v), and the weights of `masked_softmax`."""
    weights = masked_softmax(scores, valid_lens, mask=mask, empty_row=empty_row)
    return weighted_sum(weights, values), weights


def valid_mask(
    shape: Sequence[int], valid_lens: Any = None, mask: Any = None, device: torch.device | None = None
) -> Tensor | None:
    """Which keys each query may attend to, broadcastable to `shape` = (..., n, m); None where nothing is masked."""
    if len(shape) < 2:
        raise InputError.of(f"got scores of shape {list(shape)}; expected (..., n, m)")
    valid = None if valid_lens is None else _within_lengths(valid_lens, tuple(shape), device)
    if mask is None:
        return valid
    allowed = _checked_mask(mask, tuple(shape)).to(device)
    return allowed if valid is None else valid & allowed


def softmax_over_valid(scores: Tensor, valid: Tensor | None, empty_row: EmptyRow = "zero") -> Tensor:
    """`masked_softmax` for a mask that is made already and scores that are float32 or float64."""
    if empty_row not in get_args(EmptyRow):
        raise InputError.of(got(empty_row, "expected one of " + ", ".join(get_args(EmptyRow))), ["empty_row"])
    if valid is None:
        return scores.softmax(-1)
    blocked = ~valid
    empty = blocked.all(-1, keepdim=True)  # ... n 1
    scores = scores.masked_fill(blocked, -torch.inf)
    has_empty = bool(empty.any())
    if has_empty:
        if empty_row == "error":
            count = f"{count_empty(empty, scores)} of {scores.shape[:-1].numel()} queries"
            raise InputError.of(f"got {count} with no valid key; expected at least one key each")
        scores = scores.masked_fill(empty, 0.0)  # a row of -inf alone is NaN, which anomaly detection stops at
    weights = scores.softmax(-1).masked_fill(blocked, 0.0)  # ... n m
    if has_empty and empty_row != "zero":
        weights = weights.masked_fill(empty, 1.0 / weights.shape[-1] if empty_row == "uniform" else torch.nan)
    return weights


def count_empty(empty: Tensor, scores: Tensor) -> int:
    """How many of the rows of `scores` (..., n, m) are empty, for `empty` (..., n, 1)."""
    return int(empty.expand(*scores.shape[:-1], 1).sum())


def softcap(scores: Tensor, cap: float) -> Tensor:
    """Scores bounded by +-cap: cap * tanh(scores / cap). Comes before the mask, or masked keys would leak."""
    return cap * (scores / cap).tanh()


def dropped(weights: Tensor, probability: float, generator: torch.Generator) -> Tensor:
    """Weights after dropout: each is 0 with `probability`, the others grow by 1 / (1 - probability)."""
    keep = torch.rand(weights.shape, generator=generator) >= probability  # drawn on the CPU: same on every device
    return weights * keep.to(weights.device) / (1.0 - probability)


def weighted_sum(weights: Tensor, values: Tensor) -> Tensor:
    """Weights (..., n, m) times values (..., m, v), where a weight of exactly 0 takes nothing, not even NaN or inf."""
    weights, values = at_least_float32(weights, values)
    values = values.contiguous()  # as both products below: on another layout sums may be rounded in another order
    if all_finite(values):
        return (weights @ values).add_(0.0)  # ... n v; -0.0, whose sign padding would decide, becomes 0.0
    finite = values.isfinite()
    output = weights @ values.masked_fill(~finite, 0.0) + 0.0
    sees = (weights != 0).to(weights.dtype)
    nan, plus, minus = (
        sees @ kind.to(weights.dtype) > 0 for kind in (values.isnan(), values.isposinf(), values.isneginf())
    )
    output = output.masked_fill(plus, torch.inf).masked_fill(minus, -torch.inf)
    return output.masked_fill(nan | (plus & minus), torch.nan)


def all_finite(tensor: Tensor) -> bool:
    """Whether there is neither NaN nor infinity, in less time and memory than looking at each number takes."""
    if tensor.numel() == 0:
        return True
    lowest, highest = tensor.detach().aminmax()
    return bool(lowest.isfinite() & highest.isfinite())


def _within_lengths(valid_lens: Any, shape: tuple[int, ...], device: torch.device | None) -> Tensor:
    return below_limits(key_limits(shape, valid_lens, device), shape[-1])


def key_limits(shape: Sequence[int], valid_lens: Any, device: torch.device | None = None) -> Tensor:
    """Valid lengths for scores of `shape` (..., n, m) as (..., n or 1, 1): query i may attend to keys below that."""
    lengths = checked_lengths(valid_lens, tuple(shape)).to(device)
    extra = max(len(shape) - 3, 0)  # axes between the batch and the queries, such as heads
    per_query = lengths.ndim == 2
    limits = lengths.reshape(lengths.shape[0], *[1] * extra, lengths.shape[1] if per_query else 1, 1)  # b 1 n|1 1
    return limits[0] if len(shape) == 2 else limits


def below_limits(limits: Tensor, m: int) -> Tensor:
    """The mask (..., n or 1, m) for limits (..., n or 1, 1) of `key_limits`."""
    return torch.arange(m, device=limits.device) < limits


def checked_lengths(valid_lens: Any, shape: tuple[int, ...]) -> Tensor:
    """Valid lengths as an int64 tensor (b,) or (b, n), or an InputError that names the first one that is wrong."""
    b, n, m = shape[0] if len(shape) > 2 else 1, shape[-2], shape[-1]
    given = _as_tensor(valid_lens, "valid_lens", "expected integers, (b,) or (b, n)")
    if tuple(given.shape) not in ((b,), (b, n)):
        expected = f"expected ({b},), one per example, or ({b}, {n}), one per query"
        raise InputError.of(f"got shape {tuple(given.shape)}; {expected}", ["valid_lens"])
    if given.dtype.is_floating_point or given.dtype.is_complex or given.dtype == torch.bool:
        raise InputError.of(f"got {given.dtype} values; expected integers", ["valid_lens"])
    lengths = given.to("cpu", torch.int64)
    wrong = ((lengths < 0) | (lengths > m)).nonzero()
    if len(wrong):
        place = [int(index) for index in wrong[0]]
        value = given[tuple(place)].item()
        raise InputError.of(got(value, f"expected an integer in 0..{m}, the number of keys"), ["valid_lens", *place])
    return lengths


def _checked_mask(given: Any, shape: tuple[int, ...]) -> Tensor:
    expected = "expected booleans, True = may attend"
    mask = _as_tensor(given, "mask", expected)
    if mask.dtype != torch.bool:
        raise InputError.of(f"got {mask.dtype} values; {expected}", ["mask"])
    fits = mask.ndim == len(shape) and all(size in (1, full) for size, full in zip(mask.shape, shape, strict=True))
    if tuple(mask.shape) != shape[-2:] and not fits:
        expected = f"expected {shape[-2:]} or {shape}, where sizes of 1 are repeated"
        raise InputError.of(f"got shape {tuple(mask.shape)}; {expected}", ["mask"])
    return mask


def _as_tensor(given: Any, name: str, expected: str) -> Tensor:
    if isinstance(given, Tensor):
        return given
    try:
        array = np.asarray(given)
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("=")))  # a copy, which torch can always read
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError.of(got(given, expected), [name]) from error
