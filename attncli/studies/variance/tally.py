"""Scores of several scorers in parts: their moments, and counts for a histogram."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attncli.runs.records import Histogram
from attncli.studies.threads import in_order
from attncli.studies.variance.moments import Moments

BINS = np.linspace(-5.0, 5.0, 101)  # in standard deviations around the mean
Edges = NDArray[np.float64]
Job = TypeVar("Job")
NOTHING = Moments()


@dataclass(frozen=True)
class Tally:
    """One scorer's moments and, where there are edges, the counts between them."""

    moments: Moments = NOTHING
    edges: Edges | None = None
    counts: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, scores: Tensor, edges: Edges | None) -> "Tally":
        """That of one part's scores of any shape."""
        numbers = scores.flatten().cpu().double().numpy()
        counts = None if edges is None else np.histogram(numbers, edges)[0]
        return cls(Moments.of(numbers), edges, counts)

    def merged(self, other: "Tally") -> "Tally":
        """That of both parts."""
        counts = other.counts if self.counts is None else self.counts
        if self.counts is not None and other.counts is not None:
            counts = self.counts + other.counts
        edges = other.edges if self.edges is None else self.edges
        return Tally(self.moments.merged(other.moments), edges, counts)

    def histogram(self, d: int) -> Histogram | None:
        """For the picture; None where nothing was counted."""
        if self.edges is None or self.counts is None:
            return None
        moments, counts = self.moments, self.counts.astype(np.float64)
        std = math.sqrt(moments.population_variance)
        return Histogram(d, moments.count, moments.mean, std, torch.from_numpy(self.edges), torch.from_numpy(counts))


def tally(
    work: Callable[[Job], Sequence[Tensor]],
    jobs: Iterable[Job],
    edges: Sequence[Edges | None],
    threads: int,
    done: Callable[[], None],
) -> list[Tally]:
    """The tallies of the scores that `work` gives for each job, one per scorer; `done` is called after every job."""

    def one(job: Job) -> list[Tally]:
        with torch.no_grad():  # which threads do not take over from the one that began them
            return [Tally.of(scores, bins) for scores, bins in zip(work(job), edges, strict=True)]

    tallies = [Tally() for _ in edges]
    for part in in_order(one, jobs, threads):
        tallies = [whole.merged(new) for whole, new in zip(tallies, part, strict=True)]
        done()
    return tallies


def edges_around(tallies: Sequence[Tally]) -> list[Edges | None]:
    """Bins for each scorer's scores; none where they do not differ, or are not finite."""
    return [_around(each.moments) for each in tallies]


def _around(moments: Moments) -> Edges | None:
    variance = moments.population_variance
    edges = moments.mean + math.sqrt(variance) * BINS if math.isfinite(variance) else BINS * math.nan
    return edges if bool(np.all(np.diff(edges) > 0)) else None


def pooled(tallies: Sequence[Sequence[Tally]]) -> list[Tally]:
    """The tallies of several heads, joined scorer by scorer."""
    whole = list(tallies[0])
    for head in tallies[1:]:
        whole = [a.merged(b) for a, b in zip(whole, head, strict=True)]
    return whole
