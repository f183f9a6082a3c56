"""The result of a sweep from its journal: what became of every point, and the rows of all in one table."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attncli.config.sweep import as_data
from attncli.studies import part_of
from attncli.studies.study import INTERVAL, LAYER, Column, Record, Result
from attncli.sweeps.journal import STATES, rows_of
from attncli.sweeps.points import Plan, renamed, swept_column, with_sweep

MISSING = "missing"  # the status of a point that the sweep did not come to
POINT = ("key", "sweep", "status", "error", "seconds", "host")
REPLICATES = ("seed", "record.seed")  # columns of runs that differ by chance alone
NAMES = ("head", "layer", "batch")  # columns that say what a row is about, whatever the study


def result_of(plan: Plan, folder: Path, interrupted: bool = False) -> tuple[Result, list[Record]]:
    """The result of the points that are in the journal of a folder, in the order of the plan, and the state of all."""
    wanted = {point.key for point in plan.points}
    finished = {row["key"]: row for row in rows_of(folder) if row["key"] in wanted}
    records, points = list[Record](), list[Record]()
    for point in plan.points:
        row = finished.get(point.key, {"key": point.key, "status": MISSING, "records": []})
        points.append({**{key: row.get(key) for key in POINT}, "sweep": point.sweep})
        records += [with_sweep(point.sweep, record) for record in row["records"]]
    study, states = plan.options.study, Counter(point["status"] for point in points)
    settings = {
        "sweep": as_data(plan.axes, plan.metric),
        "points": {state: states[state] for state in (*STATES, MISSING)},
        "metric": plan.metric or default_metric(study, plan.keys, records),
    }
    return Result(study, plan.options.name, settings, records, interrupted=interrupted), points


def swept_keys(result: Result) -> list[str]:
    """The swept keys of the result of a sweep."""
    return [key for axis in result.settings["sweep"]["over"] for key in axis]


def default_metric(study: str, keys: Sequence[str], records: Sequence[Record]) -> str | None:
    """What the first chart of the study shows, where rows have it; else their first figure that changes."""
    charts = getattr(part_of(study, "columns"), "CHARTS", ())
    wanted = [*(renamed(chart.y, keys) for chart in charts), "entropy"]
    there = figures_of(study, keys, records)
    changing = [key for key in there if len({row.get(key) for row in records}) > 1]
    return next((key for key in (*wanted, *changing) if key in there), next(iter(there), None))


def columns_of(study: str, keys: Sequence[str], records: Sequence[Record]) -> list[Column]:
    """The columns of the rows of a sweep: the swept ones, then those of the study as `single_numbers` has them."""
    stated = {renamed(column.key, keys): column for column in (*part_of(study, "columns").COLUMNS, LAYER)}
    found = dict.fromkeys(key for row in records for key in row if key not in keys)
    unknown = Column("", "", "", format=str, signed=True)
    own = (replace(stated[key] if key in stated else replace(unknown, heading=key), key=key) for key in found)
    return [*map(swept_column, keys), *own]


def names_of(study: str, keys: Sequence[str], records: Sequence[Record]) -> list[str]:
    """The columns that say what a row is about: the swept keys but for the seed, label, head, size and so on."""
    charts = getattr(part_of(study, "columns"), "CHARTS", ())
    own = {renamed(key, keys) for chart in charts for key in (*chart.x, *chart.series, *chart.facets)}
    own |= {renamed(key, keys) for key in NAMES}
    columns = columns_of(study, keys, records)
    names = [column.key for column in columns if column.key in (*keys, *own) or column.text]
    return [name for name in names if name not in REPLICATES]


def figures_of(study: str, keys: Sequence[str], records: Sequence[Record]) -> list[str]:
    """The columns that are numbers, and no names: what a metric may be."""
    names = {*names_of(study, keys, records), *keys, *REPLICATES}
    columns = (column.key for column in columns_of(study, keys, records) if column.key not in names)
    return [key for key in columns if not key.endswith(INTERVAL) and any(is_number(row.get(key)) for row in records)]


def is_number(value: Any) -> bool:
    """Whether a value can stand on an axis."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def axes_of(result: Result) -> dict[str, list[Any]]:
    """The columns that rows of one label differ in, with their values in order; none that another one decides."""
    keys, records = swept_keys(result), result.records
    axes = dict[str, list[Any]]()
    for name in names_of(result.study, keys, records):
        values = list(dict.fromkeys(row.get(name) for row in records))
        if (
            len(values) > 1
            and name not in ("label", "scorer")
            and not any(_decides(a, name, records) for a in (*axes, "label"))
        ):
            axes[name] = values
    return axes


def companions(result: Result, name: str) -> list[str]:
    """The swept keys that change along with an axis, and are none of their own."""
    (together, *_) = [*(axis for axis in result.settings["sweep"]["over"] if name in axis), ()]
    axes, changing = axes_of(result), [key for key in together if len({row[key] for row in result.records}) > 1]
    return [key for key in changing if key not in (*axes, *REPLICATES)]


def _decides(a: str, b: str, records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether rows that agree in a agree in b."""
    return len({(row.get(a), row.get(b)) for row in records}) == len({row.get(a) for row in records})
