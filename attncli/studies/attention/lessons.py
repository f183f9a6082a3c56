"""Sentences about a run that its tensors prove, such as weights that do not depend on the query."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from attncli.core.numbers import TIE, number, several
from attncli.results import Finding

EXCERPT = 8  # queries of the first matrix that are looked at first: most rules fail there already


def even_labels(valid: Tensor, weights: Mapping[str, Tensor]) -> list[str]:
    """Return the labels with equal weights (..., n, m) for all valid keys of each query."""
    return [label for label, tensor in weights.items() if _holds(_is_even, valid.expand(tensor.shape), tensor)]


def proven_lessons(
    queries: Tensor,
    keys: Tensor,
    valid: Tensor,
    logits: Mapping[str, Tensor],
    weights: Mapping[str, Tensor],
    positions: Sequence[tuple[str, int]] = (),
) -> list[Finding]:
    """Return findings that hold for all queries, up to rounding: one for all labels, or at most one for each.

    Args:
        queries: (..., n, q).
        keys: (..., m, k), with the leading axes of the queries.
        valid: boolean, broadcastable to (..., n, m), True = may attend.
        logits: the scores (..., n, m) by label, after softcap and bias.
        weights: the weights (..., n, m) by label, before dropout.
        positions: labels where positions alone may tell equal keys apart, each with the position of the last query.
    """
    valid = valid.expand(next(iter(weights.values())).shape)
    everyone = "every scorer gives" if len(weights) > 1 else f"{next(iter(weights))} gives"
    if not bool((valid.sum(-1) > 1).any()):
        at_valid = [tensor[valid] for tensor in weights.values()]
        is_one = bool(valid.any()) and all(bool(((1 - numbers).abs() <= TIE).all()) for numbers in at_valid)
        return [Finding(f"Each query has one valid key at most, so {everyone} it the weight 1.")] * is_one
    even, is_masked = even_labels(valid, weights), not bool(valid.all())
    seen = keys[valid.any(-2)]  # by some query
    if len(even) == len(weights) and bool((seen == seen[:1]).all()):
        return [
            Finding(
                f"All {'valid keys' if is_masked else 'keys'} are equal, so {everyone} each of them the same weight."
            )
        ]
    lessons: dict[str, Finding | None] = {
        label: _even_weights(label, valid, weights[label], is_masked) for label in even
    }
    last = valid[(0,) * (valid.ndim - 2)][-1].nonzero()[:, 0]  # keys of the last query of the first matrix
    if len(last) and bool((seen == seen[:1]).all()):
        lessons |= {name: _by_position(name, at, last, logits[name]) for name, at in positions if name not in even}
    has_one_mask = bool((valid == valid[..., :1, :]).all())
    queries_differ = bool((queries != queries[..., :1, :]).any())
    for label, tensor in weights.items():
        if label in lessons:
            continue
        if has_one_mask and queries_differ and _holds(_has_equal_rows, valid, tensor):
            which = "query of a matrix" if valid[..., 0, 0].numel() > 1 else "query"
            text = f"{label}: every {which} gets the same weights; they do not depend on which query asks."
            lessons[label] = Finding(text, label)
            continue
        for other in list(weights)[: list(weights).index(label)]:
            if other not in even and _holds(_is_multiple, valid, logits[label], logits[other]):
                pair = [(logits[name], weights[name]) for name in (label, other)]
                lessons[label] = _proportional_scores(label, other, valid, *pair)
                break
    return [lesson for lesson in lessons.values() if lesson is not None]


def _even_weights(label: str, valid: Tensor, weights: Tensor, is_masked: bool) -> Finding:
    """Return the finding about weights that are equal for all valid keys of each query."""
    low, high = weights.sum(-1)[valid.any(-1)].aminmax()
    text = "all valid keys of a query get the same weight" if is_masked else "every key of a query gets the same weight"
    if bool(high - low <= TIE * high):
        text = f"{text}, so the weights only copy the mask" if is_masked else "every key gets the same weight"
    return Finding(f"{label}: {text if bool(high != 0) else 'all weights are 0'}.", label)


def _by_position(label: str, position: int, keys: Tensor, logits: Tensor) -> Finding:
    """Return the finding about equal keys with other weights: scores of the last query's nearest and furthest key."""
    distances, scores = (keys - position).abs(), logits[(0,) * (logits.ndim - 2)][-1, keys]
    near, far = (scores[at].item() for at in (distances.argmin(), distances.argmax()))
    apart = int(distances.max() - distances.min())
    text = f"{label}: all keys are equal but for their positions: the last query's score goes from {number(near, 3)} "
    text += f"(nearest key) to {number(far, 3)} ({several(apart, 'position')} further away)."
    return Finding(text, label, {"near": near, "far": far, "apart": apart})


