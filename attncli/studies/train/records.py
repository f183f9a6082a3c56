"""The rows of the study `train`: one a seed, and over the seeds their mean and range."""

import math
from collections.abc import Iterator, Sequence
from statistics import fmean, median, stdev
from typing import Any

from attncli.config.scorer_entries import ScorerEntry
from attncli.studies.study import Record
from attncli.studies.train.job import Job
from attncli.studies.train.learning import Learnt

PLACE = ("scorer", "label", "d")
MEASURED = ("accuracy", "loss", "steps_to_90", "entropy", "gradient_norm")
COLUMNS = (*PLACE, "seed", *MEASURED, "keys", "start_entropy", "parameters")
SUMMARISED = ("accuracy", "loss", "entropy", "gradient_norm", "start_entropy")
SUMMARY = (
    *PLACE, "keys", "seeds", *(f"{name}{end}" for name in SUMMARISED for end in ("", "_min", "_max", "_std")),
    "steps_to_90", "reached_90",
)  # fmt: skip
LEARNT = 0.9  # the accuracy that is looked for


def rows_of(job: Job, learnt: Learnt) -> list[Record]:
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


def foreseen(options: Any) -> list[Record]:
    """What is known of the rows before the work."""
    return [
        {"scorer": entry.scorer, "label": entry.label, "d": d, "seed": seed, "keys": keys}
        for entry, d in configurations(options)
        for keys in options.tested
        for seed in range(options.seeds)
    ]


def configurations(options: Any) -> Iterator[tuple[ScorerEntry, int]]:
    """Every scorer at every size, in the order of the rows."""
    return ((entry, d) for entry in options.scorers for d in options.d)


def summary(rows: Sequence[Record]) -> list[Record]:
    """One row for each configuration and number of keys: mean, least and most over the seeds, under the rows' names.

    `_std` is the sample's standard deviation (n - 1) over the seeds, None where there is but one.

    `steps_to_90` is the median, in which a seed that never got there counts as the slowest, and None where that is the
    median; `reached_90` says how many got there.
    """
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name) for name in (*PLACE, "keys")), []).append(row)
    return [_summarised(group) for group in groups.values()]


def _summarised(group: Sequence[Record]) -> Record:
    record: Record = {name: group[0][name] for name in (*PLACE, "keys")} | {"seeds": len(group)}
    for name in SUMMARISED:
        values = [row[name] for row in group]
        record |= _spread(name, [math.nan if value is None else value for value in values])
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
