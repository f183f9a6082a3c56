"""Sentences about a run that its tensors prove, such as weights that do not depend on the query."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from attncli.numbers import number
from attncli.results import TIE, Finding

EXCERPT = 8  # queries of the first matrix that are looked at first: most rules fail there already


def lessons_of(
    queries: Tensor, keys: Tensor, valid: Tensor, scores: Mapping[str, Tensor], weights: Mapping[str, Tensor]
) -> list[Finding]:
    """Return what holds for all queries, up to rounding: one finding for all labels, or one at most for each.

    Args:
        queries: (..., n, q).
        keys: (..., m, k), with the leading axes of the queries.
        valid: boolean, broadcastable to (..., n, m), True = may attend.
        scores: the raw scores (..., n, m) by label, before softcap and bias.
        weights: the weights (..., n, m) by label, before dropout.
    """
    valid = valid.expand(next(iter(scores.values())).shape)
    if not bool((valid.sum(-1) > 1).any()):
        return []
    even = [label for label, tensor in weights.items() if _holds(_is_even, valid, tensor)]
    if len(even) == len(weights) and _are_equal(keys, valid):
        who = f"{even[0]} gives" if len(even) == 1 else "every scorer gives"
        return [Finding(f"All keys are equal, so {who} each of them the same weight.")]
    copies = "all valid keys of a query get the same weight, so the weights only copy the mask."
    lessons: dict[str, Finding | None] = {label: Finding(f"{label}: {copies}", label) for label in even}
    has_one_mask = bool((valid == valid[..., :1, :]).all())
    queries_differ = bool((queries != queries[..., :1, :]).any())
    for label, tensor in scores.items():
        if label in lessons:
            continue
        if has_one_mask and queries_differ and _holds(_has_equal_rows, valid, weights[label]):
            text = f"{label}: every query gets the same weights; they do not depend on which query asks."
            lessons[label] = Finding(text, label)
            continue
        for other in list(scores)[: list(scores).index(label)]:
            if other not in even and _holds(_is_multiple, valid, tensor, scores[other]):
                factor, sharper = _factor(tensor, scores[other], valid), _sharper(weights[label], weights[other])
                lessons[label] = _of_multiple(label, other, factor, sharper)
                break
    return [lesson for lesson in lessons.values() if lesson is not None]


def _of_multiple(label: str, other: str, factor: float, sharper: str) -> Finding | None:
    """Return the finding about scores that are a multiple of another label's, None if they are equal."""
    if abs(factor - 1) <= TIE:
        return None
    order = "the keys keep their order" if factor > 0 else "the order of the keys is reversed"
    text = f"{label}: the scores of {other} times {number(factor)}; {order}{sharper}."
    return Finding(text, label, {"of": other, "factor": factor})


def _sharper(weights: Tensor, others: Tensor) -> str:
    """Return words for weights (..., n, m) with a larger or smaller maximum than other weights in every row."""
    largest, before = (each.amax(-1) / each.sum(-1) for each in (weights, others))
    if bool((largest >= before * (1 - TIE)).all()):
        return " and the weights are sharper"
    return " and the weights are flatter" if bool((largest <= before * (1 + TIE)).all()) else ""


def _holds(rule: Callable[..., bool], valid: Tensor, *tensors: Tensor) -> bool:
    """Whether a rule holds for matrices (..., n, m) and their mask: for the first few queries, then for all."""
    parts = [tensor[(0,) * (tensor.ndim - 2)][:EXCERPT] for tensor in (valid, *tensors)]
    return rule(*parts) and rule(valid, *tensors)


def _is_even(valid: Tensor, weights: Tensor) -> bool:
    """Whether the weights of each query are equal for all of its valid keys."""
    largest = weights.masked_fill(~valid, -torch.inf).amax(-1)
    least = weights.masked_fill(~valid, torch.inf).amin(-1)
    return bool(((largest - least <= TIE * largest.abs()) | ~valid.any(-1)).all())


def _has_equal_rows(valid: Tensor, weights: Tensor) -> bool:
    """Whether all queries of a matrix have the same weights."""
    first = weights[..., :1, :]
    return bool(((weights - first).abs() <= TIE * first.abs().amax(-1, keepdim=True)).all())


def _are_equal(keys: Tensor, valid: Tensor) -> bool:
    """Whether all keys of a matrix that some query may attend to are equal."""
    seen = valid.any(-2)  # ... m
    first = seen.to(torch.uint8).argmax(-1)[..., None, None].expand(*keys.shape[:-2], 1, keys.shape[-1])
    return bool(((keys == keys.gather(-2, first)) | ~seen[..., None]).all())


def _is_multiple(valid: Tensor, scores: Tensor, others: Tensor) -> bool:
    """Whether the scores of all valid pairs are a constant times other scores, and neither are all 0."""
    factor, largest = _factor(scores, others, valid), scores.where(valid, 0).abs().amax().item()
    if not factor or not 0 < largest < torch.inf:
        return False
    return bool(((scores - factor * others).where(valid, 0).abs() <= TIE * largest).all())


def _factor(scores: Tensor, others: Tensor, valid: Tensor) -> float:
    """Return the factor of `others` nearest to `scores` over valid pairs by least squares; 0 if all `others` are 0."""
    scores, others = (each.where(valid, 0).double() for each in (scores, others))
    squares = (others * others).sum().item()
    return (scores * others).sum().item() / squares if squares else 0.0
