"""Means over seeds with their spread: standard deviation, and a 95 % interval by Student's t."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from attncli.core.intervals import student_t
from attncli.core.numbers import short
from attncli.engine.sweeps.columns import identifying_columns, metric_columns, renamed, swept_columns
from attncli.results import Column, Row, SweepResult, group

FIGURES = ("mean", "std", "low", "high", "count")


def summary_names(result: SweepResult) -> dict[str, str]:
    """Return the names of a summary's columns `metric`, `mean` and so on, with a prefix if a swept key has the name."""
    keys = result.swept
    return {name: renamed(name, keys) for name in ("metric", *FIGURES)}


def summary_columns(result: SweepResult) -> list[Column]:
    """Return the columns of a summary."""
    columns, names = swept_columns(result), summary_names(result)
    return [
        *(columns[name] for name in identifying_columns(result)),
        Column(names["metric"], "figure", "The column whose mean this is.", text=True),
        Column(names["mean"], "mean", "Mean over the seeds.", format=short),
        Column(names["std"], "±", "Standard deviation over the seeds.", format=short),
        Column(names["low"], "low", "Lower end of the 95 % interval of the mean (Student's t).", format=short),
        Column(names["high"], "high", "Upper end of the 95 % interval of the mean (Student's t).", format=short),
        Column(names["count"], "runs", "How many seeds."),
    ]


def summary(result: SweepResult, metrics: Sequence[str] | None = None) -> list[Row]:
    """Return a row for each metric (by default all) and each group of rows that differ only in their seed.

    A row has the columns that identify the group, and `metric`, `mean`, `std`, `low`, `high` and `count`. An interval
    that extends beyond the possible values, such as below 0 or above 1 for a share, is replaced by the range of the
    values.
    """
    columns, identifiers, names = swept_columns(result), identifying_columns(result), summary_names(result)
    rows = list[Row]()
    for values, runs in group(result.records, identifiers).items():
        for metric in metric_columns(result) if metrics is None else metrics:
            column = columns[metric]
            numbers = [row[metric] for row in runs if row.get(metric) is not None]
            figures = spread(numbers, -math.inf if column.signed else 0.0, column.most)
            row = {names[key]: figure for key, figure in {"metric": metric, **figures}.items()}
            rows.append(dict(zip(identifiers, values, strict=True)) | row)
    return rows


def spread(numbers: Sequence[float], least: float = -math.inf, most: float = math.inf) -> Row:
    """Return mean, std, low, high and count of numbers; `low` to `high` is the 95 % interval of the mean.

    A statistic that needs more numbers is None. `least` and `most` are the limits of possible numbers: an interval that
    extends beyond these limits is replaced by the range of the numbers.
    """
    count = len(numbers)
    mean = fmean(numbers) if numbers else None
    if mean is None or count < 2:
        return dict(zip(FIGURES, (mean, None, None, None, count), strict=True))
    std = stdev(numbers)
    half = student_t(count - 1) * std / math.sqrt(count)
    low, high = mean - half, mean + half
    ends = min(numbers), max(numbers)
    if least <= ends[0] <= ends[1] <= most and not least <= low <= high <= most:
        low, high = ends
    return dict(zip(FIGURES, (mean, std, low, high, count), strict=True))
