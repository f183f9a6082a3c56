"""Scores of several scorers in parts: their moments, and counts for a histogram."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attncli.studies.pairs.parts import Job, Pairs
from attncli.studies.threads import in_order
from attncli.studies.variance.moments import Moments

BINS = np.linspace(-5.0, 5.0, 101)  # in standard deviations around the mean
Edges = NDArray[np.float64]
NOTHING = Moments()


@dataclass(frozen=True)
class Tally:
    """One scorer's moments and, where there are edges, the counts between them."""

    moments: Moments = NOTHING
    counts: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, scores: Tensor, edges: Edges | None) -> "Tally":
        """That of one part's scores of any shape."""
        numbers = scores.flatten().cpu().double().numpy()
        return cls(Moments.of(numbers), None if edges is None else np.histogram(numbers, edges)[0])

    def merged(self, other: "Tally") -> "Tally":
        """That of both parts."""
        counts = other.counts if self.counts is None else self.counts
        if self.counts is not None and other.counts is not None:
            counts = self.counts + other.counts
        return Tally(self.moments.merged(other.moments), counts)

    @property
    def edges(self) -> Edges | None:
        """Bins for these scores; None where they do not differ, or are not finite."""
        variance = self.moments.population_variance
        edges = self.moments.mean + math.sqrt(variance) * BINS if math.isfinite(variance) else BINS * math.nan
        return edges if bool(np.all(np.diff(edges) > 0)) else None


def tally(
    scores: Callable[[Pairs], Sequence[Tensor]],
    jobs: Iterable[Job],
    edges: Sequence[Edges | None],
    threads: int = 1,
    done: Callable[[], None] = lambda: None,
) -> list[Tally]:
    """The tallies of the `scores` of each job's pairs, one per scorer; `done` is called after every job."""

    def one(job: Job) -> list[Tally]:
        with torch.no_grad():  # which threads do not take over from the one that began them
            return [Tally.of(each, bins) for each, bins in zip(scores(job()), edges, strict=True)]

    tallies = [Tally() for _ in edges]
    for part in in_order(one, jobs, threads):
        tallies = merged(tallies, part)
        done()
    return tallies


def merged(some: Sequence[Tally], others: Sequence[Tally]) -> list[Tally]:
    """Scorer by scorer."""
    return [whole.merged(new) for whole, new in zip(some, others, strict=True)]
