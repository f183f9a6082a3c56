"""From scores to outputs: masks, biases, softmax, dropout and the weighted sum of the values.

Shape legend, here and everywhere else: `b` batch, `n` queries, `m` keys (and values), `q` `k` `v` feature sizes of
queries, keys and values, `h` hidden units, `d` the feature size where q = k. Leading axes are free: (n, m), (b, n, m)
and (b, heads, n, m) all work, and the first leading axis is the batch. `valid` is boolean, True = may attend.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import pad

from attncli.core.masks import ALL, Valid, cut
from attncli.core.modes import outside_autocast
from attncli.core.rounding import Rounding
from attncli.errors import InputError, got

EmptyRow = Literal["zero", "uniform", "nan", "error"]


@dataclass(frozen=True, eq=False)
class Bias:
    """A bias added to scores of `shape` = (..., n, m): a tensor that broadcasts to them, ALiBi, or both.

    ALiBi is linear in the distance of query and key, -slope |i - j|, with a slope for each head from
    `alibi_slopes` (Press et al. 2022, arXiv:2108.12409). Query i has position `first` + i, key j has position j.
    """

    shape: tuple[int, ...]
    tensor: Tensor | None = None  # (..., n or 1, m or 1), on the device of the scores
    alibi: bool = False
    first: int = 0
    slopes: Sequence[float] | None = None  # of ALiBi for these heads, by default `alibi_slopes` of their number

    @cached_property
    def bound(self) -> float:
        """An upper bound of absolute entries; infinite or NaN if an entry is."""
        (*_, n, m), bound = self.shape, 0.0
        if self.tensor is not None and self.tensor.numel():
            low, high = self.tensor.detach().aminmax()
            bound = float(torch.maximum(-low, high))
        return bound + (abs(self.first) + n + m if self.alibi else 0.0)  # slopes are below 1

    def added_to(self, scores: Tensor, elements: slice = ALL, rows: slice = ALL) -> Tensor:
        """Return the sum of the bias and the scores of some batch elements and queries.

        The scores may be of the first keys only.
        """
        (*_, n, _), heads, m = self.shape, self.shape[1:-2], scores.shape[-1]
        added = cut(self.tensor, self.shape, elements, rows)
        if added is not None:
            scores = scores + added[..., :m].to(scores.dtype)
        if self.alibi:
            like: Any = {"dtype": scores.dtype, "device": scores.device}
            queries = torch.arange(self.first, self.first + n, **like)[rows, None]  # n 1
            distances = (queries - torch.arange(m, **like)).abs_()  # n m
            slopes = torch.tensor(self.slopes or alibi_slopes(math.prod(heads)), **like)
            scores = scores - slopes.view(*heads, 1, 1) * distances  # ... n m
        return scores


def alibi_slopes(heads: int) -> list[float]:
    """Return ALiBi's slope for each head: 2^(-8/h), 2^(-16/h), ..., 2^-8 if h, the number of heads, is a power of two.

    Otherwise return the slopes for the power of two below, then every other slope for the power of two above.
    """
    power = 2 ** (heads.bit_length() - 1)
    slopes = [2.0 ** (-8.0 * index / power) for index in range(1, power + 1)]
    return slopes + [2.0 ** (-4.0 * index / power) for index in range(1, 2 * (heads - power), 2)]


@dataclass(frozen=True, eq=False)
class Rules:
    """The steps from raw scores to weights, in this order: softcap, bias, mask, normaliser, empty rows.

    `normalizer(scores, valid)` gives weights that are 0 at invalid keys and in rows without a valid key. `sinks`
    (b or 1, heads or 1, n or 1, 1) are scores of an additional key, which takes weight but has no value (gpt-oss).
    `rounding` applies to the result of each step.
    """

    valid: Valid
    cap: float | None = None
    empty_row: EmptyRow = "zero"
    bias: Bias | None = None
    normalizer: Callable[[Tensor, Tensor | None], Tensor] = field(default_factory=lambda: softmax_over_valid)
    sinks: Tensor | None = None
    rounding: Rounding = Rounding()  # noqa: RUF009  # frozen

    def reach(self, elements: slice = ALL, rows: slice = ALL) -> int:
        """Return a key position for some queries: all their weights are 0 from this position on.

        A query without a valid key may have weights at all keys.
        """
        most, valid = self.valid.reach(elements, rows)[1], None
        if self.empty_row != "zero":
            valid = self.valid.tile(elements, rows)
        return most if valid is None or bool(valid.any(-1).all()) else self.valid.shape[-1]

    def logits(self, scores: Tensor, elements: slice = ALL, rows: slice = ALL) -> Tensor:
        """Return scores after softcap and bias, for raw scores of some batch elements and queries.

        The scores may be of the first keys only.
        """
        scores = scores if self.cap is None else softcap(scores, self.cap)
        return scores if self.bias is None else self.bias.added_to(scores, elements, rows)

    def stages(self, scores: Tensor, elements: slice = ALL, rows: slice = ALL) -> dict[str, Tensor]:
        """Return `weights` for raw scores of some batch elements and queries, with all keys or the first of them.

        With a softcap also return `capped` scores, with a bias `biased` scores.
        """
        stages = dict[str, Tensor]()
        if self.cap is not None:
            scores = stages["capped"] = self.rounding.step(softcap(scores, self.cap))
        valid = self.valid.tile(elements, rows, slice(scores.shape[-1]))
        if self.bias is not None:
            scores = stages["biased"] = self.rounding.step(self.bias.added_to(scores, elements, rows))
        sinks = cut(self.sinks, self.valid.shape, elements, rows)
        weights = self.normalizer(scores, valid) if sinks is None else self._beside(sinks, scores, valid)
        return stages | {"weights": self.rounding.weights(with_empty_rows(weights, valid, self.empty_row))}

    def pooled(self, weights: Tensor, values: Tensor) -> Tensor:
        """Return the output (..., n, v), the weighted sum of the values."""
        return self.rounding.output(weighted_sum(weights, values))

    def _beside(self, sinks: Tensor, scores: Tensor, valid: Tensor | None) -> Tensor:
        """Return the normaliser's weights for the keys and the sinks, without the weights of the sinks."""
        m = scores.shape[-1]  # the sinks are in front: of keys with an order they get the weight that is left
        scores = torch.cat([sinks.to(scores.dtype).expand(*scores.shape[:-1], 1), scores], -1)  # ... n 1+m
        valid = None if valid is None else pad(valid.expand(*valid.shape[:-1], m), (1, 0), value=True)
        return self.normalizer(scores, valid)[..., 1:]


