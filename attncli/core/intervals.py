"""Quantiles of Student's t for 95 % intervals of means."""

import math
from functools import cache

LEVEL = 0.975  # quantile at the upper end of the interval


@cache
def student_t(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t with `freedom` degrees of freedom, by bisection."""
    low, high = 1.0, 16.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if _below(middle, freedom) < LEVEL else (low, middle)
    return (low + high) / 2


def _below(t: float, freedom: int) -> float:
    """Return P(T < t) of Student's t for integer degrees of freedom (Abramowitz and Stegun 26.7.3-4)."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, square = math.sin(angle), math.cos(angle) ** 2
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = term if freedom > 1 else 0.0
    for step in range(2 + odd, freedom - 1, 2):
        term *= square * (step - 1) / step
        total += term
    between = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return 0.5 + between / 2
