"""Rows of the study `train`, for each seed and number of keys in the test, their summary over seeds, and findings."""

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev

import numpy as np
from torch import Tensor

from attncli.catalogue.building import entry_columns
from attncli.core.numbers import finite, number
from attncli.results import Finding, Row, by_label, group, label_finding, signed_weights
from attncli.studies.train.columns import GROUP, SUMMARISED
from attncli.studies.train.model import Configuration, Learnt, curve_steps
from attncli.studies.trends import trend

LEARNT = 0.9  # target accuracy
SAME = 0.02  # mean accuracies that differ by no more count as equal
WRONG, STUCK = 0.02, 1e-3  # with more wrong answers than this, a smaller gradient is reported


def training_rows(job: Configuration, learnt: Learnt, steps: int) -> list[Row]:
    """Return the rows of a trained configuration, by number of keys in the test and seed.

    `steps_to_90` and `gradient_norm` are from the training, so they do not depend on the number of keys in the test.
    `steps_to_90` is the step of the first test with an accuracy of at least 0.9, or None.
    """
    rows, points = list[Row](), curve_steps(steps)
    for keys, metrics in learnt.tested.items():
        for seed, curve in enumerate(learnt.curves["accuracy"].tolist()):
            passed = [step for step, accuracy in zip(points, curve, strict=True) if accuracy >= LEARNT]
            rows.append(
                {
                    **entry_columns(job.entry),
                    "d": job.d,
                    "seed": seed,
                    "accuracy": float(metrics["accuracy"][seed]),
                    "loss": float(metrics["loss"][seed]),
                    "steps_to_90": passed[0] if passed else None,
                    "entropy": _entropy(metrics["entropy"][seed], metrics["loss"][seed]),
                    "gradient_norm": float(learnt.curves["gradient_norm"][seed, -1]),
                    "keys": keys,
                    "start_entropy": _entropy(learnt.curves["entropy"][seed, 0], learnt.curves["loss"][seed, 0]),
                    "largest_score": float(metrics["largest_score"][seed]),
                    "parameters": learnt.parameters,
                }
            )
    return rows


def _entropy(nats: Tensor, loss: Tensor) -> float | None:
    """Return an entropy; None if it is undefined in spite of a finite loss, as with negative weights."""
    return None if nats.isnan() and loss.isfinite() else float(nats)


def summary(rows: Sequence[Row]) -> list[Row]:
    """Return a row for each configuration and number of keys, with means over the seeds under the metrics' names.

    Names with `_min`, `_max` and `_std` appended have the minimum, the maximum and the sample standard deviation (with
    n - 1; None for one seed). `steps_to_90` is the median, where seeds that never reach 90 % count as the slowest, and
    `reached_90` is the number of seeds that reach 90 %.
    """
    means = list[Row]()
    for values_of_group, of_group in group(rows, GROUP).items():
        record: Row = dict(zip(GROUP, values_of_group, strict=True)) | {"seeds": len(of_group)}
        for name in (column.key for column in SUMMARISED):
            values = [row[name] for row in of_group]
            if None in values:
                record |= dict.fromkeys([name, *(f"{name}_{figure}" for figure in ("min", "max", "std"))])
                continue
            low, high = float(np.min(values)), float(np.max(values))  # NaN where one is
            record |= {name: fmean(values), f"{name}_min": low, f"{name}_max": high, f"{name}_std": None}
            if len(values) > 1:
                record[f"{name}_std"] = stdev(values) if all(map(math.isfinite, values)) else math.nan
        reached = [row["steps_to_90"] for row in of_group if row["steps_to_90"] is not None]
        middle = median([*reached, *[math.inf] * (len(of_group) - len(reached))])
        means.append(record | {"steps_to_90": middle if math.isfinite(middle) else None, "reached_90": len(reached)})
    return means


def mean_and_range(row: Row) -> str:
    """Return mean and range of the accuracy over the seeds as text: `0.84 (0.78–0.94)`, or `1.00` if all look equal."""
    middle, low, high = (number(row[f"accuracy{end}"], 3) for end in ("", "_min", "_max"))
    return middle if middle == low == high else f"{middle} ({low}–{high})"


def train_findings(summary: Sequence[Row], keys: int) -> list[Finding]:
    """Return the findings from `summary`, the rows aggregated over seeds; `keys` is the number of keys in training."""
    rows = sorted(summary, key=lambda row: int(row["d"]))
    trained = [row for row in rows if row["keys"] == keys]
    others = by_label([row for row in rows if row["keys"] != keys and finite([row["accuracy"]])])
    findings = [
        _label_sentence(label, of_label, others.get(label, [])) for label, of_label in by_label(trained).items()
    ]
    signed = [label for label, of_label in by_label(rows).items() if any(row["entropy"] is None for row in of_label)]
    findings += map(signed_weights, signed)
    if stuck := [row for row in trained if row["accuracy"] < 1 - WRONG and row["gradient_norm"] < STUCK]:
        worst, uniform = min(stuck, key=lambda row: float(row["accuracy"])), math.log(keys)
        gradient, start, end = (number(worst[key], 3) for key in ("gradient_norm", "start_entropy", "entropy"))
        text = f"{worst['label']} has hardly any gradient left at d = {worst['d']}: its norm is {gradient}"
        if worst["entropy"] is not None:
            text += f"; the entropy of its weights was {start} nats before the first step and is {end} now"
            text += f", of {number(uniform, 3)} for equal weights"
        numbers = {name: worst[name] for name in ("d", "accuracy", "gradient_norm", "start_entropy", "entropy")}
        findings.append(Finding(f"{text}.", worst["label"], numbers | {"entropy_of_equal_weights": uniform}))
    return findings


def _label_sentence(label: str, rows: Sequence[Row], others: Sequence[Row]) -> Finding:
    """Return the finding on how a scorer's accuracy changes with d.

    `others` are rows of tests with other numbers of keys than in training; they are added for the largest d.
    """
    sizes, accuracies = [row["d"] for row in rows], [row["accuracy"] for row in rows]
    numbers: Row = {"d": sizes, "accuracy": accuracies}
    if lost := [str(row["d"]) for row in rows if not finite([row["accuracy"]])]:
        return label_finding(label, [f"no accuracy at d = {', '.join(lost)}", "the losses are not finite"], numbers)
    course, _ = trend(accuracies, [f"d = {d}" for d in sizes], lambda a, b: abs(accuracies[a] - accuracies[b]) > SAME)
    tested = [row for row in others if row["d"] == sizes[-1]]
    numbers |= {"accuracy_with_keys": {str(row["keys"]): row["accuracy"] for row in tested}} if tested else {}
    clauses = [f"with {row['keys']} keys it is {mean_and_range(row)} at d = {row['d']}" for row in tested]
    return label_finding(label, [f"accuracy {course}", *clauses], numbers)
