"""Figures of every row: what a query's scores, weights and output are like, and how far two scorers' are apart.

A row is one query of one head. These vectors are all that the statistics need: whoever makes weights in tiles gives
the same ones without ever holding a matrix. All are float64 on the CPU, (..., n) for weights (..., n, m). A row without
a valid key has numbers here, too; they mean nothing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attncli.common.study import TIE

AT_A_TIME = 2**18  # numbers of one matrix that are in float64 at the same time


@dataclass(frozen=True)
class ScorerRows:
    """The rows of one scorer, each figure (..., n).

    `count`, `mean` and `squares` are the number of scores at valid keys, their mean, and the sum of their squared
    deviations from it. `max_weight` and `weight_sum` are of the weights as they are; `entropy` (nats) is of the weights
    divided by their sum, and means nothing where that is 0. Any further field is a column of its name: the mean over
    the rows.
    """

    count: Tensor
    mean: Tensor
    squares: Tensor
    entropy: Tensor
    max_weight: Tensor
    weight_sum: Tensor


@dataclass(frozen=True)
class PairRows:
    """How far the weights of two scorers are apart, each figure (..., n).

    `spread` (boolean) marks the rows in which both have a weight that is not 0; elsewhere the first two mean nothing.
    `js_divergence` is the Jensen-Shannon divergence in bits of the weights divided by their sums, 0 for equal and 1 for
    disjoint ones (Lin 1991). `top1_agreement` is 1 where a key comes first in both, else 0; weights that are equal up
    to rounding share the first place. `max_abs_difference` is of the weights as they are. All three are NaN where a
    weight is not finite.
    """

    spread: Tensor
    js_divergence: Tensor
    top1_agreement: Tensor
    max_abs_difference: Tensor


@dataclass(frozen=True)
class OutputRows:
    """The squared L2 norms of output_a - output_b and of output_a, each (..., n)."""

    distance: Tensor
    length: Tensor


def scorer_rows(scores: Tensor, weights: Tensor, valid: Tensor) -> ScorerRows:
    """The rows of scores and weights (..., n, m); `valid` is boolean and of their shape."""

    def of_some(scores: Tensor, weights: Tensor, valid: Tensor) -> tuple[Tensor, ...]:
        blocked = ~valid
        known = scores.double().masked_fill(blocked, 0.0)
        count = valid.sum(-1, dtype=torch.float64)
        mean = known.sum(-1) / count.clamp(min=1.0)
        squares = (known - mean[:, None]).masked_fill_(blocked, 0.0).square_().sum(-1)
        exact = weights.double()
        sums = exact.sum(-1)
        return count, mean, squares, _entropy(exact / sums[:, None]), exact.amax(-1), sums

    return ScorerRows(*_map_rows(of_some, 6, scores, weights, valid))


def pair_rows(weights_a: Tensor, weights_b: Tensor, a: ScorerRows, b: ScorerRows) -> PairRows:
    """The rows of two scorers' weights (..., n, m), whose own figures are `a` and `b`."""
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


def output_rows(a: Tensor, b: Tensor) -> OutputRows:
    """The rows of two scorers' outputs (..., n, v)."""

    def of_some(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        x, y = a.double(), b.double()
        return (x - y).square_().sum(-1), x.square().sum(-1)

    return OutputRows(*_map_rows(of_some, 2, a, b))


def _map_rows(of_some: Callable[..., tuple[Tensor, ...]], count: int, *matrices: Tensor) -> Tensor:
    """Return `count` statistics (count, ..., n) of matrices (..., n, columns), from some of their rows at a time.

    Results go to one tensor that is there before: small ones that stay between large ones that are freed would keep
    the allocator from using that memory again.
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
