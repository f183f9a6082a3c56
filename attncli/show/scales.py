"""One rule of scale for a quantity that stands in several panels: for its colours, and for its axis.

Colours go from 0 to the largest value, or from the smallest where values may be negative. Where values that are not
negative span more than two decades, colours follow the logarithm, over the decades that nearly all of them take, and
the colour bar has arrows for the rest.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.colors import LogNorm, Normalize

Numbers = np.ndarray[Any, Any]
SPAN = 100.0  # times the smallest value is more than two decades
FEW = 0.05  # of the values may lie below logarithmic colours
SHORTEST, LONGEST = 10.0, 1e6  # the largest value of logarithmic colours over the smallest
CLOSE = 0.15  # of a colour bar: ticks that are nearer would lie upon each other
ROUNDING = 1e-5  # of the range: what lies no farther beyond the end is rounding
Extend = Literal["neither", "min", "max", "both"]


def spans_decades(values: Iterable[float]) -> bool:
    """Whether positive values span more than two decades, so that a logarithmic axis shows them better."""
    found = [value for value in values if np.isfinite(value)]
    return bool(found) and 0 < SPAN * min(found) < max(found)


def norm_of(panels: Sequence[Numbers], is_signed: bool = False) -> Normalize:
    """Return the norm that all panels of one quantity share; `is_signed` is whether its values may be below 0."""
    values = np.concatenate([np.ravel(panel) for panel in panels])
    values = values[np.isfinite(values)]
    if not values.size:
        return Normalize(0.0, 1.0)
    low, high = float(values.min()), float(values.max())
    positive = values[values > 0]
    if low >= 0 and positive.size and spans_decades(positive):
        start = max(float(np.quantile(positive, FEW, method="inverted_cdf")), high / LONGEST)
        if high > SHORTEST * start:
            return LogNorm(start, high)
    if not is_signed or low == high:
        low, high = min(low, 0.0), max(high, 0.0)
    return Normalize(low, high if low < high else low + 1.0)


def is_beyond(norm: Normalize, values: Numbers) -> tuple[Numbers, Numbers]:
    """Return which values lie below the colours of a norm, and which above them, by more than rounding."""
    low, high = float(norm.vmin or 0.0), float(norm.vmax or 0.0)
    slack = ROUNDING * (high - low)
    return values < (low * (1 - ROUNDING) if isinstance(norm, LogNorm) else low - slack), values > high + slack


def extend_of(norm: Normalize, values: Numbers) -> Extend:
    """Return the ends at which a colour bar has an arrow: those with values beyond them."""
    below, above = (bool(each.any()) for each in is_beyond(norm, values))
    return "both" if below and above else "min" if below else "max" if above else "neither"


def ticks_of(norm: Normalize) -> list[float]:
    """Return the ends of a norm, and between those of a logarithm the powers of ten that are not close to them."""
    low, high = float(norm.vmin or 0.0), float(norm.vmax or 0.0)
    if not isinstance(norm, LogNorm):
        return [low, high]
    decades = 10.0 ** np.arange(math.ceil(math.log10(low)), math.log10(high))
    return [low, *(float(each) for each in decades if CLOSE < float(norm(each)) < 1 - CLOSE), high]


def within(norm: Normalize, values: Numbers) -> Numbers:
    """Return the values with those far beyond the ends just beyond them, since a logarithm has no place for zeros."""
    low, high = float(norm.vmin or 0.0), float(norm.vmax or 0.0)
    return np.clip(values, low / 2 if isinstance(norm, LogNorm) else 2 * low - high, 2 * high - low)
