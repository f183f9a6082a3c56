"""Columns and rows of the study `train`: one row a seed and number of keys in the test, and one over the seeds."""

import math
from collections.abc import Sequence
from itertools import groupby
from statistics import fmean, median, stdev

from attncli.show.numbers import counted, share, short, significant
from attncli.studies.study import LABEL, SCORER, Column, Record
from attncli.studies.train.model import Configuration, Learnt

LEARNT = 0.9  # the accuracy that is looked for
PLACE = (SCORER, LABEL, Column("d", "d", "Size of queries and keys."))
GROUP = (*(column.key for column in PLACE), "keys")
KEYS = Column("keys", "keys", "Keys per test sequence.", format=counted)
ACCURACY = Column("accuracy", "accuracy", "Share of test sequences with the right answer.", format=share)
LOSS = Column("loss", "loss", "Cross-entropy on the test sequences.", "nats", short)
ENTROPY = Column("entropy", "entropy\nat end", "Mean entropy of the weights on the test sequences.", "nats", short)
GRADIENT = Column("gradient_norm", "gradient", "Norm of the gradient of all parameters after training.", "", short)
START = Column(
    "start_entropy", "entropy\nat start", "Mean entropy of the weights before the first step.", "nats", short
)
SUMMARISED = (ACCURACY, LOSS, ENTROPY, GRADIENT, START)
SPREAD = (("", "Mean"), ("_min", "Minimum"), ("_max", "Maximum"), ("_std", "Standard deviation"))

COLUMNS = (
    *PLACE,
    Column("seed", "seed", "Number of the model, counted from 0."),
    ACCURACY,
    LOSS,
    Column(
        "steps_to_90", "steps to\n90 %", "Steps to the first test with an accuracy of at least 0.9.", "steps", counted
    ),
    ENTROPY,
    GRADIENT,
    KEYS,
    START,
    Column("parameters", "parameters", "Trainable parameters of a model.", format=counted),
)
COMPARISONS = (
    *PLACE,
    KEYS,
    Column("seeds", "seeds", "Models that were trained.", format=counted),
    *(
        Column(f"{each.key}{end}", each.heading, f"{kind} over the seeds: {each.about}", each.unit, each.format)
        for each in SUMMARISED
        for end, kind in SPREAD
    ),
    Column("steps_to_90", "steps to\n90 %", "Median over the seeds of the steps to 0.9.", "steps", significant),
    Column("reached_90", "seeds\nat 90 %", "Number of seeds that reached an accuracy of 0.9.", format=counted),
)


def rows_of(job: Configuration, learnt: Learnt) -> list[Record]:
    """The rows of one configuration, by number of keys in the test and seed.

    Steps and the norm of the gradient are those of the training, whatever is tested with. Steps are counted to the
    first test that at least nine in ten sequences pass; None where there is none.
    """
    rows = list[Record]()
    for keys, found in learnt.tested.items():
        for seed in range(len(found["accuracy"])):
            passed = learnt.steps[learnt.curves["accuracy"][seed] >= LEARNT]
            rows.append(
                {
                    "scorer": job.entry.scorer,
                    "label": job.entry.label,
                    "d": job.d,
                    "seed": seed,
                    "accuracy": float(found["accuracy"][seed]),
                    "loss": float(found["loss"][seed]),
                    "steps_to_90": int(passed[0]) if len(passed) else None,
                    "entropy": float(found["entropy"][seed]),
                    "gradient_norm": float(learnt.curves["gradient_norm"][seed, -1]),
                    "keys": keys,
                    "start_entropy": float(learnt.curves["entropy"][seed, 0]),
                    "parameters": learnt.parameters,
                }
            )
    return rows


def summary(rows: Sequence[Record]) -> list[Record]:
    """One row for each configuration and number of keys: mean, least and most over the seeds, under the rows' names.

    `_std` is the sample's standard deviation (n - 1) over the seeds, None where there is but one. `steps_to_90` is the
    median; a seed that never got there counts as the slowest. `reached_90` says how many got there.
    """
    found = list[Record]()
    for place, of_place in groupby(rows, key=lambda row: {name: row[name] for name in GROUP}):
        group = list(of_place)
        record: Record = place | {"seeds": len(group)}
        for name in (column.key for column in SUMMARISED):
            values = [row[name] for row in group]
            low, high = (math.nan, math.nan) if any(map(math.isnan, values)) else (min(values), max(values))
            deviation = stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else math.nan
            record |= {name: fmean(values), f"{name}_min": low, f"{name}_max": high}
            record[f"{name}_std"] = deviation if len(values) > 1 else None
        reached = [row["steps_to_90"] for row in group if row["steps_to_90"] is not None]
        middle = median([*reached, *[math.inf] * (len(group) - len(reached))])
        found.append(record | {"steps_to_90": middle if math.isfinite(middle) else None, "reached_90": len(reached)})
    return found


def mean_and_range(row: Record) -> str:
    """The accuracy over the seeds, `0.84 (0.78–0.94)`: mean, least and most; `1.00` alone where all read the same."""
    middle, low, high = (share(row[f"accuracy{end}"]) for end in ("", "_min", "_max"))
    return middle if middle == low == high else f"{middle} ({low}–{high})"