def _proportional_scores(label: str, other: str, valid: Tensor, *pair: tuple[Tensor, Tensor]) -> Finding | None:
    """Return the finding about logits that are a multiple of another label's, None if they are equal.

    `pair` has the logits and the weights of both. Order and sharpness are stated if the weights of both follow their
    logits, which masks of one label, such as a window, prevent.
    """
    (logits, weights), (others, before) = pair
    factor, order = _factor(logits, others, valid), ""
    if number(factor) == number(1.0):
        return None
    if all(_holds(_follow, valid, *tensors) for tensors in pair):
        order = f"; the keys keep their order{_sharper(weights, before)}"
        order = order if factor > 0 else "; the order of the keys is reversed"
    text = f"{label}: {number(factor)} times the scores of {other}{order}."
    return Finding(text, label, {"of": other, "factor": factor})


def _sharper(weights: Tensor, others: Tensor) -> str:
    """Return words if `weights` (..., n, m) have a larger maximum than `others` in some rows, and a smaller in none."""
    largest, before = (rows.amax(-1) / rows.sum(-1) for rows in (weights, others))
    if not torch.equal(largest.isnan(), before.isnan()):  # all weights of one row are 0
        return ""
    rises, falls = (bool((a > b * (1 + TIE)).any()) for a, b in ((largest, before), (before, largest)))
    return "" if rises == falls else f" and the weights are {'sharper' if rises else 'flatter'}"


def _holds(rule: Callable[..., bool], valid: Tensor, *tensors: Tensor) -> bool:
    """Whether a rule holds for matrices (..., n, m) and their mask: for the first few queries, then for all."""
    excerpts = [tensor[(0,) * (tensor.ndim - 2)][:EXCERPT] for tensor in (valid, *tensors)]
    return rule(*excerpts) and rule(valid, *tensors)


def _is_even(valid: Tensor, weights: Tensor) -> bool:
    """Whether the weights of each query are equal for all of its valid keys."""
    largest = weights.masked_fill(~valid, -torch.inf).amax(-1)
    least = weights.masked_fill(~valid, torch.inf).amin(-1)
    return bool(((largest - least <= TIE * largest.abs()) | ~valid.any(-1)).all())


def _has_equal_rows(valid: Tensor, weights: Tensor) -> bool:
    """Whether all queries of a matrix have the same weights, for more than one key."""
    first = weights[..., :1, :]
    is_close = (weights - first).abs() <= TIE * first.abs().amax(-1, keepdim=True)
    return bool(is_close.all()) and bool((weights.amax(-1) < (1 - TIE) * weights.sum(-1)).any())


def _follow(valid: Tensor, logits: Tensor, weights: Tensor) -> bool:
    """Whether a key of a query with a larger logit has no smaller weight."""
    sorted_ = weights.gather(-1, logits.masked_fill(~valid, -torch.inf).argsort(-1))
    rounding = TIE * weights.abs().amax(-1, keepdim=True)
    return bool(((sorted_.diff() >= -rounding) | ~valid.any(-1, keepdim=True)).all())


def _is_multiple(valid: Tensor, scores: Tensor, others: Tensor) -> bool:
    """Whether scores of valid pairs are a constant times others, up to rounding in each row, and neither are all 0."""
    factor, largest = _factor(scores, others, valid), scores.where(valid, 0).abs().amax(-1, keepdim=True)  # ... n 1
    if not factor or not 0 < largest.amax().item() < torch.inf:
        return False
    return bool(((scores - factor * others).where(valid, 0).abs() <= TIE * largest).all())


def _factor(scores: Tensor, others: Tensor, valid: Tensor) -> float:
    """Return the factor of `others` nearest to `scores` over valid pairs by least squares; 0 if all `others` are 0."""
    scores, others = (tensor.where(valid, 0).double() for tensor in (scores, others))
    squares = (others * others).sum().item()
    return (scores * others).sum().item() / squares if squares else 0.0
