"""Moments and histograms of numbers that are given in parts; intervals for any distribution with a fourth moment."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attncli.studies.pairs.parts import Pairs

BINS = np.linspace(-5.0, 5.0, 101)  # in standard deviations around the mean
NORMAL_95 = 1.959963984540054  # the normal distribution's 97.5 % point
Edges = NDArray[np.float64]
Interval = tuple[float, float]


@dataclass(frozen=True)
class ScoreMoments:
    """Count and mean of numbers, and sums of the second to fourth powers of deviations from the mean, in float64."""

    count: int = 0
    mean: float = 0.0
    m2: float = 0.0
    m3: float = 0.0
    m4: float = 0.0

    @classmethod
    def of(cls, numbers: NDArray[np.float64]) -> "ScoreMoments":
        """Return the moments of an array, in two passes."""
        if numbers.size == 0:
            return cls()
        with np.errstate(invalid="ignore", over="ignore"):  # NaN and infinity show in the moments
            mean = float(numbers.mean())
            deviations = numbers - mean
            squares = deviations * deviations
            higher = float((squares * deviations).sum()), float((squares**2).sum())
        return cls(numbers.size, mean, float(squares.sum()), *higher)

    def merged(self, other: "ScoreMoments") -> "ScoreMoments":
        """Return the moments of the union of two samples, without cancellation.

        Sums of powers of the numbers themselves would lose the digits of a variance that is small beside the mean. Here
        the deviations in each sample are from its own mean, and the difference `delta` of the means moves both to the
        common mean: sum (x - mean)^p of a sample, with x - mean = (x - own mean) + (own mean - mean), as a binomial.
        Chan, Golub and LeVeque 1983 for the second moment, Pebay 2008 (Sandia report SAND2008-6212) for the others.
        """
        if not (self.count and other.count):
            return self if self.count else other
        a, b = self, other
        count, delta = a.count + b.count, b.mean - a.mean
        step, share = delta / count, a.count * b.count
        square, cube = step * step, step * step * step  # ** would raise an error where these are infinite
        m2 = a.m2 + b.m2 + delta * step * share
        m3 = a.m3 + b.m3 + delta * square * share * (a.count - b.count) + 3 * step * (a.count * b.m2 - b.count * a.m2)
        m4 = (
            a.m4
            + b.m4
            + delta * cube * share * (a.count**2 - share + b.count**2)
            + 6 * square * (a.count**2 * b.m2 + b.count**2 * a.m2)
            + 4 * step * (a.count * b.m3 - b.count * a.m3)
        )
        return ScoreMoments(count, a.mean + step * b.count, m2, m3, m4)

    @property
    def variance(self) -> float:
        """Return the unbiased estimate of the variance."""
        return self.m2 / (self.count - 1) if self.count > 1 else math.nan

    @property
    def population_variance(self) -> float:
        """Return the variance with divisor n, for a whole population."""
        return self.m2 / self.count if self.count else math.nan

    def mean_interval(self) -> Interval:
        """Return the 95 % interval of the mean, by the central limit theorem."""
        half = NORMAL_95 * self._mean_error
        return self.mean - half, self.mean + half

    def mean_score(self, theory: float) -> float | None:
        """Return (mean - theory) / standard error; None if the standard error is 0 and the difference is not."""
        return _ratio(self.mean - theory, self._mean_error)

    @property
    def _mean_error(self) -> float:
        return math.sqrt(self.variance / self.count)

    def variance_interval(self) -> Interval:
        """Return the 95 % interval of the variance, for any distribution with a fourth moment.

        Bonett 2006, "Approximate confidence interval for standard deviation of nonnormal distributions": the logarithm
        of the variance is closer to normal than the variance, and its standard error follows from the fourth moment
        (here about the mean; Bonett's trimmed mean cannot be computed from parts).
        """
        if self.m2 == 0:
            return self.variance, self.variance
        factor = math.exp(NORMAL_95 * self._log_error)
        return self._centre / factor, self._centre * factor

    def variance_score(self, theory: float) -> float | None:
        """Return (log variance - log theory) / standard error; None if it is undefined."""
        if self.m2 == 0 or theory == 0:
            return 0.0 if self.m2 == theory == 0 else None
        ratio = self._centre / theory
        return _ratio(math.log(ratio), self._log_error) if 0 < ratio < math.inf else math.nan

    @property
    def _correction(self) -> float:
        return self.count / (self.count - NORMAL_95)

    @property
    def _centre(self) -> float:
        return self._correction * self.variance

    @property
    def _log_error(self) -> float:
        kurtosis = self.count * (self.m4 / self.m2) / self.m2
        spread = (kurtosis - (self.count - 3) / self.count) / (self.count - 1)
        return self._correction * math.sqrt(max(spread, 0.0)) if math.isfinite(spread) else math.nan


def _ratio(difference: float, error: float) -> float | None:
    if error == 0:
        return 0.0 if difference == 0 else None
    return difference / error


@dataclass(frozen=True)
class MomentTally:
    """Moments and a histogram of one scorer's scores of valid pairs.

    `within` has the moments of scores minus the mean score of their query; it is empty if queries do not share keys.
    `counts` is the histogram over the bins between `edges`, empty if `edges` is None.
    """

    moments: ScoreMoments
    within: ScoreMoments
    edges: Edges | None
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, scores: Tensor, pairs: Pairs, edges: Edges | None) -> "MomentTally":
        """Return the tally of `scores`, which are the scores of `pairs`."""
        scores, within = scores.cpu().double(), ScoreMoments()
        if pairs.keys.ndim == 2:
            valid = torch.ones_like(scores, dtype=torch.bool) if pairs.valid is None else pairs.valid.cpu()
            means = scores.where(valid, 0.0).sum(-1, keepdim=True) / valid.sum(-1, keepdim=True)
            within, scores = ScoreMoments.of((scores - means)[valid].numpy()), scores[valid]
        numbers = scores.flatten().numpy()
        counts = np.zeros(0, dtype=np.int64) if edges is None else np.histogram(numbers, edges)[0]
        return cls(ScoreMoments.of(numbers), within, edges, counts)

    def merged(self, other: "MomentTally") -> "MomentTally":
        """Return the tally of the scores of both tallies."""
        moments, within = self.moments.merged(other.moments), self.within.merged(other.within)
        return MomentTally(moments, within, self.edges, self.counts + other.counts)

    @property
    def bins(self) -> Edges | None:
        """Return edges for a histogram of these scores; None if all scores are equal, or some are not finite."""
        variance = self.moments.population_variance
        edges = self.moments.mean + math.sqrt(variance) * BINS if math.isfinite(variance) else BINS * math.nan
        return edges if bool(np.all(np.diff(edges) > 0)) else None
