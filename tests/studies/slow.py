"""The definitions of records and comparisons, over Python floats; and the experiment they are tried on."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from attncli.studies.study import Record
from tests import reference

ENTRIES: list[dict[str, Any]] = [
    {"scorer": "additive", "num_hiddens": 5},
    {"scorer": "scaled_dot", "scale": "1/d"},
    {"scorer": "dot"},
    {"scorer": "general"},
    {"scorer": "cosine", "scale": 4.0},
    {"scorer": "gaussian", "sigma": 0.5},
    {"scorer": "vector_sum"},
]
LENGTHS = [[1, 2, 0], [5, 4, 3]]
DATA: dict[str, Any] = {
    "queries": {"shape": [2, 3, 4]},
    "keys": {"shape": [2, 5, 4]},
    "values": {"shape": [2, 5, 6]},
    "valid_lens": LENGTHS,
}
TINY: dict[str, Any] = {"queries": [[1000.0]], "keys": [[3000.0], [1000.0]], "values": [[1.0], [5.0]]}
Rows = Sequence[Sequence[float]]


def without_time(records: Sequence[Record]) -> dict[str, Record]:
    return {record["label"]: {**record, "seconds": None} for record in records}


def pooled(weights: Tensor, values: Tensor) -> Tensor:
    return reference.for_each_matrix(reference.weighted_sum, weights.double(), values.double())


def slow_record(scores: Tensor, weights: Tensor, valid: Tensor) -> Record:
    """The definitions, over Python floats."""
    cells = zip(scores.flatten().tolist(), valid.flatten().tolist(), strict=True)
    seen = [score for score, allowed in cells if allowed]
    rows = [row for row, empty in zip(weights.flatten(0, -2).tolist(), empties(valid), strict=True) if not empty]
    entropies = [reference.entropy(row) for row in rows]
    return {
        "score_mean": statistics.fmean(seen),
        "score_std": statistics.pstdev(seen),
        "entropy": statistics.fmean(entropies),
        "effective_keys": statistics.fmean(math.exp(nats) for nats in entropies),
        "max_weight": statistics.fmean(max(row) for row in rows),
        "weight_sum": statistics.fmean(math.fsum(row) for row in rows),
        "empty_rows": sum(empties(valid)),
    }


def empties(valid: Tensor) -> list[bool]:
    return [not any(row) for row in valid.flatten(0, -2).tolist()]


def slow_comparison(a: Rows, b: Rows, output_a: Rows, output_b: Rows) -> Record:
    """The definitions for rows that are not empty: Jensen-Shannon as the mean of two Kullback-Leibler divergences."""

    def divergence(p: Sequence[float], q: Sequence[float]) -> float:
        middle = [(x + y) / 2 for x, y in zip(p, q, strict=True)]
        return sum(x * math.log2(x / m) / 2 for row in (p, q) for x, m in zip(row, middle, strict=True) if x > 0)

    def first(row: Sequence[float]) -> set[int]:
        return {j for j, x in enumerate(row) if math.isclose(x, max(row), rel_tol=1e-5)}

    distance = math.dist([x for row in output_a for x in row], [x for row in output_b for x in row])
    return {
        "js_divergence": statistics.fmean(divergence(p, q) for p, q in zip(a, b, strict=True)),
        "top1_agreement": statistics.fmean(bool(first(p) & first(q)) for p, q in zip(a, b, strict=True)),
        "max_abs_difference": max(abs(x - y) for p, q in zip(a, b, strict=True) for x, y in zip(p, q, strict=True)),
        "output_difference": distance / math.hypot(*(x for row in output_a for x in row)),
    }
