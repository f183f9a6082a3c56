"""What the confidence intervals of several variances allow to be said of them together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from attncli.studies.study import Record

MISSED = 0.05  # how often an interval of 95 % misses its figure
ROUNDING = 1e-9  # entries of size 1 can leave an interval of no width, which the truth misses by rounding only


@dataclass(frozen=True)
class Intervals:
    """One interval (low, high) a size, in the order of d, which all hold their figures in 95 % of cases."""

    ends: Sequence[tuple[float, float]]

    @classmethod
    def of(cls, records: Sequence[Record]) -> "Intervals":
        """The intervals of the variances, widened for their number (Bonferroni)."""
        factor = _quantile(MISSED / len(records)) / _quantile(MISSED)
        return cls([_widened(record["variance_ci"], factor) for record in records])

    def all_hold(self, value: float) -> bool:
        """Whether the value may be that of every size."""
        return all(holds(ends, value) for ends in self.ends)

    @property
    def ends_apart(self) -> bool:
        """Whether the smallest and the largest size differ by more than their errors."""
        (first_low, first_high), (last_low, last_high) = self.ends[0], self.ends[-1]
        return first_high < last_low or last_high < first_low


def holds(interval: Sequence[float] | None, value: float) -> bool:
    """Whether the value lies inside; a variance without an interval cannot be told from any other."""
    low, high = _known(interval)
    slack = ROUNDING * max(abs(value), abs(low))
    return low - slack <= value <= high + slack


def _known(interval: Sequence[float] | None) -> tuple[float, float]:
    if interval is None or any(map(math.isnan, interval)):
        return 0.0, math.inf
    return interval[0], interval[1]


def _widened(interval: Sequence[float] | None, factor: float) -> tuple[float, float]:
    """By the factor around the middle of the logarithms, as intervals of variances are made."""
    low, high = _known(interval)
    if not 0 < low < high < math.inf:
        return low, high
    middle, half = math.log(low) / 2 + math.log(high) / 2, factor * (math.log(high) - math.log(low)) / 2
    return _exp(middle - half), _exp(middle + half)


def _exp(power: float) -> float:
    return math.exp(power) if power < math.log(1e308) else math.inf


def _quantile(missed: float) -> float:
    """How many standard errors to either side are missed so often, of a normal variable."""
    return NormalDist().inv_cdf(1 - missed / 2)
