"""The findings of a sweep: for each scorer how the metric changes with the swept keys; and the points that failed."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from attncli.common.intervals import student_t
from attncli.common.trends import trend
from attncli.config.short_forms import option_paths
from attncli.engine.runs.run_folder import JOURNAL
from attncli.engine.sweeps.columns import (
    REPLICATES,
    axes_of,
    companions,
    figures_of,
    in_words,
    is_number,
    names_of,
)
from attncli.numbers import finite, number
from attncli.results import Finding, Row, SweepResult, by_label, in_sentence

MOST_FAILURES = 3  # kinds of failures that are listed
OF_ONE = re.compile(r"scorers\[(\d+)\]")  # the beginning of an option of one scorer
ONE_NUMBER = "seed changes nothing: no number of these runs is random, and every seed has the same results."
ERRORS = 3.0  # standard errors


@dataclass(frozen=True)
class CurvePoint:
    """One value of a swept key: the row of one of the seeds, and the metric by seed."""

    row: Row
    by_seed: Mapping[Any, float]

    @property
    def mean(self) -> float:
        """Return the mean over the seeds."""
        return fmean(self.by_seed.values())

    def differs(self, other: "CurvePoint") -> bool:
        """Whether the means differ by more than chance over the seeds explains.

        The difference is compared with its standard error for independent seeds, and for pairs of equal seeds.
        """
        one, two = [*self.by_seed.values()], [*other.by_seed.values()]
        pairs = [value - other.by_seed[seed] for seed, value in self.by_seed.items() if seed in other.by_seed]
        margins = [0.0] if len(one) == len(two) == 1 else []  # chance is unknown
        if len(pairs) > 1:
            margins.append(_sure(len(pairs) - 1) * _error(pairs))
        if len(one) > 1 < len(two):
            margins.append(_sure(len(one) + len(two) - 2) * math.hypot(_error(one), _error(two)))
        return abs(self.mean - other.mean) > min(margins, default=math.inf)


def _sure(freedom: int) -> float:
    """Return how many standard errors a difference must have, since the extremes of many points are compared."""
    return max(student_t(freedom), ERRORS)


def _error(numbers: Sequence[float]) -> float:
    """Return the standard error of the mean."""
    return stdev(numbers) / math.sqrt(len(numbers))


Line = Sequence[CurvePoint]  # points that differ in one key alone


def findings_of(result: SweepResult) -> list[Finding]:
    """Return a sentence for each label, such as `dot: entropy falls from 2.30 (scale = 0.01) to 0.11 (scale = 10).`

    Each swept key has a clause, for the values on the other axes where the metric changes most along the key. A sweep
    over seeds alone is described along an axis of the study, such as d, and has no findings without such an axis. A
    last sentence for each swept option names the labels that do not have it.
    """
    metric, axes = result.metric, axes_of(result)
    unchanged = [Finding(ONE_NUMBER)] if _is_the_same_for_every_seed(result) else []
    if not metric or not axes:
        return unchanged
    swept = [name for name in axes if name in result.swept] or [*axes]
    findings, missing = list[Finding](), {name: _labels_without(result, name) for name in swept}
    for label, rows in by_label(result.records).items():
        known = [row for row in rows if finite([row.get(metric)])]
        names = [name for name in swept if label not in missing[name]]
        clauses = [clause for name in names if (clause := _clause(result, name, known))]
        if clauses:
            means = [point.mean for line in _lines(known, metric, axes, swept[0]).values() for point in line]
            numbers = {"lowest": min(means), "highest": max(means)}
            name = in_sentence(label, result.random)
            findings.append(Finding(f"{name}: {metric} {'; it '.join(clauses)}.", label, numbers))
    for name, labels in missing.items():
        if labels:
            findings.append(Finding(f"{', '.join(labels)} {'have' if len(labels) > 1 else 'has'} no `{name}`."))
    return findings + unchanged


def _is_the_same_for_every_seed(result: SweepResult) -> bool:
    """Whether the sweep is over seeds, and every seed has the same rows with the same numbers."""
    identity, runs = names_of(result), dict[tuple[Any, ...], list[list[Any]]]()
    for row in result.records if any(len(axis.get(REPLICATES[0], ())) > 1 for axis in result.axes) else ():
        runs.setdefault(tuple(row.get(name) for name in identity), []).append(
            [number(row[name], 6) if is_number(row.get(name)) else None for name in figures_of(result)]
        )
    most = max(map(len, runs.values()), default=0)
    return most > 1 and all(run.count(run[0]) == len(run) == most for run in runs.values())


def _labels_without(result: SweepResult, name: str) -> list[str]:
    """Return the labels that lack the option `name`, of every scorer or of `scorers[1]`, and options that go along.

    None lacks a key that is no scorer's option, such as a shape.
    """
    options, points = (name, *companions(result, name)), dict[tuple[Any, ...], dict[str, None]]()
    for row in result.records:
        points.setdefault(tuple(row[key] for key in result.swept), {})[row["label"]] = None
    first = {label: rows[0] for label, rows in by_label(result.records).items()}
    entries = {
        label: {key: row[key] for key in ("scorer", "normalizer") if row.get(key)} for label, row in first.items()
    }

    def has(label: str, option: str) -> bool:
        if of_one := OF_ONE.match(option):
            return any(label in [*labels][int(of_one[1]) :][:1] for labels in points.values())
        return option.partition(".")[0] in option_paths([entries[label]])

    having = [{label for label in entries if has(label, option)} for option in options]
    return [label for label in entries if label not in set().union(*having)] if all(having) else []


def _lines(
    rows: Sequence[Row], metric: str, axes: Mapping[str, Sequence[Any]], name: str
) -> dict[tuple[Any, ...], Line]:
    """Return the lines along the axis `name` by the values on the other axes; numbers on the axis are sorted."""
    groups = dict[tuple[Any, ...], dict[Any, list[Row]]]()
    for row in rows:
        others = tuple(row[other] for other in axes if other != name)
        groups.setdefault(others, {}).setdefault(row[name], []).append(row)
    lines = dict[tuple[Any, ...], Line]()
    for others, group in groups.items():
        keys = sorted(group) if all(map(is_number, group)) else [*group]
        seeds = [{tuple(row.get(seed) for seed in REPLICATES): row[metric] for row in group[key]} for key in keys]
        lines[others] = [CurvePoint(group[key][0], by_seed) for key, by_seed in zip(keys, seeds, strict=True)]
    return lines


def _clause(result: SweepResult, name: str, rows: Sequence[Row]) -> str | None:
    """Return how the metric changes along an axis where it changes most; None if there is nothing to compare."""
    axes = axes_of(result)
    lines = {values: line for values, line in _lines(rows, result.metric, axes, name).items() if len(line) > 1}
    if not lines:
        return None

    def size(values: tuple[Any, ...]) -> float:
        means = [point.mean for point in lines[values]]
        return max(means) - min(means)

    values = max(lines, key=size)
    line, where = lines[values], dict(zip([other for other in axes if other != name], values, strict=True))
    if "layer" in where:
        where["layer"] = list(axes["layer"]).index(where["layer"])
    if where and len({number(point.mean, 3) for point in line}) == 1:
        return f"does not change with {name}"
    names = [in_words({key: point.row[key] for key in (name, *companions(result, name))}) for point in line]
    text, _ = trend(
        [point.mean for point in line],
        names,
        lambda a, b: line[a].differs(line[b]),
        ordered=all(is_number(point.row[name]) for point in line),
    )
    return text + (f" where {in_words(where)}" if where else "")


def failures_of(points: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each kind of failure, with its first point and the number of further points."""
    kinds = dict[tuple[str, str], list[Mapping[str, Any]]]()
    for point in points:
        if point["error"]:
            kinds.setdefault((point["status"], point["error"]), []).append(point)
    lines = []
    for (status, error), failed in list(kinds.items())[:MOST_FAILURES]:
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        lines.append(f"{status}: {in_words(failed[0]['sweep'])}{more}: {error}")
    if len(kinds) > MOST_FAILURES:
        lines.append(f"and {len(kinds) - MOST_FAILURES} other errors; {JOURNAL} has them all")
    return lines
