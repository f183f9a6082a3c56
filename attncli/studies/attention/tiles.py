"""Outputs, and the figures of every row, without ever holding the weights of all queries."""

from collections.abc import Callable
from dataclasses import fields
from functools import partial

import torch
from torch import Tensor

from attncli import pooling
from attncli.attention import Rules, all_finite, at_least_float32, weighted_sum
from attncli.pooling import Place, is_softmax, tiles
from attncli.scorers import SCORERS
from attncli.studies.attention.rows import ScorerRows, scorer_rows

AT_A_TIME = 2**19  # scores of a tile: few enough for a processor's cache, where going over them again costs little
MATRICES = 10  # of the size of float32 scores that `scorer_rows` holds at once
LEAST = -1000.0  # whose exponential is 0 in float32 and in float64

Scorer = Callable[[Tensor, Tensor], Tensor]
Figures = tuple[Tensor, ...]  # of some rows, in the order of the fields of `ScorerRows`


@torch.no_grad()
def pool_with_rows(
    scorer: Scorer, queries: Tensor, keys: Tensor, values: Tensor, rules: Rules
) -> tuple[Tensor, ScorerRows]:
    """The output (..., n, v) of `pool_by_rules`, and the rows of the scores and the weights that it comes from.

    Scores are made once, some queries at a time, in memory that is bounded beside inputs and output.
    """
    queries, keys, values = at_least_float32(queries, keys, values)
    if type(scorer) in SCORERS.values() and hasattr(scorer, "as_dot"):
        queries, keys, scale = scorer.as_dot(queries, keys)
        scorer = partial(_scaled_products, scale)
    output = values.new_empty((*queries.shape[:-1], values.shape[-1]))  # ... n v
    rows = torch.empty(len(fields(ScorerRows)), *queries.shape[:-1], dtype=torch.float64)
    _fill(output, rows, scorer, queries, keys, values, rules)
    return output, ScorerRows(*rows)


def _scaled_products(scale: float, queries: Tensor, keys: Tensor) -> Tensor:
    return (queries * scale) @ keys.mT  # ... n m


def _fill(
    output: Tensor, figures: Tensor, scorer: Scorer, queries: Tensor, keys: Tensor, values: Tensor, rules: Rules
) -> None:
    is_fast = is_softmax(rules) and all_finite(values)
    matrices = pooling.MATRICES if is_fast else getattr(rules.normalizer, "matrices", pooling.MATRICES) + MATRICES
    most = min(AT_A_TIME, pooling.WORKSPACE_BYTES // (matrices * queries.element_size()))
    for elements, rows in tiles(rules.valid.shape, most):
        batch = (elements, ...) if queries.ndim > 2 else (...,)
        some = queries[*batch, rows, :], keys[*batch, :, :], values[*batch, :, :]
        pooled = _by_softmax(scorer, *some, rules, (elements, rows)) if is_fast else None
        pooled = _by_stages(scorer, *some, rules, (elements, rows)) if pooled is None else pooled
        output[*batch, rows, :], found = pooled
        for figure, each in zip(figures, found, strict=True):
            figure[*batch, rows] = each


def _by_softmax(
    scorer: Scorer, queries: Tensor, keys: Tensor, values: Tensor, rules: Rules, place: Place
) -> tuple[Tensor, Figures] | None:
    """The output of a tile and its figures by softmax, in as few passes over its scores as there can be.

    None where a row has no valid key, or numbers that are not finite, or whose squares are not: these need more care.
    """
    seen = rules.valid.reach(*place)
    if seen == 0:
        return None
    (scores,) = at_least_float32(scorer(queries, keys[..., :seen, :]))
    valid = rules.valid.tile(*place)
    valid = None if valid is None else valid[..., :seen]
    allowed = None if valid is None else valid.to(scores.dtype)  # products with 0 and 1 are faster than masks
    spread = scores.amax(-1) - scores.amin(-1)
    count = torch.full_like(spread, seen) if allowed is None else allowed.sum(-1).expand(spread.shape)
    if not bool((spread.isfinite() & (count > 0)).all()):
        return None
    mean = (scores if allowed is None else scores * allowed).sum(-1) / count
    below = scores - mean[..., None]
    if allowed is not None:
        below *= allowed
    norm = torch.linalg.vector_norm(below, dim=-1)
    if rules.cap is None and rules.bias is None:
        below -= below.amax(-1, keepdim=True)  # the largest score: that of an invalid key is at the mean by now
    else:
        below = _below_largest(rules.logits(scores, *place), valid)
    powers = below.exp()  # ... n m
    if allowed is not None:
        powers *= allowed
    total = powers.sum(-1)
    entropy = total.double().log() - below.mul_(powers).sum(-1).double() / total.double()
    if not bool((norm + entropy).isfinite().all()):
        return None
    output = (powers @ values[..., :seen, :]).div_(total[..., None])
    figures = count, mean, norm.double().square(), entropy, 1.0 / total.double(), torch.ones_like(total)
    return output, figures


def _below_largest(logits: Tensor, valid: Tensor | None) -> Tensor:
    """The difference of each logit and the largest valid one of its row, at invalid keys a number."""
    if valid is None:
        return (logits - logits.amax(-1, keepdim=True)).clamp_min_(LEAST)
    largest = logits.masked_fill(~valid, -torch.inf).amax(-1, keepdim=True)
    return (logits - largest).clamp_(LEAST, 0.0)


def _by_stages(
    scorer: Scorer, queries: Tensor, keys: Tensor, values: Tensor, rules: Rules, place: Place
) -> tuple[Tensor, Figures]:
    (scores,) = at_least_float32(scorer(queries, keys))
    weights = rules.stages(scores, *place)["weights"]
    valid = rules.valid.tile(*place)
    allowed = torch.ones((), dtype=torch.bool, device=scores.device) if valid is None else valid
    found = scorer_rows(scores, weights, allowed.expand(scores.shape))
    return weighted_sum(weights, values), tuple(getattr(found, field.name) for field in fields(found))
