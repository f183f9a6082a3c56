"""From numbers to colours: the limits that a colour bar tells, and what lies outside them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.colors import Colormap, to_rgb
from matplotlib.ticker import MaxNLocator

Scale = Literal["unit", "shared", "panel"]
Cells = np.ma.MaskedArray[Any, Any]
ROUNDING = 1e-5  # a weight this little above 1 is a 1
NAN_COLOURS = ("black", "#00b4d8", "#70e000", "#7b2cbf")


@dataclass(frozen=True)
class Limits:
    """The values at the two ends of the colours, and whether any shown cell lies below or above them."""

    low: float
    high: float
    below: bool = False
    above: bool = False


def limits(shown: Sequence[Cells], scale: Scale) -> list[Limits]:
    """The limits of every matrix: 0 to 1, their common range, or each its own. Infinities lie outside, NaN nowhere."""
    if scale == "panel":
        return [_range([cells]) for cells in shown]
    return [_unit(shown) if scale == "unit" else _range(shown)] * len(shown)


def _unit(shown: Sequence[Cells]) -> Limits:
    values = valid_values(shown)
    return Limits(0.0, 1.0, bool((values < -ROUNDING).any()), bool((values > 1 + ROUNDING).any()))


def _range(shown: Sequence[Cells]) -> Limits:
    values = valid_values(shown)
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if low == high:  # one colour for all, in the middle of a range that can be drawn
        around = 0.5 * abs(low) or 0.5
        low, high = low - around, high + around
    return Limits(low, high, bool(np.isneginf(values).any()), bool(np.isposinf(values).any()))


def valid_values(shown: Sequence[Cells]) -> np.ndarray[Any, Any]:
    """All valid values that are numbers, infinities among them, in one row."""
    values = np.concatenate([cells.compressed() for cells in shown])
    numbers: np.ndarray[Any, Any] = values[~np.isnan(values)]
    return numbers


def within(cells: Cells, ends: Limits) -> Cells:
    """The matrix as it is coloured: NaN masked too, and infinities made numbers just beyond the limits."""
    beyond = ends.high - ends.low
    values = np.nan_to_num(cells.data, nan=0.0, posinf=ends.high + beyond, neginf=ends.low - beyond)
    return np.ma.MaskedArray(values, mask=cells.mask | np.isnan(cells.data))


def nan_colour(cmap: Colormap) -> str:
    """A colour for NaN that no number has: of a few, the farthest from every colour of the map."""
    used = cmap(np.linspace(0, 1, 64))[:, :3]
    return max(NAN_COLOURS, key=lambda name: float(np.abs(used - to_rgb(name)).sum(axis=1).min()))


def text_colours(coloured: Cells, cmap: Colormap, ends: Limits) -> list[str]:
    """Black or white for every cell that is not masked, whichever has the higher contrast (WCAG 2.2 luminance)."""
    shares = (coloured.compressed() - ends.low) / (ends.high - ends.low)
    rgb = cmap(shares)[:, :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return ["black" if bright else "white" for bright in linear @ (0.2126, 0.7152, 0.0722) > 0.179]


def bar_values(ends: Limits, most: int) -> list[float]:
    """Round numbers within the limits for the ticks of a colour bar; the limits themselves on a very short one."""
    if most < 3:
        return [ends.low, ends.high]
    values = MaxNLocator(nbins=most, steps=[1, 2, 2.5, 5, 10]).tick_values(ends.low, ends.high)
    slack = 1e-9 * (ends.high - ends.low)
    return [float(value) for value in values if ends.low - slack <= value <= ends.high + slack]
