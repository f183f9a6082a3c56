"""What the variance of each scorer does as d grows, as sentences."""

import math
from collections.abc import Iterator, Sequence

from attncli.show.numbers import finite, printable, significant, span
from attncli.studies.study import Record
from attncli.views.sweep_tables import by_label
from attncli.views.sweep_trend import Trend
from attncli.views.variance_intervals import Intervals, holds

SAME = 1e-6  # relative: theories that differ by less are the same
REFUTED = 6.0  # the |z| from which a measurement is not told by its theory


def trends(records: Sequence[Record]) -> list[str]:
    """One sentence a label."""
    return [
        f"{printable(label)}: {sentence}." for label, rows in by_label(records).items() for sentence in _sentences(rows)
    ]


def _sentences(records: Sequence[Record]) -> Iterator[str]:
    """Theory decides what holds where it is exact; elsewhere only what the intervals allow is said."""
    known = sorted((record for record in records if finite([record["variance"]])), key=lambda record: record["d"])
    lost = len(records) - len(known)
    beside = f"; at {lost} of {len(records)} sizes it is not a finite number" if lost else ""
    if not known:
        yield "the variance is not a finite number"
        return
    exact = all(map(_exact, known))
    over_sizes = _by_theory if exact else _by_intervals
    found = over_sizes(known) if Trend.of(known, "variance").several else _at_one_size(known[0], exact)
    yield f"the variance {found}{beside}"


def _exact(record: Record) -> bool:
    """Whether theory can speak for the measurement: it is exact, and not refuted."""
    if record["theory"] != "exact" or not finite([record["theory_variance"]]):
        return False
    return record["z"] is not None and abs(record["z"]) < REFUTED


def _is_one(variance: float) -> bool:
    return math.isclose(variance, 1.0, rel_tol=SAME)


def _by_theory(records: Sequence[Record]) -> str:
    measured, theory = Trend.of(records, "variance"), Trend.of(records, "theory_variance")
    if all(map(_is_one, theory.values)):
        return f"stays at 1 at every d from {theory.sizes[0]} to {theory.sizes[-1]} (measured {span(measured.values)})"
    if theory.level:
        return f"hardly depends on d, but is not 1 (measured {span(measured.values)})"
    return _course(measured, theory)


def _by_intervals(records: Sequence[Record]) -> str:
    """95 % for all sizes together, so that many of them do not make a difference likelier."""
    trend, intervals = Trend.of(records, "variance"), Intervals.of(records)
    measured = f"({span(trend.values)})"
    if intervals.all_hold(1.0):
        return f"cannot be told from 1 at any d from {trend.sizes[0]} to {trend.sizes[-1]} {measured}"
    if trend.level:
        return f"hardly depends on d, but is not 1 {measured}"
    if not intervals.ends_apart:
        return f"does not change beyond its error, but is not 1 {measured}"
    return _course(trend, trend)


def _course(measured: Trend, decisive: Trend) -> str:
    """Which way it goes and how steeply, as the decisive figures have it, with the measured ones."""
    first, last = f"d = {measured.sizes[0]}", f"d = {measured.sizes[-1]}"
    start, end = significant(measured.values[0]), significant(measured.values[-1])
    verb, power = "grows" if decisive.rises else "falls", decisive.power
    if power is not None:
        return f"{verb} like d^{power:.2f}: {end} at {last}"
    return f"{verb} from {start} at {first} to {end} at {last}"


def _at_one_size(record: Record, exact: bool) -> str:
    inside = holds(record["variance_ci"], 1.0)
    found = f"is {significant(record['variance'])}"
    place = f"at d = {record['d']}"
    if exact and _is_one(record["theory_variance"]):
        return f"{found} ({'1 within its error' if inside else '1 in theory'}) {place}"
    if not exact and inside:
        return f"{found} (it cannot be told from 1) {place}"
    theory = f" ({significant(record['theory_variance'])} in theory)" if exact and inside else ""
    if record["unit_scale"] is None:
        return f"{found}{theory} {place}"
    needed, used = significant(record["unit_scale"]), significant(record["scale"])
    return f"{found}{theory} {place}; a scale of {needed} in place of {used} would make it 1"
