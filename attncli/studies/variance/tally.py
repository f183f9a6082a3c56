"""Scores of several scorers in parts: their moments, and counts for a histogram."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attncli.studies.pairs.options import PairsOptions
from attncli.studies.pairs.parts import Job, Pairs
from attncli.studies.pairs.prepare import Point, Prepared
from attncli.studies.pairs.result import scores_of
from attncli.studies.threads import in_order
from attncli.studies.variance.moments import Moments

BINS = np.linspace(-5.0, 5.0, 101)  # in standard deviations around the mean
Edges = NDArray[np.float64]


@dataclass(frozen=True)
class Tally:
    """Moments of one scorer's scores of valid pairs; `within` of their differences from the mean of their row.

    `within` is empty where keys are not shared by rows. `counts` are those between the `edges`; empty without them.
    """

    moments: Moments
    within: Moments
    edges: Edges | None
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, scores: Tensor, pairs: Pairs, edges: Edges | None) -> "Tally":
        """Those of one part with these scores (rows, m)."""
        scores, within = scores.cpu().double(), Moments()
        if pairs.keys.ndim == 2:
            valid = torch.ones_like(scores, dtype=torch.bool) if pairs.valid is None else pairs.valid.cpu()
            means = scores.where(valid, 0.0).sum(-1, keepdim=True) / valid.sum(-1, keepdim=True)
            within, scores = Moments.of((scores - means)[valid].numpy()), scores[valid]
        numbers = scores.flatten().numpy()
        counts = np.zeros(0, dtype=np.int64) if edges is None else np.histogram(numbers, edges)[0]
        return cls(Moments.of(numbers), within, edges, counts)

    def merged(self, other: "Tally") -> "Tally":
        """That of both parts."""
        moments, within = self.moments.merged(other.moments), self.within.merged(other.within)
        return Tally(moments, within, self.edges, self.counts + other.counts)

    @property
    def bins(self) -> Edges | None:
        """Edges for these scores; None where they do not differ, or are not finite."""
        variance = self.moments.population_variance
        edges = self.moments.mean + math.sqrt(variance) * BINS if math.isfinite(variance) else BINS * math.nan
        return edges if bool(np.all(np.diff(edges) > 0)) else None


def tally(
    prepared: Prepared[PairsOptions],
    point: Point,
    jobs: Iterable[Job],
    edges: Sequence[Edges | None] = (),
    threads: int = 1,
    done: Callable[[], None] = lambda: None,
) -> list[Tally]:
    """Tallies of the jobs' pairs, one per scorer; no counts without `edges`. `done` is called after every job."""
    edges = edges or [None] * len(point.scorers)

    def one(job: Job) -> list[Tally]:
        pairs = job()
        with torch.no_grad():  # which threads do not take over from the one that began them
            parts = [scores_of(prepared, point, pairs.rows(some)) for some in pairs.slices(prepared.at_a_time)]
        scores = map(torch.cat, zip(*parts, strict=True))
        return [Tally.of(each, pairs, bins) for each, bins in zip(scores, edges, strict=True)]

    tallies: list[Tally] = []
    for part in in_order(one, jobs, threads):
        tallies = merged(tallies, part) if tallies else part
        done()
    return tallies


def merged(some: Sequence[Tally], others: Sequence[Tally]) -> list[Tally]:
    """Scorer by scorer."""
    return list(map(Tally.merged, some, others))
