"""Axes of bench.png: sizes from left to right, times and bytes in the units that people read."""

import math
from collections.abc import Iterable
from dataclasses import replace

from attncli.show.numbers import duration
from attncli.units import in_bytes
from attncli.views.heatmap.page import Page
from attncli.views.sweep_axes import LEAST, MARGIN_FACTOR, MOST_DECADES, Axis, decades_axis, sizes_axis

STEPS = (1, 2, 4, 5, 10, 20, 30)  # powers of two between ticks; 2^10 bytes are the next unit


def across(sizes: Iterable[int], title: str, width: float, page: Page) -> Axis:
    """The size that changes."""
    return replace(sizes_axis(sizes, width, page), title=title)


def times_axis(seconds: Iterable[float]) -> Axis:
    """Ticks such as `10 µs`."""
    axis = decades_axis(seconds, "")
    return replace(axis, texts=[f"{tick:.0f} s" if tick >= 1 else duration(tick) for tick in axis.ticks])


def bytes_axis(sizes: Iterable[float]) -> Axis:
    """Ticks such as `16 MiB`, at powers of two."""
    found = [size for size in sizes if size > 0 and math.isfinite(size)] or [1.0]
    middle = math.sqrt(min(found)) * math.sqrt(max(found))
    low, high = min(min(found) / MARGIN_FACTOR, middle / LEAST), max(max(found) * MARGIN_FACTOR, middle * LEAST)
    first, last = max(0, math.ceil(math.log2(low))), math.floor(math.log2(high))
    step = next((step for step in STEPS if (last - first) // step < MOST_DECADES), STEPS[-1])
    ticks = [2.0**power for power in range(-(-first // step) * step, last + 1, step)]
    return Axis(low, high, ticks, [in_bytes(tick).replace(".0 ", " ") for tick in ticks], "", True)
