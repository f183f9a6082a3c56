"""The findings of a sweep: for each scorer how the metric changes with the swept keys; and the points that failed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from attncli.core.intervals import student_t
from attncli.core.numbers import finite, number
from attncli.engine.runs.run_folder import JOURNAL
from attncli.engine.sweeps.columns import (
    REPLICATES,
    companions,
    in_words,
    is_number,
    picture_axes,
)
from attncli.results import Finding, Row, SweepResult, by_label, group, in_sentence
from attncli.studies.trends import trend

MOST_FAILURES = 3  # kinds of failures that are listed
ERRORS = 3.0  # standard errors


@dataclass(frozen=True)
class CurvePoint:
    """One value of a swept key: the row of one of the seeds, and the metric by seed."""

    row: Row
    by_seed: Mapping[Any, float]

    @classmethod
    def of(cls, rows: Sequence[Row], metric: str) -> "CurvePoint":
        """Return the point of these rows, one for each seed."""
        return cls(rows[0], {tuple(map(row.get, REPLICATES)): row[metric] for row in rows})

    @property
    def mean(self) -> float:
        """Return the mean over the seeds."""
        return fmean(self.by_seed.values())

    def differs(self, other: "CurvePoint") -> bool:
        """Whether the metric differs by more than chance explains, by the differences between equal seeds.

        Of a single seed every difference counts, since chance is unknown.
        """
        pairs = [value - other.by_seed[seed] for seed, value in self.by_seed.items() if seed in other.by_seed]
        if len(pairs) < 2:
            return len(self.by_seed) == len(other.by_seed) == 1
        least = max(student_t(len(pairs) - 1), ERRORS)  # the extremes of many points are compared
        return abs(fmean(pairs)) > least * stdev(pairs) / math.sqrt(len(pairs))


def sweep_findings(result: SweepResult) -> list[Finding]:
    """Return a sentence for each label, such as `dot: entropy falls from 2.30 (scale = 0.01) to 0.11 (scale = 10).`

    Each swept key has a clause, for the values on the other axes where the metric changes most along the key. A sweep
    over seeds alone is described along an axis of the study, such as d, and has no findings without such an axis.
    """
    metric, axes, findings = result.metric, picture_axes(result), list[Finding]()
    if not metric or not axes:
        return []
    swept = [name for name in axes if name in result.swept] or [*axes]
    for label, rows in by_label(result.records).items():
        finite_rows = [row for row in rows if finite([row.get(metric)])]
        clauses = [clause for name in swept if (clause := _clause(result, name, finite_rows))]
        if clauses:
            means = [point.mean for line in _lines(finite_rows, metric, axes, swept[0]).values() for point in line]
            numbers = {"lowest": min(means), "highest": max(means)}
            name = in_sentence(label, result.random)
            findings.append(Finding(f"{name}: {metric} {'; it '.join(clauses)}.", label, numbers))
    return findings


def _lines(
    rows: Sequence[Row], metric: str, axes: Mapping[str, Sequence[Any]], name: str
) -> dict[tuple[Any, ...], list[CurvePoint]]:
    """Return the curves along the axis `name` by the values on the other axes; numbers on the axis are sorted."""
    lines = dict[tuple[Any, ...], list[CurvePoint]]()
    for others, of_line in group(rows, [other for other in axes if other != name]).items():
        by_value = {value: runs for (value,), runs in group(of_line, [name]).items()}
        values = sorted(by_value) if all(map(is_number, by_value)) else [*by_value]
        lines[others] = [CurvePoint.of(by_value[value], metric) for value in values]
    return lines


def _clause(result: SweepResult, name: str, rows: Sequence[Row]) -> str | None:
    """Return how the metric changes along an axis where it changes most; None if there is nothing to compare."""
    axes = picture_axes(result)
    lines = {values: line for values, line in _lines(rows, result.metric, axes, name).items() if len(line) > 1}
    if not lines:
        return None
    means = {values: [point.mean for point in line] for values, line in lines.items()}
    values = max(lines, key=lambda values: max(means[values]) - min(means[values]))
    line, where = lines[values], dict(zip([other for other in axes if other != name], values, strict=True))
    if "layer" in where:
        where["layer"] = result.layers.get(where["layer"], where["layer"])
    if where and len({number(mean, 3) for mean in means[values]}) == 1:
        return f"does not change with {name}"
    names = [in_words({key: point.row[key] for key in (name, *companions(result, name))}) for point in line]
    is_ordered = all(is_number(point.row[name]) for point in line)
    text, _ = trend(means[values], names, lambda a, b: line[a].differs(line[b]), ordered=is_ordered)
    return text + (f" where {in_words(where)}" if where else "")


def failure_lines(points: Sequence[Row]) -> list[str]:
    """Return a line for each kind of failure, with its first point and the number of further points."""
    kinds = group([point for point in points if point["error"]], ["status", "error"])
    lines = []
    for (status, error), failed in list(kinds.items())[:MOST_FAILURES]:
        rest = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        lines.append(f"{status}: {in_words(failed[0]['sweep'])}{rest}: {error}")
    if len(kinds) > MOST_FAILURES:
        lines.append(f"and {len(kinds) - MOST_FAILURES} other errors; {JOURNAL} has them all")
    return lines
