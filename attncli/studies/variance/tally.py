"""Scores of several scorers in parts: their moments, and counts for a histogram."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attncli.studies.pairs.options import Sweep
from attncli.studies.pairs.parts import Job, Pairs
from attncli.studies.pairs.prepare import Point, Prepared
from attncli.studies.pairs.scores import scores_of, sliced
from attncli.studies.threads import in_order
from attncli.studies.variance.moments import Moments

BINS = np.linspace(-5.0, 5.0, 101)  # in standard deviations around the mean
Edges = NDArray[np.float64]
NOTHING = Moments()


@dataclass(frozen=True)
class Tally:
    """Moments of one scorer's scores of valid pairs; `within` of their differences from the mean of their row.

    `within` is empty where keys are not shared by rows. `counted`: edges and the counts between them, where asked for.
    """

    moments: Moments = NOTHING
    within: Moments = NOTHING
    counted: tuple[Edges, NDArray[np.int64]] | None = None

    @classmethod
    def of(cls, scores: Tensor, pairs: Pairs, edges: Edges | None) -> "Tally":
        """Those of one part with these scores (rows, m)."""
        scores, valid = scores.cpu().double(), None if pairs.valid is None else pairs.valid.cpu()
        numbers = _chosen(scores, valid)
        tally = cls(Moments.of(numbers), counted=None if edges is None else (edges, np.histogram(numbers, edges)[0]))
        if pairs.keys.ndim == 3:
            return tally
        sums = scores if valid is None else scores.where(valid, 0.0)
        means = sums.sum(-1, keepdim=True) / (pairs.shape[1] if valid is None else valid.sum(-1, keepdim=True))
        return replace(tally, within=Moments.of(_chosen(scores - means, valid)))

    def merged(self, other: "Tally") -> "Tally":
        """That of both parts."""
        counted = other.counted if self.counted is None else self.counted
        if self.counted is not None and other.counted is not None:
            counted = self.counted[0], self.counted[1] + other.counted[1]
        return Tally(self.moments.merged(other.moments), self.within.merged(other.within), counted)

    @property
    def edges(self) -> Edges | None:
        """Bins for these scores; None where they do not differ, or are not finite."""
        variance = self.moments.population_variance
        edges = self.moments.mean + math.sqrt(variance) * BINS if math.isfinite(variance) else BINS * math.nan
        return edges if bool(np.all(np.diff(edges) > 0)) else None


def _chosen(scores: Tensor, valid: Tensor | None) -> NDArray[np.float64]:
    numbers: NDArray[np.float64] = (scores if valid is None else scores[valid]).flatten().numpy()
    return numbers


def tally(
    prepared: Prepared[Sweep],
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
            parts = [scores_of(prepared, point, pairs.rows(some)) for some in sliced(pairs, prepared.at_a_time)]
        scores = map(torch.cat, zip(*parts, strict=True))
        return [Tally.of(each, pairs, bins) for each, bins in zip(scores, edges, strict=True)]

    tallies = [Tally() for _ in point.scorers]
    for part in in_order(one, jobs, threads):
        tallies = merged(tallies, part)
        done()
    return tallies


def merged(some: Sequence[Tally], others: Sequence[Tally]) -> list[Tally]:
    """Scorer by scorer."""
    return [whole.merged(new) for whole, new in zip(some, others, strict=True)]
