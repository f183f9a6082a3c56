"""Map values to colours in pictures and on the page, with matplotlib's norms.

Weights and other values of one sign have linear colours from 0, or colours by the square root where more than half of
them lie below 5 % of the largest. Scores, differences and values of both signs have diverging colours around 0.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from matplotlib.colors import CenteredNorm, FuncNorm, LogNorm, Normalize, PowerNorm, SymLogNorm
from matplotlib.ticker import LogLocator, MaxNLocator

Numbers = np.ndarray[Any, Any]
Kind = Literal["linear", "root", "log"]
Extend = Literal["neither", "min", "max", "both"]
Limit = Literal["bits", "change"]
BITS: Limit = "bits"
CHANGE: Limit = "change"
WORDS = {"linear": "", "root": "colours by square root", "log": "colours by logarithm"}
WEIGHTS = {"weights": "weight", "dropped": "weight after dropout"}  # stages of attention, and their quantities
SCORES = {"scores": "score", "capped": "score after softcap", "biased": "score with its bias"}
QUANTITIES = {**SCORES, **WEIGHTS}
PALE = 0.05  # linear colours of values below this share of the largest are pale
HALF = 0.5  # colours are by the square root if a larger share of the values is pale
FEW = 0.05  # share of the positive values below logarithmic colours
SHORTEST, LONGEST = 10.0, 1e6  # ratio of the ends of logarithmic colours
SIGNED_DECADES = 1e3  # ratio of the end of signed logarithmic colours to their linear part
SPAN = 100.0  # ratio of values that makes an axis logarithmic
NEXT_TICK = 0.12  # least distance of a number from the ends of a colour bar, relative to its length
SMALL_BITS = 0.1  # colours of divergences end at 1 bit, or here if all are smaller
LARGEST_CHANGE = 1.0  # colours of relative changes end here at most
ROUNDING = 1e-5  # share of the range; values this close to the ends count as within


def difference_name(quantity: str) -> str:
    """Return the name of the difference of a quantity, such as `weight difference after dropout`."""
    return re.sub(r"(?= (?:before|after|with) |$)", " difference", quantity, count=1)


@dataclass(frozen=True)
class ColourScale:
    """A scale from values to colours; `extend` names the ends of the colour bar with values beyond them.

    If `is_diverging`, the colours are a diverging map, with 0 in the middle. `limits` names the ends in the label of
    the bar, where they follow from a rule and not from the values.
    """

    kind: Kind
    low: float
    high: float
    is_diverging: bool = False
    extend: Extend = "neither"
    limits: str = ""

    @property
    def norm(self) -> Normalize:
        """The norm of matplotlib; for a negative x, the root is -sqrt(-x), and the logarithm likewise."""
        if self.is_diverging:
            if self.kind == "log":
                return SymLogNorm(self.high / SIGNED_DECADES, vmin=self.low, vmax=self.high)
            if self.kind == "root":
                functions = (lambda x: np.sign(x) * np.sqrt(np.abs(x)), lambda y: np.sign(y) * np.square(y))
                return FuncNorm(functions, self.low, self.high)
            return CenteredNorm(0.0, self.high)
        if self.kind == "log":
            return LogNorm(self.low, self.high)
        return PowerNorm(0.5, self.low, self.high) if self.kind == "root" else Normalize(self.low, self.high)

    def ticks(self, *, is_short: bool) -> list[float]:
        """Return the numbers beside the colour bar: the ends, 0, and round numbers between them if it is not short."""
        ends = [self.low, self.high]
        if self.is_diverging and (is_short or self.kind == "log"):
            return [self.low, 0.0, self.high]
        if is_short:
            return ends
        locator = LogLocator(numticks=4) if self.kind == "log" else MaxNLocator(4, steps=[1, 2, 5, 10])
        round_numbers = np.asarray(locator.tick_values(*ends))
        places, at_ends = np.asarray(self.norm(round_numbers)), np.array([[0.0], [1.0]])
        apart = np.abs(places - at_ends).min(0) > NEXT_TICK
        inside = (round_numbers > self.low) & (round_numbers < self.high) & apart
        return sorted([*ends, *round_numbers[inside].tolist()])

    def label(self, quantity: str, translation: Callable[[str], str] = str) -> str:
        """Return the label of the colour bar: the quantity, if any, with the scale in brackets unless it is plain."""
        text = translation(quantity)
        words = ", ".join(translation(word) for word in (self.limits, WORDS[self.kind]) if word)
        if not text or not words:
            return text or words
        return f"{text[:-1]}, {words})" if text.endswith(")") else f"{text} ({words})"

    def clip(self, values: Numbers) -> Numbers:
        """Return the values clipped to just beyond the ends, since a logarithm of 0 is not finite."""
        below = self.low / 2 if self.low > 0 else 2 * self.low - self.high
        return np.clip(values, below, 2 * self.high - self.low)


def colour_scale(
    values: Sequence[Numbers],
    stage: str = "",
    *,
    is_difference: bool = False,
    kind: Kind | None = None,
    high: float | None = None,
    limit: Limit | None = None,
) -> ColourScale:
    """Return the colour scale of the unmasked values of one panel or of several.

    NaN is ignored; infinite values only lie beyond the ends.

    Args:
        values: numbers of any shape.
        stage: the stage of attention, if any. Scores are diverging.
        is_difference: values are differences, which are diverging.
        kind: the kind of scale. By default diverging colours are linear, and others linear or by the square root.
        high: the end of the colours.
        limit: `bits` for divergences, whose colours end at 1, or at 0.1 if all are smaller; `change` for relative
            changes, whose colours end at 1 at most.
    """
    cells = np.concatenate([np.ravel(numbers) for numbers in values])
    cells = cells[~np.isnan(cells)].astype(np.float64)
    finite = cells[np.isfinite(cells)]
    least, most = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    if stage in SCORES or is_difference or least < 0:
        top = high or max(-least, most) or 1.0
        return _extended(ColourScale(kind or "linear", -top, top, is_diverging=True), cells)
    limits, top = "", high or most or 1.0
    if limit == "bits" and high is None:
        top = SMALL_BITS if most < SMALL_BITS else 1.0
        limits = f"0 to {top:g}"
    elif limit == "change" and high is None:
        top = min(top, LARGEST_CHANGE)
    if kind is None:
        is_pale = finite.size > 0 and float((finite < PALE * most).mean()) > HALF
        kind = "root" if is_pale else "linear"
    low = 0.0
    if kind == "log":
        positive = finite[finite > 0]
        start = float(np.quantile(positive, FEW, method="inverted_cdf")) if positive.size else 0.0
        low = min(max(start, top / LONGEST), top / SHORTEST)
    return _extended(ColourScale(kind, low, top, limits=limits), cells)


def _extended(scale: ColourScale, values: Numbers) -> ColourScale:
    """Return a scale with `extend` set if values exceed its ends by more than rounding."""
    slack = ROUNDING * (scale.low if scale.low > 0 else scale.high - scale.low)
    is_below = bool((values < scale.low - slack).any())
    is_above = bool((values > scale.high + ROUNDING * (scale.high - scale.low)).any())
    extend: Extend = "both" if is_below and is_above else "min" if is_below else "max" if is_above else "neither"
    return replace(scale, extend=extend)


def spans_decades(values: Iterable[float]) -> bool:
    """Whether values are positive and span more than two decades, enough for a logarithmic axis."""
    finite = [value for value in values if math.isfinite(value)]
    return bool(finite) and 0 < SPAN * min(finite) < max(finite)
