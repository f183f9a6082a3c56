"""The rows of the study `train`: one a seed and number of keys in the test, and mean and range over the seeds."""

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev
from typing import Any

from attncli.studies.study import Record
from attncli.studies.train.columns import PLACE, SUMMARISED
from attncli.studies.train.configurations import Configuration
from attncli.studies.train.learning import Learnt

GROUP = (*(column.key for column in PLACE), "keys")
LEARNT = 0.9  # the accuracy that is looked for


def rows_of(job: Configuration, learnt: Learnt) -> list[Record]:
    """The rows of one configuration, by number of keys in the test and seed.

    Steps and the norm of the gradient are those of the training, whatever is tested with. Steps are counted to the
    first test that at least nine in ten sequences pass; None where there is none.
    """
    return [
        {
            "scorer": job.entry.scorer,
            "label": job.entry.label,
            "d": job.d,
            "seed": seed,
            "accuracy": float(found["accuracy"][seed]),
            "loss": float(found["loss"][seed]),
            "steps_to_90": _steps_to_90(learnt, seed),
            "entropy": float(found["entropy"][seed]),
            "gradient_norm": float(learnt.curves["gradient_norm"][seed, -1]),
            "keys": keys,
            "start_entropy": float(learnt.curves["entropy"][seed, 0]),
            "parameters": job.parameters,
        }
        for keys, found in learnt.tested.items()
        for seed in range(len(found["accuracy"]))
    ]


def _steps_to_90(learnt: Learnt, seed: int) -> int | None:
    passed = (learnt.curves["accuracy"][seed] >= LEARNT).nonzero()
    return int(learnt.steps[passed[0, 0]]) if len(passed) else None


def summary(rows: Sequence[Record]) -> list[Record]:
    """One row for each configuration and number of keys: mean, least and most over the seeds, under the rows' names.

    `_std` is the sample's standard deviation (n - 1) over the seeds, None where there is but one. `steps_to_90` is the
    median; a seed that never got there counts as the slowest. `reached_90` says how many got there.
    """
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in GROUP), []).append(row)
    return [_summarised(group) for group in groups.values()]


def _summarised(group: Sequence[Record]) -> Record:
    record: Record = {name: group[0][name] for name in GROUP} | {"seeds": len(group)}
    for column in SUMMARISED:
        record |= _spread(column.key, [row[column.key] for row in group])
    reached = [row["steps_to_90"] for row in group if row["steps_to_90"] is not None]
    middle = median([*reached, *[math.inf] * (len(group) - len(reached))])
    return record | {"steps_to_90": middle if math.isfinite(middle) else None, "reached_90": len(reached)}


def _spread(name: str, values: Sequence[float]) -> Record:
    """A single NaN makes all four NaN, since it has no place in an order."""
    known = not any(map(math.isnan, values))
    low, high = (min(values), max(values)) if known else (math.nan, math.nan)
    return {name: fmean(values), f"{name}_min": low, f"{name}_max": high, f"{name}_std": _deviation(values)}


def _deviation(values: Sequence[float]) -> float | None:
    """The standard deviation of a sample, with n - 1 in its denominator; infinity has none."""
    if len(values) < 2:
        return None
    return stdev(values) if all(map(math.isfinite, values)) else math.nan
