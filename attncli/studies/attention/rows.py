"""Figures of every row: what a query's scores, weights and output are like, and how far two scorers' are apart.

A row is one query of one head. These vectors are all that the statistics need: whoever makes weights in tiles gives
the same ones without ever holding a matrix. All are float64 on the CPU, (..., n) for weights (..., n, m). A row without
a valid key has numbers here, too; they mean nothing.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attncli.studies.study import TIE

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
    pieces = []
    for some_scores, some_weights, allowed in _some_rows(scores, weights, valid):
        blocked = ~allowed
        known = some_scores.double().masked_fill(blocked, 0.0)
        count = allowed.sum(-1, dtype=torch.float64)
        mean = known.sum(-1) / count.clamp(min=1.0)
        squares = (known - mean[:, None]).masked_fill_(blocked, 0.0).square_().sum(-1)
        exact = some_weights.double()
        sums = exact.sum(-1)
        pieces.append((count, mean, squares, _entropy(exact / sums[:, None]), exact.amax(-1), sums))
    return ScorerRows(*_joined(pieces, scores))


def pair_rows(weights_a: Tensor, weights_b: Tensor, a: ScorerRows, b: ScorerRows) -> PairRows:
    """The rows of two scorers' weights (..., n, m), whose own figures are `a` and `b`."""
    known = torch.stack([each.reshape(-1) for of in (a, b) for each in (of.weight_sum, of.max_weight, of.entropy)], -1)
    pieces = []
    for some_a, some_b, figures in _some_rows(weights_a, weights_b, known):
        p, q = some_a.double(), some_b.double()
        sum_p, largest_p, entropy_p, sum_q, largest_q, entropy_q = figures[..., None].unbind(-2)  # rows 1
        middle = (p / sum_p).add_(q / sum_q).mul_(0.5)
        divergence = _entropy(middle) - (entropy_p + entropy_q)[:, 0] / 2
        first = (p >= largest_p * (1 - TIE)).logical_and_(q >= largest_q * (1 - TIE)).any(-1)
        furthest = (p - q).abs_().amax(-1)
        agreed = first.double().masked_fill(~furthest.isfinite(), math.nan)
        pieces.append((divergence.clamp(min=0.0) / math.log(2), agreed, furthest))
    return PairRows((a.weight_sum != 0) & (b.weight_sum != 0), *_joined(pieces, weights_a))


def output_rows(a: Tensor, b: Tensor) -> OutputRows:
    """The rows of two scorers' outputs (..., n, v)."""
    pieces = []
    for some_a, some_b in _some_rows(a, b):
        x, y = some_a.double(), some_b.double()
        pieces.append(((x - y).square_().sum(-1), x.square().sum(-1)))
    return OutputRows(*_joined(pieces, a))


def _some_rows(*matrices: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The matrices (..., n, columns) on the CPU, the same rows of all of them, some at a time."""
    flat = [matrix.reshape(-1, matrix.shape[-1]) for matrix in matrices]
    step = max(AT_A_TIME // flat[0].shape[-1], 1)
    for start in range(0, len(flat[0]), step):
        yield tuple(matrix[start : start + step].cpu() for matrix in flat)


def _joined(pieces: Sequence[tuple[Tensor, ...]], matrix: Tensor) -> list[Tensor]:
    """Each figure of all rows, in the shape (..., n) of the rows of a matrix."""
    return [torch.cat(figure).reshape(matrix.shape[:-1]) for figure in zip(*pieces, strict=True)]


def _entropy(weights: Tensor) -> Tensor:
    nats: Tensor = torch.special.entr(weights).sum(-1)  # rows
    return nats
