"""Metrics of every row of scores, weights and outputs, for one scorer and for pairs.

A row is one query of one head. The metrics of all rows are vectors (..., n), float64 on the CPU, for weights
(..., n, m); all statistics follow from them. The module `tiles` computes the same vectors without holding a whole
matrix.
"""

import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import partial

import numpy as np
import torch
from torch import Tensor

from attncli.attention import Rules
from attncli.pooling import Tile, tiles
from attncli.results import TIE
from attncli.threads import on_threads, share

AT_A_TIME = 2**19  # numbers of a tile, which is converted to float64
SMALLEST = torch.finfo(torch.float64).tiny  # replaces 0, since the logarithm of 0 is infinite


class Workspace(threading.local):
    """Buffers that all tiles of a thread reuse, since allocating matrices takes as long as the work on them.

    Calling a workspace with an index and a shape returns the buffer as a matrix. Buffers are allocated for at least
    `most` entries, usually enough for the largest tile.
    """

    def __init__(self, like: Tensor, most: int, matrices: int = 2) -> None:
        self._flat, self._most = like.new_empty(matrices, 0), most

    def __call__(self, index: int, shape: tuple[int, ...]) -> Tensor:
        size = math.prod(shape)
        if self._flat.shape[1] < size:
            self._flat = self._flat.new_empty(len(self._flat), max(size, self._most))
        return self._flat[index, :size].view(shape)


@dataclass(frozen=True)
class ScorerRows:
    """The metrics of one scorer: one value per query, in tensors (..., n).

    `count`, `mean` and `squares` are the number of scores at valid keys, the mean of these scores, and the sum of
    their squared deviations from the mean; without a valid key they are 0. `entropy` (nats) is the entropy of the
    weights divided by their sum, undefined where the sum is 0. Each further field becomes a column of the results with
    the field's name, its mean over the queries.
    """

    count: Tensor
    mean: Tensor
    squares: Tensor
    entropy: Tensor
    max_weight: Tensor
    weight_sum: Tensor


@dataclass(frozen=True)
class PairRows:
    """The differences between the weights of two scorers: one value per query, in tensors (..., n).

    `has_weights` is True for rows with nonzero weights of both scorers; in others `js_divergence` and `top1_agreement`
    are undefined. `js_divergence` is the Jensen-Shannon divergence in bits of the weights divided by their sums, from
    0 (equal) to 1 (disjoint) (Lin 1991). `top1_agreement` is 1 if both scorers have their largest weight at the same
    key, else 0; weights that are equal up to rounding tie. `max_abs_difference` is the largest difference of weights.
    The three metrics are NaN if a weight is not finite.
    """

    has_weights: Tensor
    js_divergence: Tensor
    top1_agreement: Tensor
    max_abs_difference: Tensor


def scorer_rows(scores: Tensor, weights: Tensor, rules: Rules) -> ScorerRows:
    """Return the metrics of scores at valid keys and of the weights that follow by the rules, (..., n, m) each."""
    return ScorerRows(*_by_tiles(partial(rows_of_tile, rules), len(fields(ScorerRows)), scores, weights))


