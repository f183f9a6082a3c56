"""The findings of a sweep: for each scorer how the metric changes with the swept keys; and the points that failed."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev
from typing import Any

from attncli.common.intervals import student_t
from attncli.common.trends import FLAT, course
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
    shown,
)
from attncli.numbers import finite, number, several
from attncli.results import Finding, Row, SweepResult, by_label, in_sentence

MOST_FAILURES = 3  # kinds of failures that are listed
MOST_NAMED = 3  # values of an axis that are listed
OF_ONE = re.compile(r"scorers\[(\d+)\]")  # the beginning of an option of one scorer
ONE_NUMBER = "seed changes nothing: no number of these runs is random, and every seed has the same results."
ERRORS = 3.0  # standard errors
SMALL = 0.1  # a share of the range; steps back up to this do not hide the direction


@dataclass(frozen=True)
class CurvePoint:
    """One value of a swept key: the row of one of the seeds, and the metric by seed."""

    row: Row
    by_seed: Mapping[Any, float]

    @property
    def mean(self) -> float:
        """Return the mean over the seeds."""
        return fmean(self.by_seed.values())

    @property
    def text(self) -> str:
        """Return the mean over the seeds as text."""
        return number(self.mean, 3)

    def differs(self, other: "CurvePoint") -> bool:
        """Whether the means differ, as text and by more than chance over the seeds explains.

        The difference is compared with its standard error for independent seeds, and for pairs of equal seeds.
        """
        one, two = [*self.by_seed.values()], [*other.by_seed.values()]
        pairs = [value - other.by_seed[seed] for seed, value in self.by_seed.items() if seed in other.by_seed]
        margins = [0.0] if len(one) == len(two) == 1 else []  # chance is unknown
        if len(pairs) > 1:
            margins.append(_sure(len(pairs) - 1) * _error(pairs))
        if len(one) > 1 < len(two):
            margins.append(_sure(len(one) + len(two) - 2) * math.hypot(_error(one), _error(two)))
        return self.text != other.text and abs(self.mean - other.mean) > min(margins, default=math.inf)


def _sure(freedom: int) -> float:
    """Return how many standard errors a difference must have, since the extremes of many points are compared."""
    return max(student_t(freedom), ERRORS)


def _error(numbers: Sequence[float]) -> float:
    """Return the standard error of the mean."""
    return stdev(numbers) / math.sqrt(len(numbers))


Line = Sequence[CurvePoint]  # points that differ in one key alone


def findings_of(result: SweepResult) -> list[Finding]:
    """Return a sentence for each label, such as `dot: entropy falls from 2.30 to 0.11 as scale rises from 0.01 to 10.`

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
    """Return the labels that lack the option `name`, of every scorer or of `scorers[1]`; none if no label has it."""
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
        return bool(option_paths(entries[label], tuple(option.split("."))))

    without = [label for label in entries if not any(has(label, option) for option in options)]
    return without if len(without) < len(entries) else []


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
    axes, together = axes_of(result), companions(result, name)
    lines = {values: line for values, line in _lines(rows, result.metric, axes, name).items() if len(line) > 1}
    if not lines:
        return None
    others = [other for other in axes if other != name]
    values, line = max(lines.items(), key=lambda item: (not _is_constant(item[1]), _size(item[1])))
    if others and _is_constant(line):
        return f"does not change with {name}"
    if not all(is_number(point.row[name]) for point in line):
        return _by_name(name, together, line) + _where(others, values, axes)
    text = _by_number(name, line) + _as_it_rises(name, together, line) + _where(others, values, axes)
    opposite = {there: other for there, other in lines.items() if _direction(other) * _direction(line) < 0}
    if opposite:
        there, other = max(opposite.items(), key=lambda item: _size(item[1]))
        text += f", but {_by_number(name, other)}{_where(others, there, axes)}"
    return text


def _is_constant(line: Line) -> bool:
    return len({point.text for point in line}) == 1


