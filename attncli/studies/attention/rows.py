"""Metrics of every row of scores, weights and outputs, for one scorer and for pairs.

A row is one query of one head. The metrics of all rows are vectors (..., n), float64 on the CPU, for weights
(..., n, m); all statistics follow from them. The module `tiles` computes the same vectors without holding a whole
matrix.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import partial

import torch
from torch import Tensor

from attncli.attention import Rules
from attncli.core.metrics import entropy, js_divergence, shares, top1_agreement, top_keys
from attncli.core.threads import on_threads, share
from attncli.pooling import Tile, tiles

AT_A_TIME = 2**19  # numbers of a tile, which is converted to float64


@dataclass(frozen=True)
class ScorerRows:
    """The metrics of one scorer: one value per query, in tensors (..., n).

    `count`, `mean` and `squares` are the number of scores at valid keys, the mean of these scores, and the sum of
    their squared deviations from the mean; without a valid key they are 0. `entropy` (nats) is the entropy of the
    weights divided by their sum, NaN where all weights are 0 or one is negative. Each further field becomes a column of
    the results with the field's name, its mean over the queries.
    """

    count: Tensor
    mean: Tensor
    squares: Tensor
    entropy: Tensor
    max_weight: Tensor
    weight_sum: Tensor

    @property
    def is_finite(self) -> Tensor:
        """Whether all weights of each query (..., n) are finite."""
        return self.weight_sum.isfinite()

    @property
    def has_weights(self) -> Tensor:
        """Whether some weight of each query (..., n) is not 0."""
        return (self.weight_sum != 0) | (self.max_weight != 0)

    @property
    def is_signed(self) -> Tensor:
        """Whether some weight of each query (..., n) is negative."""
        return self.is_finite & self.has_weights & self.entropy.isnan()


@dataclass(frozen=True)
class PairRows:
    """The differences between the weights of two scorers: one value per query, in tensors (..., n).

    `has_weights` is True for rows with finite weights of both scorers that are not all 0. `js_divergence` is the
    Jensen-Shannon divergence in bits of the weights divided by their sums, from 0 (equal) to 1 (disjoint) (Lin 1991),
    NaN where a weight is negative. `top1_agreement` is 1 if both scorers have their largest weight at the same key,
    else 0, and NaN where `top_keys` gives a scorer none. `max_abs_difference` is the largest difference of weights.
    """

    has_weights: Tensor
    js_divergence: Tensor
    top1_agreement: Tensor
    max_abs_difference: Tensor


def scorer_rows(scores: Tensor, weights: Tensor, rules: Rules) -> ScorerRows:
    """Return the metrics of scores at valid keys and of the weights that follow by the rules, (..., n, m) each."""
    return ScorerRows(*_by_tiles(partial(tile_rows, rules), len(fields(ScorerRows)), scores, weights))


def tile_rows(rules: Rules, tile: Tile, scores: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
    """Return the metrics, in the order of `ScorerRows`, of one tile of scores and weights."""
    reach = max(rules.valid.reach(*tile)[1], 1)  # no row sees the keys from `reach` on
    scores = scores[..., :reach].to("cpu", torch.float64)
    visible = _visible(rules, tile, scores)
    scores = scores.where(visible, 0.0)
    count = visible.sum(-1, dtype=torch.float64)
    mean = scores.sum(-1) / count.clamp(min=1.0)
    squares = torch.linalg.vector_norm((scores - mean[..., None]).mul_(visible), dim=-1).square()
    weights = weights[..., : max(rules.reach(*tile), 1)].to("cpu", torch.float64)
    sums, largest = weights.sum(-1), weights.amax(-1)
    if bool((sums < 0).any()):  # the largest weight may be below 0, the weight of an invalid key
        visible = _visible(rules, tile, weights)
        largest = torch.where(visible.any(-1), weights.masked_fill(~visible, -torch.inf).amax(-1), largest)
    return count, mean, squares, entropy(shares(weights)), largest, sums


def pair_rows(
    weights_a: Tensor, weights_b: Tensor, a: ScorerRows, b: ScorerRows, rules: tuple[Rules, Rules]
) -> PairRows:
    """Return the differences of two scorers' weights (..., n, m), given the metrics `a` and `b` of each scorer.

    `rules` are the rules from which the weights of each scorer follow.
    """
    entropies = torch.stack([a.entropy, b.entropy], -1)

    def of_tile(tile: Tile, a: Tensor, b: Tensor, entropies: Tensor) -> tuple[Tensor, ...]:
        """Return divergence, agreement and largest difference of each row of a tile."""
        reach = max(1, *(of_scorer.reach(*tile) for of_scorer in rules))
        a, b = (weights[..., :reach].to("cpu", torch.float64) for weights in (a, b))
        middle = (shares(a) + shares(b)) / 2
        divergence = js_divergence(entropy(middle), *entropies.unbind(-1))
        tops = (
            top_keys(weights, _visible(of_scorer, tile, weights))
            for of_scorer, weights in zip(rules, (a, b), strict=True)
        )
        return divergence, top1_agreement(*tops), (a - b).abs().amax(-1)

    has_weights = a.is_finite & b.is_finite & a.has_weights & b.has_weights
    return PairRows(has_weights, *_by_tiles(of_tile, 3, weights_a, weights_b, entropies))


def _visible(rules: Rules, tile: Tile, weights: Tensor) -> Tensor:
    """Return the mask of the keys that the queries of a tile see, of the shape of its weights."""
    valid = rules.valid.tile(*tile, slice(weights.shape[-1]))
    return (torch.ones((), dtype=torch.bool) if valid is None else valid.cpu()).expand(weights.shape)


def output_rows(a: Tensor, b: Tensor) -> Tensor:
    """Return the squared L2 norms (2, ..., n) of the rows of a - b and of a, two scorers' outputs (..., n, v)."""

    def of_tile(tile: Tile, a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        """Return the squared norms of each row of a tile."""
        return (a.double() - b.double()).square().sum(-1), a.double().square().sum(-1)

    return _by_tiles(of_tile, 2, a, b)


def _by_tiles(of_tile: Callable[..., tuple[Tensor, ...]], count: int, *matrices: Tensor) -> Tensor:
    """Return `count` metrics (count, ..., n) of the rows of matrices (..., n, columns), computed tile by tile.

    `of_tile(place, *tiles)` returns the metrics of one tile; each thread works on a separate tile. All metrics are
    written into one tensor, since many small results between freed large ones would fragment the memory.
    """
    results = torch.empty(count, *matrices[0].shape[:-1], dtype=torch.float64)

    @torch.no_grad()
    def fill(jobs: Iterator[Tile]) -> None:
        for tile in jobs:
            index = (tile[0], ..., tile[1]) if results.ndim > 2 else (..., tile[1])
            metrics = of_tile(tile, *(matrix[*index, :] for matrix in matrices))
            for result, metric in zip(results, metrics, strict=True):
                result[index] = metric

    with on_threads(1) as threads:
        share(fill, tiles(matrices[0].shape, AT_A_TIME), threads)
    return results
