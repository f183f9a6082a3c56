"""Compute outputs and the metrics of every row in tiles, without holding the weights of all queries."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial

import torch
from torch import Tensor

from attncli import pooling
from attncli.attention import Rules, all_finite, at_least_float32
from attncli.errors import InputError
from attncli.guarding import OwnNormalizer
from attncli.pooling import Tile, is_softmax, scores_keys_alone, tiles
from attncli.scorers import is_built_in
from attncli.studies.attention.rows import ScorerRows, Workspace, rows_of_tile
from attncli.threads import on_threads, share

AT_A_TIME = 2**19  # scores of a tile, which fit into a processor's cache
FEWEST_QUERIES = 128  # of a head in a tile of several heads: matrix products with fewer are slow
TILE_SHARE, FAST_TILE_SHARE = 12, 5  # a tile is one part of the workspace, beside its stages and metrics
ROWS = tuple(field.name for field in fields(ScorerRows))
QUICK = ("count", "mean", "squares", "entropy", "max_weight", "weight_sum")  # the metrics of `_by_softmax`
LOWEST = -1000.0  # its exponential is 0 in float32 and float64
LOG2_E = math.log2(math.e)

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
    metrics = torch.empty(len(ROWS), *queries.shape[:-1], dtype=torch.float64)
    is_known = is_built_in(scorer) and not isinstance(rules.normalizer, OwnNormalizer)
    is_alone = is_known and queries.device.type == "cpu" and getattr(scorer, "_compiled_call_impl", None) is None
    groups = [(slice(None), rules)]
    if is_known and queries.ndim == 4:
        groups = [(heads, rules.of_heads(heads)) for heads in _groups(queries.shape[1], keys.shape[-2])]
    if is_built_in(scorer) and (product := scorer.as_dot(queries, keys)) is not None:  # once for all tiles
        queries, keys, scale = product
        scorer = partial(_scaled_products, scale)
    is_fast = is_softmax(rules) and ROWS == QUICK and all_finite(values)
    parts = FAST_TILE_SHARE if is_fast and rules.cap is None and rules.bias is None else TILE_SHARE
    enough = max(AT_A_TIME, min(128 * keys.shape[-2], 2 * AT_A_TIME))  # products with few queries are slow
    most = min(enough, pooling.WORKSPACE_BYTES // (parts * queries.element_size()))
    workspace, exact = Workspace(queries, most), Workspace(metrics, most)

    def fill(jobs: Iterator[tuple[slice, Rules, Tile]]) -> None:
        for heads, of_heads, tile in jobs:
            elements, rows = tile
            batch = (elements, heads) if queries.ndim == 4 else (elements, ...) if queries.ndim > 2 else (...,)
            some = queries[*batch, rows, :], keys[*batch, :, :], values[*batch, :, :]
            with _located(tile, heads.start or 0):
                pooled = _by_softmax(scorer, *some, of_heads, tile, workspace) if is_fast else None
                pooled = _by_stages(scorer, *some, of_heads, tile, exact) if pooled is None else pooled
            output[*batch, rows, :], figures = pooled
            for metric, row in zip(metrics, figures, strict=True):
                metric[*batch, rows] = row

    jobs = ((heads, some, tile) for heads, some in groups for tile in tiles(some.valid.shape, most))
    if is_alone:
        with on_threads(1) as threads:
            share(fill, jobs, threads)
    else:
        fill(jobs)
    return output, ScorerRows(*metrics)


def _groups(heads: int, m: int) -> Iterator[slice]:
    """Yield slices of the heads for tiles of at least FEWEST_QUERIES queries of each head."""
    most = max(AT_A_TIME // max(FEWEST_QUERIES * m, 1), 1)
    count = math.ceil(heads / max(math.ceil(heads / most), 1)) or 1
    return (slice(first, first + count) for first in range(0, heads, count))


@contextmanager
def _located(tile: Tile, first_head: int) -> Iterator[None]:
    """Context manager that replaces the index of a score or weight in an InputError by its index in all heads."""
    try:
        yield
    except InputError as error:
        (problem,) = error.problems
        if problem.path[:1] not in (("scores",), ("weights",)):
            raise
        where = [int(index) for index in problem.path[1:]]
        where[-2] += tile[1].start
        where[0] += tile[0].start if len(where) > 2 else 0
        where[1] += first_head if len(where) > 3 else 0
        raise InputError([replace(problem, path=(problem.path[0], *where))]) from error


def _scaled_products(scale: float, queries: Tensor, keys: Tensor, out: Tensor | None = None) -> Tensor:
    return torch.matmul(queries * scale, keys.mT, out=out)  # ... n m


def _by_softmax(
    scorer: Scorer, queries: Tensor, keys: Tensor, values: Tensor, rules: Rules, tile: Tile, workspace: Workspace
) -> tuple[Tensor, Metrics] | None:
    """Return the output and the metrics QUICK of a tile with softmax, in as few passes over its scores as possible.

    Return None if a row has no valid key, or if scores or their squares are not finite: such tiles need more care.
    """
    free, reach = rules.valid.reach(*tile)  # all rows see the keys before `free`, none sees the keys from `reach` on
    if reach == 0:
        return None
    some, values, shape = keys[..., :reach, :], values[..., :reach, :], (*queries.shape[:-1], reach)
    if isinstance(scorer, partial) and scorer.func is _scaled_products:
        scores: Tensor = scorer(queries, some, out=workspace(0, shape))
    elif scores_keys_alone(scorer):
        scores = scorer(queries, some).to(queries.dtype)
    else:
        scores = scorer(queries, keys)[..., :reach].to(queries.dtype)
    valid = None if rules.valid.is_full else rules.valid.tile(*tile, slice(free, reach))
    valid = None if valid is None else valid.expand(*valid.shape[:-1], reach - free)
    allowed = scores.new_ones(1, 0) if valid is None else valid.to(scores.dtype)  # multiplying is faster than masking
    count = (free + allowed.sum(-1)).expand(shape[:-1])
    total = scores[..., :free].sum(-1) + torch.mul(
        scores[..., free:], allowed, out=workspace(1, shape)[..., free:]
    ).sum(-1)
    if not bool((total.isfinite() & (count > 0)).all()):  # any infinite or NaN score makes the sum so
        return None
    mean = total / count
    below = torch.sub(scores, mean[..., None], out=workspace(1, shape))
    below[..., free:] *= allowed
    norm = torch.linalg.vector_norm(below, dim=-1)
    if rules.cap is None and rules.bias is None:
        below -= below.amax(-1, keepdim=True)  # invalid keys are at the mean by now
    else:
        below = _below_largest(rules.logits(scores, *tile), valid)
    below *= LOG2_E
    powers = torch.exp2(below, out=workspace(0, shape))  # faster than exp; the scores are not needed any more
    powers[..., free:] *= allowed
    total = powers.sum(-1)
    output = (powers @ values).div_(total[..., None])
    expected = powers.mul_(below).sum(-1).double() / LOG2_E
    entropy = total.double().log() - expected / total.double()
    if not bool((norm + entropy).isfinite().all()):
        return None
    return output, (count, mean, norm.double().square(), entropy, 1.0 / total.double(), torch.ones_like(total))


def _below_largest(logits: Tensor, valid: Tensor | None) -> Tensor:
    """Return each logit minus the largest valid logit of its row, and finite values at invalid keys.

    `valid` is the mask of the last keys; the keys before them are all valid.
    """
    largest = logits.amax(-1, keepdim=True)
    if valid is not None:
        free = logits.shape[-1] - valid.shape[-1]
        last = logits[..., free:].masked_fill(~valid, -torch.inf)
        largest = torch.cat([logits[..., :free], last], -1).amax(-1, keepdim=True)
    return (logits - largest).clamp_(LOWEST, 0.0)


def _by_stages(
    scorer: Scorer, queries: Tensor, keys: Tensor, values: Tensor, rules: Rules, tile: Tile, workspace: Workspace
) -> tuple[Tensor, Metrics]:
    (scores,) = at_least_float32(scorer(queries, keys))
    weights = rules.stages(scores, *tile)["weights"]
    return rules.pooled(weights, values), rows_of_tile(rules, tile, workspace, scores, weights)
