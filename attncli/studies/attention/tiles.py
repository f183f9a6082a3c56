"""Outputs, and the figures of every row, without ever holding the weights of all queries."""

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from itertools import chain

import torch
from torch import Tensor

from attncli import pooling
from attncli.attention import Rules, all_finite, at_least_float32, weighted_sum
from attncli.common.threads import in_order, on_threads
from attncli.pooling import Place, is_softmax, tiles
from attncli.scorers import SCORERS
from attncli.studies.attention.rows import ScorerRows, scorer_rows

AT_A_TIME = 2**19  # scores of a tile: few enough for a processor's cache, where going over them again costs little
TILE_SHARE, FAST_TILE_SHARE = 12, 5  # a tile takes one part of the workspace, beside its stages and statistics
ROWS = tuple(each.name for each in fields(ScorerRows))
QUICK = ("count", "mean", "squares", "entropy", "max_weight", "weight_sum")  # the rows that `_by_softmax` gives
LEAST = -1000.0  # whose exponential is 0 in float32 and in float64
LOG2_E = math.log2(math.e)

Scorer = Callable[[Tensor, Tensor], Tensor]
Figures = tuple[Tensor, ...]  # of some rows, in the order of the fields of `ScorerRows`


@torch.no_grad()
def pool_with_rows(
    scorer: Scorer, queries: Tensor, keys: Tensor, values: Tensor, rules: Rules
) -> tuple[Tensor, ScorerRows]:
    """The output (..., n, v) of `pool_by_rules`, and the rows of the scores and the weights that it comes from.

    Scores are made once, some queries at a time, in memory that is bounded for each thread, beside inputs and output.
    Every thread has tiles of its own, where the scorer is one of the catalogue: threads that share a tile wait for each
    other at each of its many small steps, for long if the machine is busy.
    """
    queries, keys, values = at_least_float32(queries, keys, values)
    output = values.new_empty((*queries.shape[:-1], values.shape[-1]))  # ... n v
    figures = torch.empty(len(ROWS), *queries.shape[:-1], dtype=torch.float64)
    known = type(scorer) in SCORERS.values()
    jobs = _jobs(output, figures, scorer, queries, keys, values, rules)
    if known and queries.ndim == 4:  # a tile of one head has more queries than one of all heads

        def of_head(head: int) -> Iterator[Callable[[], None]]:
            some, others, theirs = queries[:, head], keys[:, head], values[:, head]
            return _jobs(output[:, head], figures[:, :, head], scorer, some, others, theirs, rules.of_head(head))

        jobs = chain.from_iterable(map(of_head, range(queries.shape[1])))
    if known and queries.device.type == "cpu" and getattr(scorer, "_compiled_call_impl", None) is None:
        with on_threads(1) as threads:
            deque(in_order(lambda job: job(), jobs, threads), 0)
    else:
        for job in jobs:
            job()
    return output, ScorerRows(*figures)


class Space(threading.local):
    """Matrices that every tile of a thread uses again: new ones cost as much time as the work on them."""

    def __init__(self, like: Tensor) -> None:
        self._flat = like.new_empty(3, 0)

    def __call__(self, index: int, shape: tuple[int, ...]) -> Tensor:
        size = math.prod(shape)
        if self._flat.shape[1] < size:
            self._flat = self._flat.new_empty(3, size)
        return self._flat[index, :size].view(shape)


