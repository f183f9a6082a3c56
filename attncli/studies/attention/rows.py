"""Metrics of every row of scores, weights and outputs, for one scorer and for pairs.

A row is one query of one head. All statistics follow from these vectors, float64 on the CPU, of shape (..., n) for
weights (..., n, m). `tiles` computes the same vectors without holding a whole matrix. The numbers of rows without a
valid key are meaningless.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from attncli.common.study import TIE

AT_A_TIME = 2**18  # numbers of a matrix to convert to float64 at a time


@dataclass(frozen=True)
class ScorerRows:
    """The metrics of one scorer's rows; each is a tensor (..., n).

    `count`, `mean` and `squares` are the number of scores at valid keys, their mean, and the sum of their squared
    deviations from it. `entropy` (nats) is of the weights divided by their sum, and meaningless if that is 0. Any
    further field makes a column with its name: the mean over the rows.
    """

    count: Tensor
    mean: Tensor
    squares: Tensor
    entropy: Tensor
    max_weight: Tensor
    weight_sum: Tensor


@dataclass(frozen=True)
class PairRows:
    """The differences between the weights of two scorers; each is a tensor (..., n).

    `spread` is True for rows with nonzero weights of both scorers; in other rows `js_divergence` and `top1_agreement`
    are meaningless. `js_divergence` is the Jensen-Shannon divergence in bits of the weights divided by their sums, from
    0 (equal) to 1 (disjoint) (Lin 1991). `top1_agreement` is 1 if both scorers have their largest weight at the same
    key, else 0; weights that are equal up to rounding tie. `max_abs_difference` is the largest difference of weights.
    All three are NaN if a weight is not finite.
    """

    spread: Tensor
    js_divergence: Tensor
    top1_agreement: Tensor
    max_abs_difference: Tensor


def scorer_rows(scores: Tensor, weights: Tensor, valid: Tensor) -> ScorerRows:
    """Return the metrics of scores and weights (..., n, m), with a boolean `valid` of their shape."""

    def of_some(scores: Tensor, weights: Tensor, valid: Tensor) -> tuple[Tensor, ...]:
        blocked = ~valid
        known = scores.double().masked_fill(blocked, 0.0)
        count = valid.sum(-1, dtype=torch.float64)
        mean = known.sum(-1) / count.clamp(min=1.0)
        squares = (known - mean[:, None]).masked_fill_(blocked, 0.0).square_().sum(-1)
        exact = weights.double()
        sums = exact.sum(-1)
        return count, mean, squares, _entropy(exact / sums[:, None]), exact.amax(-1), sums

    return ScorerRows(*_map_rows(of_some, len(fields(ScorerRows)), scores, weights, valid))


def pair_rows(weights_a: Tensor, weights_b: Tensor, a: ScorerRows, b: ScorerRows) -> PairRows:
    """Return the differences of two scorers' weights (..., n, m), given the metrics `a` and `b` of each scorer."""
    known = torch.stack([each.reshape(-1) for of in (a, b) for each in (of.weight_sum, of.max_weight, of.entropy)], -1)

    def of_some(weights_a: Tensor, weights_b: Tensor, known: Tensor) -> tuple[Tensor, ...]:
        p, q = weights_a.double(), weights_b.double()
        sum_p, largest_p, entropy_p, sum_q, largest_q, entropy_q = known[..., None].unbind(-2)  # rows 1
        middle = (p / sum_p).add_(q / sum_q).mul_(0.5)
        divergence = _entropy(middle) - (entropy_p + entropy_q)[:, 0] / 2
        first = (p >= largest_p * (1 - TIE)).logical_and_(q >= largest_q * (1 - TIE)).any(-1)
        furthest = (p - q).abs_().amax(-1)
        agreed = first.double().masked_fill(~furthest.isfinite(), math.nan)
        return divergence.clamp(min=0.0) / math.log(2), agreed, furthest

    spread = (a.weight_sum != 0) & (b.weight_sum != 0)
    return PairRows(spread, *_map_rows(of_some, 3, weights_a, weights_b, known))


def output_rows(a: Tensor, b: Tensor) -> Tensor:
    """Return the squared L2 norms (2, ..., n) of the rows of a - b and of a, two scorers' outputs (..., n, v)."""

    def of_some(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        x, y = a.double(), b.double()
        return (x - y).square_().sum(-1), x.square().sum(-1)

    return _map_rows(of_some, 2, a, b)


def _map_rows(of_some: Callable[..., tuple[Tensor, ...]], count: int, *matrices: Tensor) -> Tensor:
    """Return `count` metrics (count, ..., n) of the rows of matrices (..., n, columns), computed in blocks of rows.

    They are written into one tensor. Many small results between freed large ones would fragment the memory.
    """
    flat = [matrix.reshape(-1, matrix.shape[-1]) for matrix in matrices]
    step = max(AT_A_TIME // flat[0].shape[-1], 1)
    found = torch.empty(count, len(flat[0]), dtype=torch.float64)
    for start in range(0, len(flat[0]), step):
        rows = slice(start, start + step)
        for each, result in zip(found, of_some(*(matrix[rows].cpu() for matrix in flat)), strict=True):
            each[rows] = result
    return found.view(count, *matrices[0].shape[:-1])


def _entropy(weights: Tensor) -> Tensor:
    nats: Tensor = torch.special.entr(weights).sum(-1)  # rows
    return nats
