"""The rows of the study `variance`."""

import math
from collections.abc import Sequence

from torch import nn

from attncli.config.scorer_entries import ScorerEntry
from attncli.runs.records import Histogram
from attncli.studies.pairs.sweep import Point, Prepared
from attncli.studies.scoring import scale_of
from attncli.studies.study import Record
from attncli.studies.variance.moments import Moments
from attncli.studies.variance.tally import Tally
from attncli.studies.variance.theory import theory_of


def random_records(prepared: Prepared, point: Point, tallies: Sequence[Tally]) -> list[Record]:
    """One row per scorer at one size, beside the theory."""
    records = []
    for entry, scorer, each in zip(prepared.options.scorers, point.scorers, tallies, strict=True):
        theory, moments = theory_of(entry, scorer, prepared.entries, point.d), each.moments
        exact = not theory.limit and theory.variance is not None
        records.append(
            {
                **_head_of_record(entry, None, point.d, moments),
                "mean": moments.mean,
                "mean_ci": list(moments.mean_interval()),
                "variance": moments.variance,
                "variance_ci": list(moments.variance_interval()),
                "theory_mean": theory.mean,
                "theory_variance": theory.variance,
                "z": moments.variance_score(theory.variance) if exact and theory.variance is not None else None,
                "z_mean": None if theory.mean is None else moments.mean_score(theory.mean),
                "theory": "exact" if exact else "limit" if theory.limit else None,
                "row_variance": None,
                **_scales(scorer, moments.variance),
            }
        )
    return records


def real_record(
    entry: ScorerEntry, scorer: nn.Module, head: int | None, d: int, moments: Moments, within: Moments
) -> Record:
    """These pairs are all there are and no sample, so that there are neither intervals nor a theory to compare with.

    `within` has the scores' differences from the mean of their query: what the softmax sees of them.
    """
    variance = moments.population_variance
    missing = dict.fromkeys(("theory_mean", "theory_variance", "z", "z_mean", "theory"))
    figures = {"mean": moments.mean, "mean_ci": None, "variance": variance, "variance_ci": None}
    rows = {"row_variance": within.population_variance}
    return _head_of_record(entry, head, d, moments) | figures | missing | rows | _scales(scorer, variance)


def _head_of_record(entry: ScorerEntry, head: int | None, d: int, moments: Moments) -> Record:
    return {"scorer": entry.scorer, "label": entry.label, "head": head, "d": d, "samples": moments.count}


def _scales(scorer: nn.Module, variance: float) -> Record:
    """The scorer's factor, and the one that would give variance 1."""
    scale = scale_of(scorer)
    return {"scale": scale, "unit_scale": scale / math.sqrt(variance) if variance > 0 else None}


def histograms_of(prepared: Prepared, tallies: Sequence[Tally], d: int) -> dict[str, Histogram]:
    """By label, of the scorers whose scores differ."""
    made = {entry.label: each.histogram(d) for entry, each in zip(prepared.options.scorers, tallies, strict=True)}
    return {label: histogram for label, histogram in made.items() if histogram is not None}
