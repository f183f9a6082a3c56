"""Where a result is shown, and what its rows have: by the modules of its study, or by those of sweeps."""

import importlib
from collections.abc import Sequence
from types import ModuleType

from attncli import studies
from attncli.studies.study import Chart, Column, Record, Result


def view_of(result: Result, part: str) -> ModuleType:
    """The module `tables` or `figure` that shows a result."""
    if is_sweep(result):
        return importlib.import_module(f"attncli.sweeps.{part}")
    return studies.part_of(result.study, part)


def columns_of(result: Result) -> dict[str, Sequence[Column]]:
    """The columns of each kind of its rows."""
    if not is_sweep(result):
        return studies.columns_of(result.study)
    from attncli.sweeps.records import columns_of, swept_keys

    own = columns_of(result.study, swept_keys(result), result.records)
    return {**dict.fromkeys(studies.ROWS, ()), "records": own}


def charts_of(result: Result) -> Sequence[Chart]:
    """The charts that its rows make: of a sweep its metric over the swept keys, a chart for each text."""
    if not is_sweep(result):
        found: Sequence[Chart] = getattr(studies.part_of(result.study, "columns"), "CHARTS", ())
        return found
    from attncli.sweeps.points import renamed
    from attncli.sweeps.records import axes_of, is_number, swept_keys
    from attncli.sweeps.summary import summary

    metric, keys = result.settings["metric"], swept_keys(result)
    mean, low, high = (renamed(key, keys) for key in ("mean", "low", "high"))
    axes = axes_of(result)
    numbers = [name for name, values in axes.items() if all(value is None or is_number(value) for value in values)]
    if metric is None or not numbers:
        return ()
    others = [name for name in axes if name not in numbers]

    def rows(result: Result) -> list[Record]:
        return [{**row, metric: row[mean]} for row in summary(result, [metric])]

    return (Chart(metric, metric, numbers, (low, high), facets=others, rows=rows),)


def means_of(result: Result) -> tuple[Sequence[Column], Sequence[Record]] | None:
    """The rows of summary.csv with their columns, where rows of a sweep differ by their seed alone."""
    if not is_sweep(result):
        return None
    from attncli.show.numbers import counted, short
    from attncli.sweeps.points import renamed
    from attncli.sweeps.records import REPLICATES, columns_of, names_of, swept_keys
    from attncli.sweeps.summary import FIGURES, summary

    keys, records = swept_keys(result), result.records
    if not any(key in row for key in REPLICATES for row in records):
        return None
    names = names_of(result.study, keys, records)
    named = [column for column in columns_of(result.study, keys, records) if column.key in names]
    metric = renamed("metric", keys)
    mean, std, low, high, count = (renamed(key, keys) for key in FIGURES)
    figures = [
        Column(metric, "figure", "The column whose mean this is.", text=True),
        Column(mean, "mean", "Mean over the seeds.", format=short),
        Column(std, "±", "Standard deviation over the seeds.", format=short),
        Column(low, "low", "Lower end of the 95 % interval of the mean (Student's t).", format=short),
        Column(high, "high", "Upper end of the 95 % interval of the mean (Student's t).", format=short),
        Column(count, "runs", "How many seeds.", format=counted),
    ]
    return [*named, *figures], summary(result)


def is_sweep(result: Result) -> bool:
    """Whether it is that of a sweep."""
    return "sweep" in result.settings