@outside_autocast
def masked_softmax(
    scores: Tensor, valid_lens: object = None, *, mask: object = None, empty_row: EmptyRow = "zero"
) -> Tensor:
    """Return softmax over the valid keys of each query; every other weight is exactly 0.

    Args:
        scores: (..., n, m), any floating dtype; never written to.
        valid_lens: integers in 0..m, (b,) for one length per example or (b, n) for one per query; tensor, array, lists.
        mask: boolean (n, m), or broadcastable to the scores with as many axes; True = may attend. Tensor, array or
            lists. A key must be valid by both `mask` and `valid_lens`.
        empty_row: weights of a query with no valid key: `zero`, `uniform` (over all m keys, as D2L's code gives),
            `nan`, or `error`.

    Returns:
        Weights (..., n, m), float64 for float64 scores and float32 otherwise.

    Raises:
        InputError: if the scores are no tensor, lengths or mask do not fit them, or `empty_row` is `error` and there
            is an empty row.
    """
    _check_tensors(scores=scores)
    (scores,) = at_least_float32(scores)
    valid = valid_mask(scores.shape, valid_lens, mask, scores.device)
    return with_empty_rows(softmax_over_valid(scores, valid), valid, empty_row)


@outside_autocast
def attend(
    scores: Tensor, values: Tensor, valid_lens: object = None, *, mask: object = None, empty_row: EmptyRow = "zero"
) -> tuple[Tensor, Tensor]:
    """Return the output (..., n, v) of attention for values (..., m, v), and its weights (..., n, m).

    Arguments, dtypes and errors are as in `masked_softmax`.
    """
    _check_tensors(scores=scores, values=values)
    weights = masked_softmax(scores, valid_lens, mask=mask, empty_row=empty_row)
    if values.ndim < 2 or values.shape[-2] != weights.shape[-1]:
        expected = f"expected (..., m, v) for scores {list(scores.shape)} of {weights.shape[-1]} keys"
        raise InputError.of(f"got shape {list(values.shape)}; {expected}", where="values")
    return weighted_sum(weights, values), weights


def _check_tensors(**tensors: object) -> None:
    """Raise InputError if an argument is no tensor."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise InputError.of(got(tensor, f"expected a tensor, not {type(tensor).__name__}"), where=name)


def valid_mask(
    shape: Sequence[int], valid_lens: object = None, mask: object = None, device: torch.device | None = None
) -> Tensor | None:
    """Return the mask of valid keys, broadcastable to `shape` = (..., n, m), or None if nothing is masked."""
    return Valid.of(shape, valid_lens, mask, device).joined


def computing_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype to compute in: float64 for float64, float32 for all others."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def at_least_float32(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Return the tensors in a common dtype, float32 or float64; tensors that have it already are not copied."""
    dtype = torch.float64 if any(tensor.dtype == torch.float64 for tensor in tensors) else torch.float32
    return tuple(tensor.to(dtype) for tensor in tensors)