def rows_of_tile(rules: Rules, tile: Tile, workspace: Workspace, scores: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
    """Return the metrics, in the order of `ScorerRows`, of one tile of scores and weights.

    The workspace is float64 on the CPU.
    """
    valid = rules.valid
    free, reach = valid.reach(*tile)  # all rows see the keys before `free`, none sees the keys from `reach` on
    known = _copied(scores[..., : max(reach, 1)], workspace, 0)
    last = known[..., free:]
    mask = valid.tile(*tile, slice(free, known.shape[-1]))
    allowed = torch.ones(1, 0, dtype=torch.bool) if mask is None else mask.cpu()
    allowed = allowed.expand(*allowed.shape[:-1], last.shape[-1])
    last.masked_fill_(~allowed, 0.0)
    count = free + allowed.sum(-1, dtype=torch.float64)
    mean = known.sum(-1) / count.clamp(min=1.0)
    known -= mean[..., None]
    last *= allowed
    squares = torch.linalg.vector_norm(known, dim=-1).square()
    weights = weights[..., : max(rules.reach(*tile), 1)].cpu()
    exact = _copied(weights, workspace, 0)
    sums = exact.sum(-1)
    exact *= (1.0 / sums)[..., None]
    return count, mean, squares, _entropy(exact, workspace), weights.amax(-1), sums


def pair_rows(
    weights_a: Tensor, weights_b: Tensor, a: ScorerRows, b: ScorerRows, rules: tuple[Rules, Rules]
) -> PairRows:
    """Return the differences of two scorers' weights (..., n, m), given the metrics `a` and `b` of each scorer.

    `rules` are the rules from which the weights of each scorer follow.
    """
    known = torch.stack([metric for of in (a, b) for metric in (of.weight_sum, of.max_weight, of.entropy)], -1)

    def of_tile(tile: Tile, workspace: Workspace, a: Tensor, b: Tensor, known: Tensor) -> tuple[Tensor, ...]:
        reach = max(1, *(of_scorer.reach(*tile) for of_scorer in rules))
        a, b = a[..., :reach].cpu(), b[..., :reach].cpu()
        sum_a, largest_a, entropy_a, sum_b, largest_b, entropy_b = known[..., None].unbind(-2)  # ... rows 1
        exact = _copied(a, workspace, 0)
        furthest = _copied(b, workspace, 1).sub_(exact).abs_().amax(-1)
        middle = exact.mul_(0.5 / sum_a).add_(_copied(b, workspace, 1).mul_(0.5 / sum_b))
        divergence = _entropy(middle, workspace) - (entropy_a + entropy_b)[..., 0] / 2
        scaled = a * (largest_b / largest_a).to(a)
        first = torch.minimum(scaled, b, out=scaled).amax(-1, keepdim=True) >= largest_b * (1 - TIE)
        agreed = first[..., 0].double().masked_fill(~furthest.isfinite(), math.nan)
        return divergence.clamp(min=0.0) / math.log(2), agreed, furthest

    has_weights = (a.weight_sum != 0) & (b.weight_sum != 0)
    return PairRows(has_weights, *_by_tiles(of_tile, 3, weights_a, weights_b, known))


def output_rows(a: Tensor, b: Tensor) -> Tensor:
    """Return the squared L2 norms (2, ..., n) of the rows of a - b and of a, two scorers' outputs (..., n, v)."""

    def of_tile(tile: Tile, workspace: Workspace, a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        x, y = _copied(a, workspace, 0), _copied(b, workspace, 1)
        lengths = x.square().sum(-1)
        return x.sub_(y).square_().sum(-1), lengths

    return _by_tiles(of_tile, 2, a, b)


def _by_tiles(of_tile: Callable[..., tuple[Tensor, ...]], count: int, *matrices: Tensor) -> Tensor:
    """Return `count` metrics (count, ..., n) of the rows of matrices (..., n, columns), computed tile by tile.

    `of_tile(place, workspace, *tiles)` returns the metrics of one tile; each thread works on a separate tile. All
    metrics are written into one tensor, since many small results between freed large ones would fragment the memory.
    """
    results = torch.empty(count, *matrices[0].shape[:-1], dtype=torch.float64)
    workspace = Workspace(results, AT_A_TIME)

    @torch.no_grad()
    def fill(some: Iterator[Tile]) -> None:
        for tile in some:
            index = (tile[0], ..., tile[1]) if results.ndim > 2 else (..., tile[1])
            metrics = of_tile(tile, workspace, *(matrix[*index, :] for matrix in matrices))
            for result, metric in zip(results, metrics, strict=True):
                result[index] = metric

    with on_threads(1) as threads:
        share(fill, tiles(matrices[0].shape, AT_A_TIME), threads)
    return results


def _copied(matrix: Tensor, workspace: Workspace, index: int) -> Tensor:
    return workspace(index, matrix.shape).copy_(matrix)


def _entropy(weights: Tensor, workspace: Workspace) -> Tensor:
    """Return the entropy of the rows of float64 weights. NumPy's logarithm takes a third of the time of torch's."""
    logs = torch.clamp(weights, min=SMALLEST, out=workspace(1, weights.shape))
    np.log(logs.numpy(), out=logs.numpy())
    return -logs.mul_(weights).sum(-1)
