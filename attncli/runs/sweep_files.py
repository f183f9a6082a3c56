"""What a run folder has of a study of scores against d: the arrays its picture is drawn from, and what it read."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attncli.runs.records import SweepResult
from attncli.runs.tensors import save_named
from attncli.studies.study import Record


def save_sweep(folder: Path, result: SweepResult) -> None:
    """tensors.safetensors, and parameters.safetensors where parameters were read.

    The first has `curve/<label>/<column>`, one number per point of the picture; `histogram/<label>/edges` and
    `/counts`; and `queries`, `keys` and `valid` where they were read.
    """
    tensors = dict(result.inputs) | _curve(result.curve)
    for label, histogram in result.histograms.items():
        tensors |= {f"histogram/{label}/edges": histogram.edges, f"histogram/{label}/counts": histogram.counts}
    save_named(folder / "tensors.safetensors", tensors)
    parameters = {f"{label}/{name}": each for label, state in result.states.items() for name, each in state.items()}
    if parameters:
        save_named(folder / "parameters.safetensors", parameters)


def _curve(curve: Sequence[Record]) -> dict[str, Tensor]:
    """Columns of numbers by label, NaN for what is missing; an interval becomes two columns, low and high."""
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