def softmax_over_valid(scores: Tensor, valid: Tensor | None) -> Tensor:
    """Return softmax over valid keys for float32 or float64 scores; weights are 0 at other keys."""
    if valid is None:
        return scores.softmax(-1)
    blocked = ~valid
    empty = blocked.all(-1, keepdim=True)  # ... n 1
    scores = scores.masked_fill(blocked, -torch.inf)
    if bool(empty.any()):
        scores = scores.masked_fill(empty, 0.0)  # a row of -inf alone is NaN, which anomaly detection stops at
    weights = scores.softmax(-1)  # ... n m
    return weights.masked_fill(blocked, 0.0) if weights.requires_grad else weights.masked_fill_(blocked, 0.0)


def with_empty_rows(weights: Tensor, valid: Tensor | None, empty_row: EmptyRow) -> Tensor:
    """Return weights (..., n, m), with rows that have no valid key filled by the rule `empty_row`.

    Raises:
        InputError: if `empty_row` is unknown, or is `error` and there is an empty row.
    """
    if empty_row not in get_args(EmptyRow):
        raise InputError.of(got(empty_row, "expected one of " + ", ".join(get_args(EmptyRow))), ["empty_row"])
    if valid is None or empty_row == "zero":
        return weights
    empty = ~valid.any(-1, keepdim=True)  # ... n 1
    if empty_row == "error":
        rows = weights.shape[:-1]
        if count := int(empty.expand(*rows, 1).sum()):
            message = f"got {count} of {rows.numel()} queries with no valid key; expected at least one key each"
            raise InputError.of(message)
    return weights.masked_fill(empty, 1.0 / weights.shape[-1] if empty_row == "uniform" else torch.nan)


def softcap(scores: Tensor, cap: float) -> Tensor:
    """Return cap * tanh(scores / cap), between -cap and cap. Apply it before the mask, or masked keys get weight."""
    # An extreme cap, or a score divided by it, may be outside float32.
    if not 1e-30 <= cap <= 1e30 and scores.dtype != torch.float64:
        wide = scores.cpu() if scores.device.type == "mps" else scores  # Apple's devices have no float64
        return softcap(wide.double(), cap).to(scores)
    return cap * (scores / cap).tanh()


def dropped(weights: Tensor, probability: float, generator: torch.Generator) -> Tensor:
    """Return weights after dropout: 0 with `probability`, otherwise multiplied by 1 / (1 - probability)."""
    keep = torch.rand(weights.shape, generator=generator) >= probability  # drawn on the CPU: same on every device
    return weights * keep.to(weights.device) / (1.0 - probability)


def weighted_sum(weights: Tensor, values: Tensor) -> Tensor:
    """Return weights (..., n, m) times values (..., m, v); a weight of exactly 0 hides even NaN and inf."""
    weights, values = at_least_float32(weights, values)
    values = values.contiguous()  # rounding depends on the layout, and must be the same in both products below
    if all_finite(values):
        return (weights @ values).add_(0.0)  # ... n v; -0.0 becomes 0.0, or padding would decide the sign
    # Unless its weight is 0, an infinite value makes the output infinite, with the weight's sign, and NaN makes it NaN.
    # In the product 1 and -1 replace infinite values, so infinite and NaN weights still have their effect.
    output = weights @ values.nan_to_num(nan=0.0, posinf=1.0, neginf=-1.0)
    dtype, high, low = weights.dtype, values.isposinf(), values.isneginf()
    signs = torch.cat([weights > 0, weights < 0], -1).to(dtype)  # ... n 2m
    plus = signs @ torch.cat([high, low], -2).to(dtype) > 0
    minus = signs @ torch.cat([low, high], -2).to(dtype) > 0
    nan = (weights != 0).to(dtype) @ values.isnan().to(dtype) > 0
    return output + sum(torch.where(*of, 0.0) for of in ((plus, torch.inf), (minus, -torch.inf), (nan, torch.nan)))


def all_finite(tensor: Tensor) -> bool:
    """Whether there is neither NaN nor infinity; faster and with less memory than `isfinite().all()`."""
    if tensor.numel() == 0:
        return True
    lowest, highest = tensor.detach().aminmax()
    return bool(lowest.isfinite() & highest.isfinite())
