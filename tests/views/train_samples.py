"""Results of `train` to show, made by formulas so that every figure is known."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from attncli.runs.records import TrainResult
from attncli.studies.study import Record

SIZES = (16, 64, 256, 1024)
SCORERS = ("dot", "scaled_dot", "additive")
STEPS = torch.arange(0, 801, 8)
SUMMARISED = ("accuracy", "loss", "entropy", "gradient_norm", "start_entropy")
SETTINGS: Record = {
    "keys": 8, "vocabulary": 16, "classes": 8, "embedding": 64, "seeds": 5, "steps": 800, "batch": 64,
    "optimizer": "adam", "lr": 0.001, "dtype": "float32", "device": "cpu",
    "equal_weights": {str(keys): 2.5 / keys for keys in range(3, 200)},
}  # fmt: skip
FORMULA = "the formula of {} (somebody 2020)"


def accuracy(label: str, d: int, seed: int) -> float:
    """1 for all but `dot`, which loses 0.1 each time d is four times as large, and 0.02 with each seed."""
    return 1.0 if label != "dot" or d <= 16 else 1.0 - 0.05 * math.log2(d / 16) / 2 - 0.02 * seed


def train_record(label: str, d: int, seed: int, keys: int = 8) -> Record:
    """A record; figures of other numbers of keys are a little lower."""
    share = accuracy(label, d, seed) - (0.1 if keys != 8 and label == "dot" else 0.0)
    return {
        "scorer": label,
        "label": label,
        "d": d,
        "seed": seed,
        "accuracy": share,
        "loss": 2.0 - share,
        "steps_to_90": 8 * (seed + 1) if share >= 0.9 else None,
        "entropy": 0.25,
        "gradient_norm": 1e-6 if share < 1 else 0.125,
        "keys": keys,
        "start_entropy": 0.0625 if label == "dot" else 2.0,
        "parameters": 128 * d,
    }


def summary_of(rows: Sequence[Record]) -> Record:
    """Mean and range, as the study has them."""
    record = {name: rows[0][name] for name in ("scorer", "label", "d", "keys")} | {"seeds": len(rows)}
    for name in SUMMARISED:
        values = [row[name] for row in rows]
        record |= {name: sum(values) / len(values), f"{name}_min": min(values), f"{name}_max": max(values)}
    reached = sorted(row["steps_to_90"] for row in rows if row["steps_to_90"] is not None)
    middle = len(rows) // 2
    return record | {"steps_to_90": reached[middle] if middle < len(reached) else None, "reached_90": len(reached)}


def train_result(
    sizes: Sequence[int] = SIZES, labels: Sequence[str] = SCORERS, seeds: int = 5, tested: Sequence[int] = (8,)
) -> TrainResult:
    """A result whose curves rise from 0.25 to the accuracy in the end."""
    groups = [
        [train_record(label, d, seed, keys) for seed in range(seeds)]
        for label in labels
        for d in sizes
        for keys in tested
    ]
    rise = 1 - torch.exp(-STEPS / 100)
    curves = {
        f"{label}/{d}/accuracy": torch.stack([0.25 + (accuracy(label, d, seed) - 0.25) * rise for seed in range(seeds)])
        for label in labels
        for d in sizes
    }
    return TrainResult(
        [row for group in groups for row in group],
        [summary_of(group) for group in groups],
        SETTINGS | {"seeds": seeds},
        {label: FORMULA.format(label) for label in labels},
        STEPS,
        curves,
    )


def changed(result: TrainResult, change: Callable[[Record], dict[str, Any]]) -> TrainResult:
    """With other figures in the rows over the seeds."""
    return replace(result, comparisons=[row | change(row) for row in result.comparisons])
