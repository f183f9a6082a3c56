"""Compute outputs and the metrics of every row in tiles, without holding the weights of all queries."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace

import torch
from torch import Tensor

from attncli import pooling
from attncli.attention import Rules, all_finite, at_least_float32
from attncli.catalogue.guarding import OwnNormalizer
from attncli.core.threads import on_threads, share
from attncli.errors import InputError
from attncli.pooling import Tile, is_softmax, tiles
from attncli.scorers import is_built_in
from attncli.studies.attention.rows import ScorerRows, tile_rows

AT_A_TIME = 2**18  # scores of a tile, which fit into a processor's cache
TILE_SHARE = 12  # a tile is one part of the workspace, beside its stages and metrics
QUICK = ("count", "mean", "squares", "entropy", "max_weight", "weight_sum")  # the metrics that `_by_softmax` gives
LOWEST = -1000.0  # its exponential is 0 in float32 and float64

Scorer = Callable[[Tensor, Tensor], Tensor]
Metrics = tuple[Tensor, ...]  # of some rows, in the order of `ScorerRows`


@torch.no_grad()
def pool_with_rows(
    scorer: Scorer, queries: Tensor, keys: Tensor, values: Tensor, rules: Rules
) -> tuple[Tensor, ScorerRows]:
    """Return the output (..., n, v) of `pool_by_rules` and the metrics of the rows of its scores and weights.

    Scores are computed once, some queries at a time, in bounded memory for each thread. Scorers of the catalogue use
    one thread for each tile: threads that share a tile would wait for each other at every small step.
    """
    queries, keys, values = at_least_float32(queries, keys, values)
    output = values.new_empty((*queries.shape[:-1], values.shape[-1]))  # ... n v
    names = tuple(field.name for field in fields(ScorerRows))
    metrics = torch.empty(len(names), *queries.shape[:-1], dtype=torch.float64)
    most = min(AT_A_TIME, pooling.WORKSPACE_BYTES // (TILE_SHARE * queries.element_size()))
    is_known = is_built_in(scorer) and not isinstance(rules.normalizer, OwnNormalizer)
    is_quick = is_known and is_softmax(rules) and names == QUICK and all_finite(values)
    if is_built_in(scorer) and (product := scorer.as_dot(queries, keys)) is not None:  # once for all tiles
        queries, keys = product[0] * product[2], product[1]
        scorer = _products

    def fill(jobs: Iterator[Tile]) -> None:
        """Write the output and the metrics of these tiles into their tensors."""
        for tile in jobs:
            elements, rows = tile
            batch = (elements, ...) if queries.ndim > 2 else (...,)
            tile_queries, tile_keys, tile_values = queries[*batch, rows, :], keys[*batch, :, :], values[*batch, :, :]
            pooled = _by_softmax(scorer, tile_queries, tile_keys, tile_values, rules, tile) if is_quick else None
            if pooled is None:
                try:
                    pooled = _by_stages(scorer, tile_queries, tile_keys, tile_values, rules, tile)
                except InputError as error:  # whose index is of the tile
                    raise InputError(replace(each, path=each.path[:1]) for each in error.problems) from error
            output[*batch, rows, :], figures = pooled
            for metric, row in zip(metrics, figures, strict=True):
                metric[*batch, rows] = row

    jobs = tiles(rules.valid.shape, most)
    is_compiled = getattr(scorer, "_compiled_call_impl", None) is not None
    if is_known and not is_compiled and queries.device.type == "cpu":
        with on_threads(1) as threads:
            share(fill, jobs, threads)
    else:
        fill(jobs)
    return output, ScorerRows(*metrics)


def _products(queries: Tensor, keys: Tensor) -> Tensor:
    return queries @ keys.mT  # ... n m


def _by_softmax(
    scorer: Scorer, queries: Tensor, keys: Tensor, values: Tensor, rules: Rules, tile: Tile
) -> tuple[Tensor, Metrics] | None:
    """Return the output and the metrics of a tile with softmax, a third of the time of `_by_stages`.

    The exponentials of the scores below the largest give the output and the entropy, without a logarithm for each
    weight: with w = p / sum p and p = exp(s), -sum w ln w = ln sum p - sum p s / sum p. Return None where this is not
    finite: without a valid key, and for scores that are not finite or have no finite squares.
    """
    free, reach = rules.valid.reach(*tile)  # all rows see the keys before `free`, none sees the keys from `reach` on
    scores = scorer(queries, keys[..., :reach, :]).to(queries.dtype)  # ... n reach
    valid = rules.valid.tile(*tile, slice(free, reach))
    blocked = scores.new_zeros(1, reach - free, dtype=torch.bool) if valid is None else ~valid
    count = reach - blocked.expand(*blocked.shape[:-1], reach - free).sum(-1).expand(scores.shape[:-1])
    if reach == 0 or not bool(count.all()):
        return None
    scores[..., free:].masked_fill_(blocked, 0.0)
    mean = scores.sum(-1) / count
    around = scores - mean[..., None]
    around[..., free:].masked_fill_(blocked, 0.0)
    norm = torch.linalg.vector_norm(around, dim=-1)
    logits = rules.logits(scores, *tile)
    logits[..., free:].masked_fill_(blocked, -torch.inf)
    below = logits.sub_(logits.amax(-1, keepdim=True))
    below[..., free:].masked_fill_(blocked, LOWEST)
    powers = torch.exp(below, out=around)
    total = powers.sum(-1)
    output = (powers @ values[..., :reach, :]).div_(total[..., None])
    expected = powers.mul_(below).sum(-1).double() / total.double()
    entropy = total.double().log() - expected
    if not bool((norm + entropy).isfinite().all()):
        return None
    return output, (count, mean, norm.double().square(), entropy, 1.0 / total.double(), torch.ones_like(total))


def _by_stages(
    scorer: Scorer, queries: Tensor, keys: Tensor, values: Tensor, rules: Rules, tile: Tile
) -> tuple[Tensor, Metrics]:
    (scores,) = at_least_float32(scorer(queries, keys))
    weights = rules.stages(scores, *tile)["weights"]
    return rules.pooled(weights, values), tile_rows(rules, tile, scores, weights)
