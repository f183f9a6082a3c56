"""The result of the study `train`, from what its configurations gave."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from attncli.runs.records import TrainResult
from attncli.runs.train_files import Kept
from attncli.scorers import SCORERS
from attncli.studies.progress import Progress
from attncli.studies.scoring import build_scorer, formula_of
from attncli.studies.train.job import Job
from attncli.studies.train.learning import Learnt, points_of
from attncli.studies.train.records import configurations, rows_of, summary
from attncli.studies.train.task import of_equal_weights

SETTINGS = ("keys", "vocabulary", "classes", "embedding", "seeds", "steps", "batch", "optimizer", "lr", "dtype")
WITH_STEPS = "use a smaller lr, or float64"
WITHOUT_STEPS = "look at its options and parameters, or use float64"


def kept_from(job: Job, learnt: Learnt) -> Kept:
    """The rows and the curves of one configuration."""
    place = f"{job.entry.label}/{job.d}"
    return Kept(rows_of(job, learnt), {f"{place}/{name}": curve for name, curve in learnt.curves.items()})


def result_of(
    options: Any, device: torch.device, finished: Mapping[tuple[str, int], Kept], interrupted: bool
) -> TrainResult:
    """The result of all configurations that are finished, by label and d."""
    found = [finished[entry.label, d] for entry, d in configurations(options) if (entry.label, d) in finished]
    records = [row for kept in found for row in kept.records]
    curves: dict[str, Tensor] = {name: curve for kept in found for name, curve in kept.curves.items()}
    return TrainResult(
        records,
        summary(records),
        {name: getattr(options, name) for name in SETTINGS}
        | {"device": str(device), "equal_weights": _of_equal_weights(options, device)},
        {entry.label: _formula(entry) for entry in options.scorers},
        torch.tensor(points_of(options.steps)),
        curves,
        states={entry.label: _state(entry, options) for entry in options.scorers if entry.parameters},
        interrupted=interrupted,
    )


def _of_equal_weights(options: Any, device: torch.device) -> dict[str, float]:
    """Accuracies by number of keys, as text, since that is what JSON has."""
    return {str(keys): of_equal_weights(options, keys, device) for keys in options.tested}


def warn_of_numbers(result: TrainResult, progress: Progress) -> None:
    """Say of which configurations a loss is NaN or infinite, in the end or from the beginning."""
    for label in dict.fromkeys(row["label"] for row in result.comparisons):
        rows = [row for row in result.comparisons if row["label"] == label and not math.isfinite(row["loss"])]
        lost = sorted({row["d"] for row in rows})
        at_first = [d for d in lost if not bool(result.curves[f"{label}/{d}/loss"][:, 0].isfinite().all())]
        later = [d for d in lost if d not in at_first]
        for sizes, when, cure in ((at_first, " before the first step", WITHOUT_STEPS), (later, "", WITH_STEPS)):
            if sizes:
                named = ", ".join(map(str, sizes))
                progress.note(f"warning: {label}: NaN or infinite losses at d = {named}{when}; {cure}")


def _formula(entry: Any) -> str:
    return formula_of(SCORERS[entry.scorer]) if entry.scorer in SCORERS else str(entry.scorer)


def _state(entry: Any, options: Any) -> dict[str, Tensor]:
    """The parameters that were read, which fit one size."""
    d = options.d[0]
    return dict(build_scorer(entry, d, d, options.seed, getattr(torch, options.dtype)).state_dict())