def _jobs(
    output: Tensor, figures: Tensor, scorer: Scorer, queries: Tensor, keys: Tensor, values: Tensor, rules: Rules
) -> Iterator[Callable[[], None]]:
    """What fills in output and figures, tile by tile, in any order."""
    if type(scorer) in SCORERS.values() and hasattr(scorer, "as_dot"):
        queries, keys, scale = scorer.as_dot(queries, keys)  # once, not for every tile
        scorer = partial(_scaled_products, scale)
    is_fast = is_softmax(rules) and ROWS == QUICK and all_finite(values)
    share = FAST_TILE_SHARE if is_fast and rules.cap is None and rules.bias is None else TILE_SHARE
    enough = max(AT_A_TIME, min(128 * keys.shape[-2], 2 * AT_A_TIME))  # products of few queries are slow
    most = min(enough, pooling.WORKSPACE_BYTES // (share * queries.element_size()))
    space = Space(queries)

    @torch.no_grad()  # which other threads do not know of
    def fill(place: Place) -> None:
        elements, rows = place
        batch = (elements, ...) if queries.ndim > 2 else (...,)
        some = queries[*batch, rows, :], keys[*batch, :, :], values[*batch, :, :]
        pooled = _by_softmax(scorer, *some, rules, place, space) if is_fast else None
        pooled = _by_stages(scorer, *some, rules, place) if pooled is None else pooled
        output[*batch, rows, :], found = pooled
        for figure, each in zip(figures, found, strict=True):
            figure[*batch, rows] = each

    yield from (partial(fill, place) for place in tiles(rules.valid.shape, most))


def _scaled_products(scale: float, queries: Tensor, keys: Tensor, out: Tensor | None = None) -> Tensor:
    return torch.matmul(queries * scale, keys.mT, out=out)  # ... n m


def _by_softmax(
    scorer: Scorer, queries: Tensor, keys: Tensor, values: Tensor, rules: Rules, place: Place, space: Space
) -> tuple[Tensor, Figures] | None:
    """The output of a tile and its figures by softmax, in as few passes over its scores as there can be.

    The figures are those of QUICK. None where a row has no valid key, or numbers that are not finite, or whose squares
    are not: these need more care.
    """
    sure, seen = rules.valid.reach(*place)
    if seen == 0:
        return None
    keys, values, shape = keys[..., :seen, :], values[..., :seen, :], (*queries.shape[:-1], seen)
    if isinstance(scorer, partial) and scorer.func is _scaled_products:
        scores: Tensor = scorer(queries, keys, out=space(0, shape))
    else:
        scores = scorer(queries, keys).to(queries.dtype)
    valid = None if rules.valid.is_full else rules.valid.tile(*place, slice(sure, seen))
    valid = None if valid is None else valid.expand(*valid.shape[:-1], seen - sure)
    allowed = scores.new_ones(1, 0) if valid is None else valid.to(scores.dtype)  # whose product is faster than a mask
    count = (sure + allowed.sum(-1)).expand(shape[:-1])
    total = scores[..., :sure].sum(-1) + torch.mul(scores[..., sure:], allowed, out=space(1, shape)[..., sure:]).sum(-1)
    if not bool((total.isfinite() & (count > 0)).all()):  # a score that is not finite makes its sum so, valid or not
        return None
    mean = total / count
    below = torch.sub(scores, mean[..., None], out=space(1, shape))
    below[..., sure:] *= allowed
    norm = torch.linalg.vector_norm(below, dim=-1)
    if rules.cap is None and rules.bias is None:
        below -= below.amax(-1, keepdim=True)  # the largest score: that of an invalid key is at the mean by now
    else:
        below = _below_largest(rules.logits(scores, *place), valid)
    below *= LOG2_E
    powers = torch.exp2(below, out=space(2, shape))  # faster than exp
    powers[..., sure:] *= allowed
    total = powers.sum(-1)
    output = (powers @ values).div_(total[..., None])
    expected = powers.mul_(below).sum(-1).double() / LOG2_E
    entropy = total.double().log() - expected / total.double()
    if not bool((norm + entropy).isfinite().all()):
        return None
    return output, (count, mean, norm.double().square(), entropy, 1.0 / total.double(), torch.ones_like(total))


def _below_largest(logits: Tensor, valid: Tensor | None) -> Tensor:
    """The difference of each logit and the largest valid one of its row, at invalid keys a number.

    `valid` is of the last keys; of those before them all are.
    """
    largest = logits.amax(-1, keepdim=True)
    if valid is not None:
        sure = logits.shape[-1] - valid.shape[-1]
        last = logits[..., sure:].masked_fill(~valid, -torch.inf)
        largest = torch.cat([logits[..., :sure], last], -1).amax(-1, keepdim=True)
    return (logits - largest).clamp_(LEAST, 0.0)


def _by_stages(
    scorer: Scorer, queries: Tensor, keys: Tensor, values: Tensor, rules: Rules, place: Place
) -> tuple[Tensor, Figures]:
    (scores,) = at_least_float32(scorer(queries, keys))
    weights = rules.stages(scores, *place)["weights"]
    valid = rules.valid.tile(*place)
    allowed = torch.ones((), dtype=torch.bool, device=scores.device) if valid is None else valid
    found = scorer_rows(scores, weights, allowed.expand(scores.shape))
    return weighted_sum(weights, values), tuple(getattr(found, name) for name in ROWS)
