"""Panels of the studies against d: axes placed by hand in inches, with few ticks that are always readable."""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from attncli.views.heatmap.frames import Box
from attncli.views.heatmap.page import Page

TICK_POINTS, TITLE_POINTS = 8.0, 9.0
TICKS_APART = 0.1  # inches between the labels below a panel
MOST_DECADES = 7  # labelled along one axis
GRID = {"color": "0.9", "linewidth": 0.6}
MARGIN_FACTOR = 1.6  # beyond the smallest and the largest value of a logarithmic axis
TINY, HUGE = 1e-300, 1e300  # what lies beyond cannot be drawn
LEAST = 2.6  # a logarithmic axis reaches at least this factor up and down from its middle


@dataclass(frozen=True)
class Axis:
    """Limits, ticks and title of one side of a panel."""

    low: float
    high: float
    ticks: Sequence[float]
    texts: Sequence[str]
    title: str
    logarithmic: bool = False


def panel(page: Page, box: Box, title: str, x: Axis, y: Axis) -> Axes:
    """An empty panel; its title is written on the page, in fonts that have the glyphs."""
    width, height = page.figure.get_size_inches()
    where = (box.left / width, 1 - box.bottom / height, box.width / width, box.height / height)
    axes: Axes = page.figure.add_axes(where)
    for side, axis in ((axes.xaxis, x), (axes.yaxis, y)):
        _set_up(side, axis)
    axes.set(xlim=(x.low, x.high), ylim=(y.low, y.high), axisbelow=True)
    axes.spines[["top", "right"]].set_visible(False)
    middle = box.left + box.width / 2
    page.words(middle, box.top - 0.08, title, TITLE_POINTS, ha="center", va="bottom", gid="panel-title")
    page.words(middle, box.bottom + 0.24, x.title, TITLE_POINTS, ha="center", va="top", gid="axis-title")
    if y.title:
        look: dict[str, Any] = {"ha": "right", "va": "center", "rotation": 90, "gid": "axis-title"}
        page.words(box.left - 0.46, box.top + box.height / 2, y.title, TITLE_POINTS, **look)
    return axes


def _set_up(side: Any, axis: Axis) -> None:
    if axis.logarithmic:
        side._set_axes_scale("log", nonpositive="clip")
    side.set_major_locator(FixedLocator(list(axis.ticks)))
    side.set_major_formatter(FixedFormatter(list(axis.texts)))
    side.set_minor_locator(NullLocator())
    side.set_tick_params(labelsize=TICK_POINTS, length=3, width=0.6, pad=2)
    side.grid(True, **GRID)


def sizes_axis(sizes: Iterable[int], width: float, page: Page) -> Axis:
    """D on a logarithmic axis `width` inches long, labelled where the labels do not touch."""
    found = sorted(set(sizes))
    low, high = found[0] / MARGIN_FACTOR, found[-1] * MARGIN_FACTOR
    inches = width / math.log(high / low)
    places = [math.log(size / low) * inches for size in found]
    shown = _apart(places, [page.face.width(str(size), TICK_POINTS) for size in found])
    return Axis(low, high, [found[i] for i in shown], [str(found[i]) for i in shown], "d", True)


def heads_axis(heads: Iterable[int | None], width: float, page: Page) -> Axis:
    """Heads side by side, counted from 0; a single place without a name where there are none."""
    found = sorted({head for head in heads if head is not None})
    if not found:
        return Axis(-0.5, 0.5, [0.0], ["all pairs"], "")
    low, high = found[0] - 0.5, found[-1] + 0.5
    places = [(head - low) * width / (high - low) for head in found]
    shown = _apart(places, [page.face.width(str(head), TICK_POINTS) for head in found])
    return Axis(low, high, [found[i] for i in shown], [str(found[i]) for i in shown], "head")


def _apart(places: Sequence[float], widths: Sequence[float]) -> list[int]:
    """Every n-th label for powers of two and the like, and whatever else does not touch the one before it."""
    for step in (1, 2, 3, 4):
        shown = range(0, len(places), step)
        if all(_gap(places, widths, a, b) >= TICKS_APART for a, b in itertools.pairwise(shown)):
            return list(shown)
    kept: list[int] = []
    for index in range(len(places)):
        if not kept or _gap(places, widths, kept[-1], index) >= TICKS_APART:
            kept.append(index)
    return kept


def _gap(places: Sequence[float], widths: Sequence[float], left: int, right: int) -> float:
    return places[right] - places[left] - (widths[left] + widths[right]) / 2


def decades_axis(values: Iterable[float], title: str) -> Axis:
    """A logarithmic axis around all values, with powers of ten, or 1, 2 and 5 of each where those are too few."""
    found = [min(max(value, TINY), HUGE) for value in values if value > 0 and math.isfinite(value)] or [1.0]
    middle = math.sqrt(min(found)) * math.sqrt(max(found))
    low, high = min(min(found) / MARGIN_FACTOR, middle / LEAST), max(max(found) * MARGIN_FACTOR, middle * LEAST)
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    step = max(1, math.ceil((last - first + 1) / MOST_DECADES))
    ticks = [10.0**power for power in range(-(-first // step) * step, last + 1, step)]
    if len(ticks) < 3:
        ticks = [digit * 10.0**power for power in range(first - 1, last + 1) for digit in (1, 2, 5)]
    ticks = [tick for tick in ticks if low <= tick <= high]
    return Axis(low, high, ticks, [_decimal(tick) for tick in ticks], title, True)


def _decimal(value: float) -> str:
    return f"{value:.0e}" if value < 1e-3 or value >= 1e5 else f"{value:.10g}"


def unit_axis(title: str) -> Axis:
    """0 to 1, with room for a line at either end."""
    return Axis(-0.03, 1.03, [0.0, 0.25, 0.5, 0.75, 1.0], ["0", "0.25", "0.5", "0.75", "1"], title)
