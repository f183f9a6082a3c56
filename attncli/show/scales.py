"""Map values to colours in pictures and on the page, with matplotlib's norms.

Colours are linear, or logarithmic where more than half of the values lie below 5 % of the largest one. Logarithmic
colours cover all positive values except the smallest 5 %; arrows at the colour bar stand for the rest.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.colors import FuncNorm, LogNorm, Normalize, SymLogNorm

Numbers = np.ndarray[Any, Any]
Kind = Literal["linear", "root", "log"]
Extend = Literal["neither", "min", "max", "both"]
WORDS = {"linear": "", "root": "colours by the square root", "log": "colours by the logarithm"}
PALE = 0.05  # linear colours of values below this share of the largest are pale
HALF = 0.5  # colours are logarithmic if a larger share of the values is pale
FEW = 0.05  # share of the positive values below logarithmic colours
SHORTEST, LONGEST = 10.0, 1e6  # ratio of the ends of logarithmic colours
SIGNED_DECADES = 1e3  # ratio of the end of signed logarithmic colours to their linear part
SMALL_WEIGHTS = 0.1  # colours of weights end at 1, unless all weights are smaller than this
SPAN = 100.0  # ratio of values that makes an axis logarithmic
ROUNDING = 1e-5  # share of the range; values this close to the ends count as within


@dataclass(frozen=True)
class ColourScale:
    """A scale from values to colours; `extend` names the ends of the colour bar with values beyond them."""

    kind: Kind
    low: float
    high: float
    extend: Extend = "neither"

    @property
    def norm(self) -> Normalize:
        """The norm of matplotlib; for a negative x, the root is -sqrt(-x), and the logarithm likewise."""
        if self.kind == "log" and self.low > 0:
            return LogNorm(self.low, self.high)
        if self.kind == "log":
            return SymLogNorm(max(-self.low, self.high) / SIGNED_DECADES, vmin=self.low, vmax=self.high)
        if self.kind == "root":
            functions = (lambda x: np.sign(x) * np.sqrt(np.abs(x)), lambda y: np.sign(y) * np.square(y))
            return FuncNorm(functions, self.low, self.high)
        return Normalize(self.low, self.high)

    @property
    def words(self) -> str:
        """The scale in words, such as `colours by the logarithm`; empty if it is linear."""
        return WORDS[self.kind]

    def clip(self, values: Numbers) -> Numbers:
        """Return the values clipped to just beyond the ends, since a logarithm of 0 is not finite."""
        below = self.low / 2 if self.kind == "log" and self.low > 0 else 2 * self.low - self.high
        return np.clip(values, below, 2 * self.high - self.low)


def colour_scale(
    values: Numbers | Sequence[Numbers],
    *,
    kind: Kind | None = None,
    is_weight: bool = False,
    is_signed: bool = False,
    is_difference: bool = False,
    low: float | None = None,
    high: float | None = None,
) -> ColourScale:
    """Return the colour scale of the unmasked values of one panel or of several.

    Linear colours begin at 0, or at the smallest value if it is negative, and end at the largest value. NaN is ignored;
    infinite values only lie beyond the ends.

    Args:
        values: numbers of any shape, or a sequence of them.
        kind: the kind of scale; None chooses linear or logarithmic colours.
        is_weight: values are attention weights; linear colours end at 1 unless all weights are small.
        is_signed: values are scores or similar; linear colours begin at the smallest value even if it is positive.
        is_difference: values are differences; colours are linear by default, with 0 in the middle.
        low: the start of the colours, unless they are logarithmic.
        high: the end of the colours.
    """
    found = np.concatenate([np.ravel(each) for each in ([values] if isinstance(values, np.ndarray) else values)])
    found = found[~np.isnan(found)].astype(np.float64)
    finite = found[np.isfinite(found)]
    least, most = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    positive, top = finite[finite > 0], high
    if top is None:
        top = most if is_signed else max(most, 0.0)
    start = max(float(np.quantile(positive, FEW, method="inverted_cdf")), top / LONGEST) if positive.size else 0.0
    if kind is None:
        is_pale = (finite < PALE * most).mean() > HALF if finite.size else False
        can_be_log = is_pale and least >= 0 < SHORTEST * start < top
        kind = "log" if can_be_log and not is_difference else "linear"
    if is_difference:
        top = high or max(-least, most) or 1.0
        return _extended(kind, -top, top, found)
    if kind == "log" and least >= 0:
        top = top or 1.0
        return _extended(kind, min(start or top, top / SHORTEST), top, found)
    if is_weight and high is None and SMALL_WEIGHTS <= most <= 1 + ROUNDING:
        top = 1.0
    if low is None:
        low = least if is_signed and least < top else min(least, 0.0)
    return _extended(kind, low, top if low < top else low + 1.0, found)


def _extended(kind: Kind, low: float, high: float, values: Numbers) -> ColourScale:
    """Return a scale, with `extend` set if values exceed its ends by more than rounding."""
    slack = ROUNDING * (low if kind == "log" and low > 0 else high - low)
    is_below, is_above = bool((values < low - slack).any()), bool((values > high + ROUNDING * (high - low)).any())
    extend: Extend = "both" if is_below and is_above else "min" if is_below else "max" if is_above else "neither"
    return ColourScale(kind, low, high, extend)


def spans_decades(values: Iterable[float]) -> bool:
    """Whether values are positive and span more than two decades, enough for a logarithmic axis."""
    found = [value for value in values if math.isfinite(value)]
    return bool(found) and 0 < SPAN * min(found) < max(found)
