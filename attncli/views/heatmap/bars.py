"""Colour bars: one that is true of every panel, or one for each."""

import numpy as np
from matplotlib.colors import Colormap

from attncli.views.fonts import Typeface
from attncli.views.heatmap.axes import TICK_POINTS
from attncli.views.heatmap.colours import Limits, bar_values
from attncli.views.heatmap.frames import (
    AXIS_TITLE_GAP,
    TICK_LENGTH,
    TICK_ROOM,
    TITLE_LINE,
    TITLE_POINTS,
    Box,
    Frame,
    snapped,
)
from attncli.views.heatmap.layout import Sheet
from attncli.views.heatmap.numbers import number_texts
from attncli.views.heatmap.page import Page

WIDTH, SHORTEST, LONGEST = 0.12, 1.0, 4.0
ARROW = 0.1  # the tip that says: values go beyond
BESIDE = 0.08  # between a panel and its own bar
TICKS_APART = 0.3


def shared_bar(sheet: Sheet, title: str, face: Typeface) -> Box:
    """A bar right of all panels, at half their height, long enough for its title."""
    top = min(frame.box.top for frame in sheet.frames)
    bottom = max(frame.box.bottom for frame in sheet.frames)
    least = max(SHORTEST, face.width(title, TITLE_POINTS))
    height = snapped(min(max(bottom - top, least), max(LONGEST, least)))
    return Box(snapped(sheet.width), snapped((top + bottom - height) / 2), WIDTH, height)


def own_bar(frame: Frame) -> Box:
    """A bar as high as its panel."""
    return Box(snapped(frame.box.right + BESIDE), frame.box.top, WIDTH, frame.box.height)


def labels_width(bar: Box, ends: Limits, face: Typeface) -> float:
    """How much room the numbers beside a bar take."""
    return TICK_ROOM + max(face.width(text, TICK_POINTS) for text in number_texts(_values(bar, ends)))


def title_width() -> float:
    """How much room the title beside the numbers takes."""
    return AXIS_TITLE_GAP + TITLE_LINE


def draw_bar(page: Page, bar: Box, cmap: Colormap, ends: Limits, title: str, gid: str) -> None:
    """The bar with its numbers; arrows where cells lie beyond its ends."""
    steps = np.linspace(ends.high, ends.low, 256)[:, None]
    page.image(bar, np.ma.MaskedArray(steps, mask=np.zeros_like(steps, dtype=bool)), cmap, ends, gid)
    page.outline(bar)
    middle = bar.left + bar.width / 2
    if ends.above:
        page.polygon([(bar.left, bar.top), (middle, bar.top - ARROW), (bar.right, bar.top)], cmap(1.0), f"{gid}-above")
    if ends.below:
        tip = (middle, bar.bottom + ARROW)
        page.polygon([(bar.left, bar.bottom), tip, (bar.right, bar.bottom)], cmap(0.0), f"{gid}-below")
    values = _values(bar, ends)
    for value, text in zip(values, number_texts(values), strict=True):
        y = bar.bottom - (value - ends.low) / (ends.high - ends.low) * bar.height
        page.line(bar.right, y, bar.right + TICK_LENGTH, y)
        page.words(bar.right + TICK_ROOM, y, text, TICK_POINTS, va="center_baseline", gid=f"{gid}-tick")
    if title:
        x = bar.right + labels_width(bar, ends, page.face) + AXIS_TITLE_GAP
        page.words(x, bar.top + bar.height / 2, title, TITLE_POINTS, rotation=90, va="center", gid="quantity")


def _values(bar: Box, ends: Limits) -> list[float]:
    return bar_values(ends, min(6, int(bar.height / TICKS_APART)))
