"""Results of the studies against d: rows in their order, and the points of the picture as tensors."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attncli.studies.pairs.options import Sweep
from attncli.studies.pairs.prepare import Point, Prepared
from attncli.studies.scoring import formula_of
from attncli.studies.study import Column, Finding, Record, Result, Rows

Curve = dict[str, NDArray[np.float64]]  # columns of numbers, one per point
PLACE = (
    Column("scorer", "scorer", "Name of the scoring function.", text=True),
    Column("label", "label", "Label of its entry.", text=True),
    Column("head", "head", "Head of real tensors that have some, counted from 0."),
    Column("d", "d", "Size of a key, and of a query if the scorer needs equal sizes."),
)


def rows_of(prepared: Prepared[Sweep], measured: Sequence[tuple[Point, Sequence[Record]]]) -> list[Record]:
    """The rows of all points, with their place before the figures, one row per scorer and point.

    Random pairs have the scorers of one size together, real ones the heads of one scorer.
    """
    rows = [
        [
            {"scorer": entry.scorer, "label": entry.label, "head": point.head, "d": point.d, **figures}
            for entry, figures in zip(prepared.options.scorers, found, strict=True)
        ]
        for point, found in measured
    ]
    return [row for some in (rows if prepared.real is None else zip(*rows, strict=True)) for row in some]


def result_of(
    prepared: Prepared[Sweep], curve: Sequence[Record], findings: Sequence[Finding], tensors: Mapping[str, Tensor]
) -> Result:
    """The result from the rows of all points: those that were asked for are its records, all are its curve."""
    options, point, real = prepared.options, prepared.points[-1], prepared.real
    pairs = list(zip(options.scorers, point.scorers, strict=True))
    drawn = {"from": options.source} if real is not None else dict(vars(prepared.entries))
    return Result(
        study=options.study,
        name=options.name,
        settings={**drawn, "formulas": {entry.label: formula_of(type(scorer)) for entry, scorer in pairs}},
        records=asked(prepared, curve),
        findings=findings,
        inputs={} if real is None else real.saved(),
        tensors={**curve_tensors(curve), **tensors},
        parameters={
            f"{entry.label}/{name}": tensor.cpu()
            for entry, scorer in pairs
            if entry.parameters
            for name, tensor in scorer.state_dict().items()
        },
    )


def asked(prepared: Prepared[Sweep], curve: Sequence[Record]) -> list[Record]:
    """The rows that were asked for, without those that only stand in the picture."""
    sizes = {point.d for point in prepared.points if point.asked}
    return [row for row in curve if row["d"] in sizes]


def curve_tensors(curve: Sequence[Record]) -> dict[str, Tensor]:
    """`curve/<label>/<column>`: NaN for what is missing; an interval becomes two columns, low and high."""
    columns: dict[str, list[float]] = {}
    for row in curve:
        for name, value in row.items():
            for part, number in _numbers(name, value):
                columns.setdefault(f"curve/{row['label']}/{part}", []).append(number)
    return {name: torch.tensor(column, dtype=torch.float64) for name, column in columns.items()}


def _numbers(name: str, value: Any) -> list[tuple[str, float]]:
    if name.endswith("_ci"):
        low, high = value or (math.nan, math.nan)
        return [(f"{name}_low", low), (f"{name}_high", high)]
    if isinstance(value, str) or (name in ("head", "theory") and value is None):
        return []
    return [(name, math.nan if value is None else float(value))]


def curves(result: Result) -> dict[str, Curve]:
    """The points of the picture by label, from the tensors of a result or of its run folder."""
    found: dict[str, Curve] = {label: {} for label in result.labels}
    for name, tensor in result.tensors.items():
        if name.startswith("curve/"):
            label, _, column = name.removeprefix("curve/").rpartition("/")
            found[label][column] = tensor.numpy()
    return found


def expected_rows_of(prepared: Prepared[Sweep], columns: Sequence[Column]) -> Rows:
    """One row per scorer and size that was asked for; of real tensors one per scorer and head."""
    points: list[tuple[Point, list[Record]]] = [
        (point, [{}] * len(point.scorers)) for point in prepared.points if point.asked
    ]
    return Rows(columns, rows_of(prepared, points))
