"""Panels of one size in rows and columns, on a page that is as large as they need."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg

from attncli.show.figures import Picture
from attncli.show.matrices import Panel
from attncli.show.themes import DPI, POINTS, Sheet

LARGEST = 18.0  # inches a side for all panels with their labels
CELL, LONG_SIDE, LONGEST_SIDE = 0.34, 3.0, 5.0  # inches: of a cell, of a panel with few cells, and with many
LONGEST_NAMED, LONGEST_NUMBERED = 7.5, 15.0  # of a panel whose tokens or numbers should all be readable
SMALLEST = 0.1  # inches of a panel on a page that is too small for it
SHORTEST_SIDE = 0.3  # of a panel: a single row or column stays visible, if not square
FEW_PANELS, SMALL_SIDE = 4, 1.7  # more panels than these are drawn smaller, down to this side
TOKEN_LINE = 0.14  # from one token to the next
LETTER = 0.075  # a character is about as wide
WIDE = 1.4  # width to height of a picture that fits a page
GAP, MARGIN, LINE = 32, 20, 44  # pixels: between panels, around all, and for a line of text
BAR_WIDTH, SHORTEST_BAR, LONGEST_BAR = 24, 200, 800  # pixels
NARROWEST = 700  # pixels that a page has for titles


@dataclass(frozen=True)
class Grid:
    """How many panels stand side by side, their size in inches, and how much larger text is than usual."""

    columns: int
    width: float
    height: float
    unit: float = 1.0

    def fitted(self, count: int, page: Sequence[float], needed: Sequence[float], may_grow: bool) -> "Grid":
        """With panels that share what a page has more, or less, than so many of them needed.

        Where they may not grow they only share what it has less: titles that fold now and then would never fit.
        """
        width = self.width + (page[0] - needed[0]) / self.columns
        height = self.height + (page[1] - needed[1]) / math.ceil(count / self.columns)
        if not may_grow:
            width, height = min(width, self.width), min(height, self.height)
        return replace(self, width=max(width, SMALLEST), height=max(height, SMALLEST))


def grid_of(panels: Sequence[Panel], numbers: bool, sheet: Sheet) -> Grid:
    """A column for each label or head, or several places side by side where that would be a strip.

    Cells are square unless a side would be too short; with `numbers` they all have room for a number.
    """
    n, m = max(len(panel.queries) for panel in panels), max(len(panel.keys) for panel in panels)
    unit = sheet.points / POINTS
    if sheet.size is not None:
        return _grid_on(sheet.size, panels, n, m, unit)
    longest = max(n, m)
    side = min(CELL * longest, LONG_SIDE + 0.012 * longest, LONGEST_SIDE)
    side = max(side * min(1.0, (FEW_PANELS / len(panels)) ** 0.5), min(side, SMALL_SIDE))
    letters = max(len(str(name)) for panel in panels for name in (*panel.queries, *panel.keys))
    if any(isinstance(axis, tuple) for panel in panels for axis in (panel.queries, panel.keys)):
        side = max(side, min(unit * TOKEN_LINE * longest, LONGEST_NAMED))
    if numbers:
        side = max(side, min(CELL * longest, LONGEST_NUMBERED))
    width, height = (max(size * side / longest, SHORTEST_SIDE) for size in (m, n))
    columns = _columns(panels, width + 0.4, height + 0.5)
    room = unit * (0.5 + LETTER * letters)  # for labels
    most = [max(LARGEST / count - room, 0.5) for count in (columns, math.ceil(len(panels) / columns))]
    share = min(1.0, most[0] / width, most[1] / height)
    width, height = (max(size * share, min(size, SHORTEST_SIDE)) for size in (width, height))
    return Grid(columns, width, height, unit)


def _grid_on(page: Sequence[float], panels: Sequence[Panel], n: int, m: int, unit: float) -> Grid:
    """As many columns on a page of a given size as give the largest cells; panels of about the size they will have."""
    count, labels = len(panels), len({panel.label for panel in panels})

    def side(columns: int) -> tuple[float, float]:
        rows = math.ceil(count / columns)
        return (page[0] - unit) / columns - 0.5 * unit, (page[1] - unit) / rows - 0.5 * unit

    columns = max(
        (each for each in range(1, count + 1) if each % labels == 0 or labels % each == 0),
        key=lambda each: min(side(each)[0] / m, side(each)[1] / n),
    )
    width, height = side(columns)
    return Grid(columns, max(width, SMALLEST), max(height, SMALLEST), unit)


def _columns(panels: Sequence[Panel], width: float, height: float) -> int:
    """How many panels of this size stand side by side; the labels of one place stay together."""
    labels, places, heads = (len(set(of)) for of in zip(*((p.label, p.index, p.index[1]) for p in panels), strict=True))
    step = labels if places > 1 else 1
    usual = labels if labels > 1 else heads if heads < places else 1

    def cost(columns: int) -> float:
        rows = math.ceil(len(panels) / columns)
        shape = abs(math.log(columns * width / (rows * height) / WIDE))
        return shape + rows * columns / len(panels) + (columns != usual > 1)

    return min(range(step, len(panels) + 1, step), key=cost, default=len(panels))


def place(
    figure: Picture,
    panels: Sequence[Axes],
    columns: int,
    bar: Axes | None,
    lines: int,
    sides: tuple[str, str],
    above: int,
) -> None:
    """Gives every panel its place and the figure its size, by what ticks and titles take as they are drawn.

    `bar` stands right of all panels; there is room for so many `lines` below them, and `above` them. `sides` are the
    names of what the rows and the columns of a panel are.
    """
    unit = figure.sheet.points / POINTS
    margin, line, gap, bar_width = (round(unit * pixels) for pixels in (MARGIN, LINE, GAP, BAR_WIDTH))
    canvas: Any = FigureCanvasAgg(figure)
    renderer = canvas.get_renderer()
    spans = [_span(axes, renderer) for axes in panels]
    lefts, right = _tracks([[span[:3] for span in spans[c::columns]] for c in range(columns)], margin + line, gap)
    rows = range(0, len(panels), columns)
    tops, bottom = _tracks([[span[3:] for span in spans[r : r + columns]] for r in rows], margin + above * line, gap)
    (_, wide, _, _, high, _) = spans[0]
    boxes = {axes: (lefts[i % columns], tops[i // columns], wide, high) for i, axes in enumerate(panels)}
    keys, bottom = bottom + margin // 2, bottom + line
    if bar:
        length = tops[-1] + high - tops[0]
        if figure.sheet.size is None:
            length = max(SHORTEST_BAR, min(LONGEST_BAR, length))
        bar.set_position((0, 0, bar_width / DPI, length / DPI))  # of one inch: how many ticks it has depends on it
        boxes[bar] = right + gap, tops[0], bar_width, length
        right, bottom = right + gap + bar_width + _span(bar, renderer)[2], max(bottom, tops[0] + length)
    width, height = right + margin, bottom + lines * line + margin
    if figure.sheet.size is None:
        width = max(width, NARROWEST)
    figure.set_size_inches(width / DPI, height / DPI)
    for axes, (left, top, w, h) in boxes.items():
        axes.set_position((left / width, 1 - (top + h) / height, w / width, h / height))
    figure.supxlabel(sides[1], x=(lefts[0] + lefts[-1] + wide) / 2 / width, y=1 - keys / height, va="top")
    figure.supylabel(sides[0], x=margin / width, y=1 - (tops[0] + tops[-1] + high) / 2 / height)


def _span(axes: Axes, renderer: RendererAgg) -> tuple[int, int, int, int, int, int]:
    """Pixels left of a panel, of itself and right of it, then above it, of itself and below it."""
    core = axes.get_window_extent(renderer)
    whole = axes.get_tightbbox(renderer, bbox_extra_artists=axes.child_axes) or core  # texts in cells left aside
    ends = core.x0 - whole.x0, core.width, whole.x1 - core.x1, whole.y1 - core.y1, core.height, core.y0 - whole.y0
    before, wide, after, above, high, below = (math.ceil(end - 0.01) for end in ends)
    return before, wide, after, above, high, below


def _tracks(tracks: Sequence[Sequence[tuple[int, ...]]], position: int, gap: int) -> tuple[list[int], int]:
    """Where the panels of columns (or rows) beside each other start, and where the last one ends."""
    starts = []
    for track in tracks:
        before, size, after = (max(parts) for parts in zip(*track, strict=True))
        starts.append(position + before)
        position = starts[-1] + size + after + gap
    return starts, position - gap
