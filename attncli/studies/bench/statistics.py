"""Figures of several rounds: median, spread, and the ratio to a baseline with its interval."""

import math
import statistics
from collections.abc import Sequence

# 97.5 % of Student's t lies below these, for 1, 2, ... degrees of freedom.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


def interquartile_range(seconds: Sequence[float]) -> float:
    """Between the quartiles, which lie between two rounds where they must."""
    low, _, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return high - low


def ratio_of(seconds: Sequence[float], baseline: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """The ratio of times round by round, as their geometric mean, and its 95 % interval.

    Both times of a round suffer from the same noise, which the ratio is free of. The interval is Student's t in
    logarithms: exp(mean +- t s / sqrt(rounds)). Rounds of the baseline beyond those of `seconds` are left out.
    """
    logarithms = [math.log(one / other) for one, other in zip(seconds, baseline, strict=False)]
    mean, count = statistics.fmean(logarithms), len(logarithms)
    half = STUDENT[count - 2] * statistics.stdev(logarithms) / math.sqrt(count)
    return math.exp(mean), (math.exp(mean - half), math.exp(mean + half))
