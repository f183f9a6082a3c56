"""A laid-out heatmap, drawn: panels with their ticks and numbers, colour bars, legend."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.colors import Colormap
from matplotlib.figure import Figure

from attncli.views.fonts import Typeface
from attncli.views.heatmap.axes import TICK_POINTS
from attncli.views.heatmap.bars import ARROW, draw_bar, labels_width, own_bar, shared_bar, title_width
from attncli.views.heatmap.colours import Cells, Limits, Scale, nan_colour, text_colours, within
from attncli.views.heatmap.frames import (
    AXIS_TITLE_GAP,
    TICK_LENGTH,
    TICK_ROOM,
    TITLE_LINE,
    TITLE_POINTS,
    Box,
    Frame,
)
from attncli.views.heatmap.layout import TITLE_GAP, Sheet
from attncli.views.heatmap.numbers import Numbers, number_text
from attncli.views.heatmap.page import FAINT, Page

MARGIN = 0.1
FOOT_LINE = 0.26
SWATCH = (0.2, 0.11)  # width and height of a legend's sample
SWATCH_GAP, ENTRY_GAP = 0.06, 0.2


@dataclass(frozen=True)
class Picture:
    """All that is drawn. `ends` holds the limits of every panel."""

    sheet: Sheet
    shown: Sequence[Cells]
    ends: Sequence[Limits]
    cmap: Colormap
    face: Typeface
    quantity: str
    scale: Scale
    numbers: Numbers | None
    footnote: str

    @property
    def own_bars(self) -> bool:
        """Whether every panel has a colour bar of its own."""
        return self.scale == "panel"


def draw(picture: Picture) -> Figure:
    """The figure, as large as its content."""
    sheet, face = picture.sheet, picture.face
    bar = None if picture.own_bars else shared_bar(sheet, picture.quantity, face)
    above = max(0.0, ARROW - bar.top) if bar else TITLE_LINE + TITLE_GAP
    right = bar.right + labels_width(bar, picture.ends[0], face) + title_width() if bar else sheet.width
    bottom = MARGIN + above + max(sheet.height, bar.bottom + ARROW if bar else 0.0)
    legend = _legend(picture)
    foot_width = sum(_entry_width(text, face) for text in legend) + face.width(picture.footnote, TICK_POINTS)
    page = Page(max(right, foot_width) + 2 * MARGIN, bottom + FOOT_LINE * (foot_width > 0) + MARGIN, face)
    for index, frame in enumerate(sheet.frames):
        _draw_panel(page, picture, index, replace(frame, box=frame.box.moved(MARGIN, MARGIN + above)))
    if bar:
        moved = bar.moved(MARGIN, MARGIN + above)
        draw_bar(page, moved, picture.cmap, picture.ends[0], picture.quantity, "colour-bar")
    else:
        page.words(MARGIN, MARGIN, picture.quantity, TITLE_POINTS, va="top", gid="quantity")
    _draw_footer(page, picture, legend, bottom + FOOT_LINE / 2)
    return page.finish()


def _draw_panel(page: Page, picture: Picture, index: int, frame: Frame) -> None:
    cells, ends, box = picture.shown[index], picture.ends[index], frame.box
    if cells.mask.any():
        page.hatch(box, f"masked-{index}")
    coloured = within(cells, ends)
    page.image(box, coloured, picture.cmap, ends, f"panel-{index}")
    lost = np.logical_and(coloured.mask, ~cells.mask)
    if lost.any():
        page.stain(box, lost, nan_colour(picture.cmap), f"nan-{index}")
    page.outline(box)
    page.words(box.left + box.width / 2, box.top - TITLE_GAP, frame.title, TITLE_POINTS, ha="center", gid="title")
    if picture.numbers:
        _draw_numbers(page, picture.numbers, cells, text_colours(coloured, picture.cmap, ends), box)
    _draw_keys(page, frame)
    _draw_queries(page, frame)
    if picture.own_bars:
        draw_bar(page, own_bar(frame), picture.cmap, ends, "", f"colour-bar-{index}")


def _draw_numbers(page: Page, numbers: Numbers, cells: Cells, colours: Sequence[str], box: Box) -> None:
    """The number in every valid cell, in the order of `colours`."""
    n, m = cells.shape
    rows, columns = np.nonzero(~cells.mask & ~np.isnan(cells.data))
    for i, j, colour in zip(rows.tolist(), columns.tolist(), colours, strict=True):
        x, y = box.left + (j + 0.5) * box.width / m, box.top + (i + 0.5) * box.height / n
        text = number_text(float(cells.data[i, j]), numbers.spec)
        page.words(x, y, text, numbers.points, colour, ha="center", va="center_baseline", gid="number")


def _draw_keys(page: Page, frame: Frame) -> None:
    box, ticks = frame.box, frame.keys
    if ticks:
        look: dict[str, Any] = {"ha": "center", "va": "top", "rotation": 90 if ticks.rotated else 0, "gid": "key"}
        for index, text in zip(ticks.indices, ticks.texts, strict=True):
            x = box.left + (index + 0.5) * box.width / frame.panel.values.shape[1]
            page.line(x, box.bottom, x, box.bottom + TICK_LENGTH)
            page.words(x, box.bottom + TICK_ROOM, text, TICK_POINTS, **look)
    if frame.lowest:
        y = box.bottom + TICK_ROOM + (ticks.depth if ticks else 0.0) + AXIS_TITLE_GAP / 2
        page.words(box.left + box.width / 2, y, "Keys", TITLE_POINTS, ha="center", va="top", gid="axis-title")


def _draw_queries(page: Page, frame: Frame) -> None:
    box, ticks = frame.box, frame.queries
    if ticks:
        for index, text in zip(ticks.indices, ticks.texts, strict=True):
            y = box.top + (index + 0.5) * box.height / frame.panel.values.shape[0]
            page.line(box.left, y, box.left - TICK_LENGTH, y)
            page.words(box.left - TICK_ROOM, y, text, TICK_POINTS, ha="right", va="center_baseline", gid="query")
    if frame.leftmost:
        room = TICK_ROOM + (ticks.depth if ticks else 0.0)
        if box.height < page.face.width("Queries", TITLE_POINTS):  # it reaches up to the panel's title
            room = max(room, (frame.width(page.face) - box.width) / 2)
        x, y = box.left - room - AXIS_TITLE_GAP, box.top + box.height / 2
        page.words(x, y, "Queries", TITLE_POINTS, ha="right", va="center", rotation=90, gid="axis-title")


def _legend(picture: Picture) -> list[str]:
    """What the legend has to explain."""
    masked = any(cells.mask.any() for cells in picture.shown)
    lost = any(bool(np.isnan(cells.compressed()).any()) for cells in picture.shown)
    return ["masked"] * masked + ["NaN"] * lost


def _entry_width(text: str, face: Typeface) -> float:
    return SWATCH[0] + SWATCH_GAP + face.width(text, TICK_POINTS) + ENTRY_GAP


def _draw_footer(page: Page, picture: Picture, legend: Sequence[str], y: float) -> None:
    x = MARGIN
    for text in legend:
        swatch = Box(x, y - SWATCH[1] / 2, *SWATCH)
        if text == "masked":
            page.hatch(swatch, "legend-masked")
        else:
            page.stain(swatch, np.ones((1, 1), dtype=bool), nan_colour(picture.cmap), "legend-nan")
        page.outline(swatch)
        page.words(swatch.right + SWATCH_GAP, y, text, TICK_POINTS, va="center_baseline", gid="legend")
        x += _entry_width(text, page.face)
    if picture.footnote:
        page.words(x, y, picture.footnote, TICK_POINTS, FAINT, va="center_baseline", gid="footnote")
