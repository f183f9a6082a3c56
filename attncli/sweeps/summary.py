"""Means over seeds with their spread: standard deviation, and a 95 % interval by Student's t."""

import math
from collections.abc import Sequence
from functools import cache
from statistics import fmean, stdev

from attncli.show.numbers import share
from attncli.studies.study import Column, Record, Result
from attncli.sweeps.points import renamed
from attncli.sweeps.records import columns_of, figures_of, names_of, swept_keys

LEVEL = 0.975  # of the upper end of the interval
FIGURES = ("mean", "std", "low", "high", "count")


def summary(result: Result, metrics: Sequence[str] | None = None) -> list[Record]:
    """One row for each metric of each group of rows that differ by their seed alone; all figures by default.

    It has the columns that name the group, `metric`, and `mean`, `std`, `low`, `high` and `count`. Where the
    interval would leave what a figure can be, below 0 or beyond 1 for a share, it has the range of its values instead.
    """
    keys, records = swept_keys(result), result.records
    names = names_of(result.study, keys, records)
    bounds = {column.key: _bounds(column) for column in columns_of(result.study, keys, records)}
    metrics = figures_of(result.study, keys, records) if metrics is None else metrics
    groups = dict[tuple[object, ...], list[Record]]()
    for row in records:
        groups.setdefault(tuple(row.get(name) for name in names), []).append(row)
    rows = list[Record]()
    for values, group in groups.items():
        for metric in metrics:
            numbers = [row[metric] for row in group if row.get(metric) is not None]
            figures = {renamed(key, keys): value for key, value in spread(numbers, *bounds[metric]).items()}
            rows.append({**dict(zip(names, values, strict=True)), renamed("metric", keys): metric, **figures})
    return rows


def _bounds(column: Column) -> tuple[float, float]:
    return (-math.inf if column.signed else 0.0, 1.0 if column.format is share else math.inf)


def spread(numbers: Sequence[float], least: float = -math.inf, most: float = math.inf) -> Record:
    """Mean, standard deviation, ends of the 95 % interval of the mean, and count; None where they are unknown."""
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


@cache
def student_t(freedom: int) -> float:
    """The quantile of Student's t at LEVEL, by halving an interval around it."""
    low, high = 1.0, 16.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if _below(middle, freedom) < LEVEL else (low, middle)
    return (low + high) / 2


def _below(t: float, freedom: int) -> float:
    """The share of Student's distribution below t, for whole degrees of freedom (Abramowitz and Stegun 26.7.3-4)."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, square = math.sin(angle), math.cos(angle) ** 2
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = term if freedom > 1 else 0.0
    for step in range(2 + odd, freedom - 1, 2):
        term *= square * (step - 1) / step
        total += term
    between = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return 0.5 + between / 2
