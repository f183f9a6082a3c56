"""From numbers to colours: the limits that a colour bar shows, and the colours of NaN and of numbers in cells."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.colors import Colormap, Normalize, to_rgb

Scale = Literal["unit", "shared", "panel"]
Cells = np.ma.MaskedArray[Any, Any]
Limits = tuple[float, float]  # the values at the two ends of the colours
ROUNDING = 1e-5  # a weight this little above 1 is a 1
NAN_COLOURS = ("black", "#00b4d8", "#70e000", "#7b2cbf")
MASKED: dict[str, Any] = {
    "facecolor": "0.9",
    "edgecolor": "0.62",
    "hatch": "/////",
    "hatch_linewidth": 0.5,
    "linewidth": 0.0,
}


def limits(shown: Sequence[Cells], scale: Scale) -> list[Limits]:
    """The limits of each matrix: 0 to 1, their common range, or each its own. Infinities lie outside, NaN nowhere."""
    if scale == "panel":
        return [_range(valid_numbers([cells])) for cells in shown]
    return [(0.0, 1.0) if scale == "unit" else _range(valid_numbers(shown))] * len(shown)


def _range(values: np.ndarray[Any, Any]) -> Limits:
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    around = 0.0 if low < high else 0.5 * abs(low) or 0.5  # equal values have the colour in the middle
    return low - around, high + around


def valid_numbers(shown: Sequence[Cells]) -> np.ndarray[Any, Any]:
    """All valid values that are numbers, infinities among them, in one row."""
    values: np.ndarray[Any, Any] = np.concatenate([cells.compressed() for cells in shown])
    return np.extract(~np.isnan(values), values)


def extend(shown: Sequence[Cells], limits: Limits) -> Literal["neither", "min", "max", "both"]:
    """At which ends of a colour bar cells lie beyond it: what matplotlib draws as arrows."""
    values = valid_numbers(shown)
    below, above = (values < limits[0] - ROUNDING).any(), (values > limits[1] + ROUNDING).any()
    return "both" if below and above else "min" if below else "max" if above else "neither"


def clipped(cells: Cells, limits: Limits) -> np.ndarray[Any, Any]:
    """The values with infinities just beyond the limits, since matplotlib takes them for NaN."""
    low, high = limits
    return np.clip(cells.data, 2 * low - high, 2 * high - low)


def nan_colour(cmap: Colormap) -> str:
    """A colour for NaN that no number has: of a few, the farthest from every colour of the map."""
    used = cmap(np.linspace(0, 1, 64))[:, :3]
    return max(NAN_COLOURS, key=lambda name: float(np.abs(used - to_rgb(name)).sum(axis=1).min()))


def text_colours(cells: Cells, cmap: Colormap, limits: Limits) -> np.ndarray[Any, Any]:
    """Black or white for every cell, whichever has the higher contrast (WCAG 2.2 luminance)."""
    rgb = cmap(Normalize(*limits)(clipped(cells, limits)))[..., :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return np.where(linear @ (0.2126, 0.7152, 0.0722) > 0.179, "black", "white")