def _size(line: Line) -> float:
    low, high = _ends(line)
    return high.mean - low.mean


def _course(line: Line) -> list[int]:
    return course([point.mean for point in line], lambda a, b: line[a].differs(line[b]))


def _direction(line: Line) -> int:
    """Return 1 for a line that rises throughout, -1 for a line that falls throughout, else 0."""
    is_steady = len(_course(line)) == 2 and line[0].differs(line[-1])
    return int(math.copysign(is_steady, line[-1].mean - line[0].mean))


def _where(names: Sequence[str], coordinates: Sequence[Any], axes: Mapping[str, Sequence[Any]]) -> str:
    """Return the values on the other axes in brackets; layers have their numbers."""
    values = dict(zip(names, coordinates, strict=True))
    if "layer" in values:
        values["layer"] = list(axes["layer"]).index(values["layer"])
    return f" ({in_words(values)})" if values else ""


def _by_number(name: str, line: Line) -> str:
    """Return the change along an axis of numbers: `rises from 1.00 to 3.00 at d = 64, then falls to 2.00`."""
    path, first, last = _course(line), line[0], line[-1]
    low, high = _ends(line)
    is_flat = 0 < high.mean <= FLAT * low.mean
    if _is_constant(line):
        return f"stays at {low.text}"
    if is_flat if len(path) > 2 else not first.differs(last):
        return f"stays between {low.text} and {high.text}" if is_flat else _within_noise(low, high)
    if len(path) > 3:
        steps = [line[b].mean - line[a].mean for a, b in pairwise(path)]
        sign = math.copysign(1.0, last.mean - first.mean)
        if first.differs(last) and min(sign * step for step in steps) >= -SMALL * _size(line):
            return f"on the whole {_verb(first, last)} from {first.text} to {last.text}"
        return f"goes up and down between {low.text} and {high.text}"
    turn = line[path[1]]
    text = f"{_verb(first, turn)} from {first.text} to {turn.text}"
    if turn is last:
        return text
    same = [shown(point.row[name]) for point in line if point.text == turn.text]
    return (
        f"{text} at {name} = {' to '.join(dict.fromkeys((same[0], same[-1])))}, then {_verb(turn, last)} to {last.text}"
    )


def _ends(line: Line) -> tuple[CurvePoint, CurvePoint]:
    return min(line, key=lambda point: point.mean), max(line, key=lambda point: point.mean)


def _verb(start: CurvePoint, end: CurvePoint) -> str:
    return "rises" if end.mean > start.mean else "falls"


def _by_name(name: str, together: Sequence[str], line: Line) -> str:
    """Return the lowest and the highest values along an axis of names, with all names that have them."""
    low, high = _ends(line)
    if _is_constant(line):
        return f"stays at {low.text} at every {name}"
    if not high.differs(low):
        return f"{_within_noise(low, high)} at every {name}"

    def at(end: CurvePoint) -> str:
        rows = [point.row for point in line if not point.differs(end)]
        names = [in_words({key: row[key] for key in (name, *together)}) for row in rows]
        named = " and ".join([names[0], *(text if together else text.removeprefix(f"{name} = ") for text in names[1:])])
        return f"{end.text} at {named if len(names) <= MOST_NAMED else f'{len(names)} values of {name}'}"

    return f"is lowest, {at(low)}, and highest, {at(high)}"


def _within_noise(low: CurvePoint, high: CurvePoint) -> str:
    seeds = max(len(point.by_seed) for point in (low, high))
    return f"lies between {low.text} and {high.text}, within the noise of {several(seeds, 'seed')},"


def _as_it_rises(name: str, together: Sequence[str], line: Line) -> str:
    """Return the range of an axis of numbers, and of the keys that change with it."""
    first, last = line[0].row, line[-1].row
    more = "".join(f" with {key} from {shown(first[key])} to {shown(last[key])}" for key in together)
    return f" as {name} rises from {shown(first[name])} to {shown(last[name])}{more}"


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
