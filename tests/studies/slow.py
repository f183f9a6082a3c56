"""The definitions of records and comparisons in Python floats, and the experiment for their tests."""

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attncli.results import Result, Row
from tests import reference

DATA: dict[str, Any] = {
    "queries": {"shape": [2, 3, 4]},
    "keys": {"shape": [2, 5, 4]},
    "values": {"shape": [2, 5, 6]},
    "valid_lens": [[1, 2, 0], [5, 4, 3]],
}
TINY: dict[str, Any] = {"queries": [[1000.0]], "keys": [[3000.0], [1000.0]], "values": [[1.0], [5.0]]}
Rows = Sequence[Sequence[float]]


def slow_record(scores: Tensor, weights: Tensor, valid: Tensor) -> Row:
    """Return a record, computed by the definitions in Python floats."""
    cells = zip(scores.flatten().tolist(), valid.flatten().tolist(), strict=True)
    seen = [score for score, allowed in cells if allowed]
    rows = [row for row, empty in zip(weights.flatten(0, -2).tolist(), empties(valid), strict=True) if not empty]
    entropies = [reference.entropy(reference.shares(row)) for row in rows if sum(row)]
    plain = reference.for_each_matrix(reference.masked_softmax, scores.double(), valid.expand(scores.shape))
    is_plain = torch.allclose(weights.double(), plain, atol=1e-5)
    own = zip(scores.flatten(0, -2).tolist(), valid.expand(scores.shape).flatten(0, -2).tolist(), strict=True)
    bounds = [least_entropy([score for score, may in zip(*row, strict=True) if may]) for row in own if any(row[1])]
    return {
        "score_mean": _mean(seen),
        "score_std": statistics.pstdev(seen) if seen else None,
        "entropy": _mean(entropies),
        "effective_keys": _mean([math.exp(nats) for nats in entropies]),
        "max_weight": _mean([max(row) for row in rows]),
        "weight_sum": _mean([math.fsum(row) for row in rows]),
        "empty_rows": sum(empties(valid)),
        "entropy_bound": _mean(bounds) if is_plain else None,
    }


def least_entropy(scores: Sequence[float]) -> float:
    """Return the entropy of a softmax with one high and equal low scores, as far from their mean as these scores."""
    size, radius = len(scores), math.dist(scores, [statistics.fmean(scores)] * len(scores))
    if size == 1:
        return 0.0
    high, low = radius * math.sqrt((size - 1) / size), -radius / math.sqrt(size * (size - 1))
    return reference.entropy(reference.softmax([high, *[low] * (size - 1)]))


def _mean(numbers: Sequence[float]) -> float | None:
    return statistics.fmean(numbers) if numbers else None


def empties(valid: Tensor) -> list[bool]:
    return [not any(row) for row in valid.flatten(0, -2).tolist()]


def slow_comparison(
    a: Rows, b: Rows, output_a: Rows, output_b: Rows, *, seen: Sequence[Sequence[Sequence[bool]]] | None = None
) -> Row:
    """Return a comparison of nonempty rows; Jensen-Shannon is the mean of two Kullback-Leibler divergences.

    `seen` has the keys that each row of both sees, by default all.
    """

    def divergence(p: Sequence[float], q: Sequence[float]) -> float:
        middle = [(x + y) / 2 for x, y in zip(p, q, strict=True)]
        return sum(x * math.log2(x / m) / 2 for row in (p, q) for x, m in zip(row, middle, strict=True) if x > 0)

    def first(row: Sequence[float], seen: Sequence[bool]) -> set[int]:
        most = max((x for x, is_seen in zip(row, seen, strict=True) if is_seen), default=0.0)
        top = {j for j, x in enumerate(row) if seen[j] and math.isclose(x, most, rel_tol=1e-5)}
        return set() if len(top) >= 2 and len(top) > sum(seen) / 2 else top

    pairs = list(zip(a, b, strict=True))
    masks = seen or [[[True] * len(row) for row in rows] for rows in (a, b)]
    tops = [
        (first(p, seen_a), first(q, seen_b))
        for (p, q), seen_a, seen_b in zip(pairs, *masks, strict=True)
        if sum(p) and sum(q)
    ]
    spread = [(reference.shares(p), reference.shares(q)) for p, q in pairs if sum(p) and sum(q)]
    distance = math.dist([x for row in output_a for x in row], [x for row in output_b for x in row])
    length = math.hypot(*(x for row in output_a for x in row))
    return {
        "js_divergence": _mean([divergence(p, q) for p, q in spread]),
        "top1_agreement": _mean([bool(top_a & top_b) for top_a, top_b in tops if top_a and top_b]),
        "max_abs_difference": max((abs(x - y) for p, q in pairs for x, y in zip(p, q, strict=True)), default=None),
        "output_difference": distance / length if length else None if distance or not pairs else 0.0,
        "output_change": distance if pairs else None,
    }


def slow_rows(result: Result) -> tuple[list[Row], list[Row]]:
    """Return the rows by batch element and head of every scorer and of every pair, computed in Python floats."""
    valid = result.inputs["valid"]
    places = list(itertools.product(*map(range, valid.shape[:-2])))
    named = [{"batch": place[0], "head": _head(place, valid.shape)} for place in places]

    def stage(label: str, name: str, place: tuple[int, ...]) -> Tensor:
        return result.tensors[f"{label}/{name}"][place].double()

    def kept(label: str, name: str, place: tuple[int, ...]) -> list[list[float]]:
        rows = zip(stage(label, name, place).tolist(), empties(valid[place]), strict=True)
        return [row for row, empty in rows if not empty]

    heads = [
        {"label": label}
        | names
        | slow_record(stage(label, "scores", place), stage(label, "weights", place), valid[place])
        for label in result.labels
        for names, place in zip(named, places, strict=True)
    ]
    seen = {place: [[row for row in valid[place].tolist() if any(row)]] * 2 for place in places}
    comparisons = [
        {"a": a, "b": b}
        | names
        | slow_comparison(
            *(kept(label, name, place) for name in ("weights", "output") for label in (a, b)), seen=seen[place]
        )
        for a, b in itertools.combinations(result.labels, 2)
        for names, place in zip(named, places, strict=True)
    ]
    return heads, comparisons


def _head(place: Sequence[int], shape: Sequence[int]) -> int | None:
    number = None
    for index, size in zip(place[1:], shape[1:-2], strict=True):
        number = (number or 0) * size + index
    return number
