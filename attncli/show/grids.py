"""Panels of one size in rows and columns, on a page that is as large as they need."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure

from attncli.show.matrices import Panel
from attncli.show.themes import DPI

LARGEST = 18.0  # inches a side for all panels with their labels
CELL, LONG_SIDE, LONGEST_SIDE = 0.34, 3.0, 5.0  # inches: of a cell, of a panel with few cells, and with many
LONGEST_NAMED, LONGEST_NUMBERED = 7.5, 15.0  # of a panel whose tokens or numbers should all be readable
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
    """How many panels stand side by side, and their size in inches."""

    columns: int
    width: float
    height: float


def grid_of(panels: Sequence[Panel], numbers: bool) -> Grid:
    """A column for each label or head, or several places side by side where that would be a strip.

    Cells are square unless a side would be too short; with `numbers` they all have room for a number.
    """
    n, m = max(len(panel.queries) for panel in panels), max(len(panel.keys) for panel in panels)
    longest = max(n, m)
    side = min(CELL * longest, LONG_SIDE + 0.012 * longest, LONGEST_SIDE)
    side = max(side * min(1.0, (FEW_PANELS / len(panels)) ** 0.5), min(side, SMALL_SIDE))
    letters = max(len(str(name)) for panel in panels for name in (*panel.queries, *panel.keys))
    if any(isinstance(axis, tuple) for panel in panels for axis in (panel.queries, panel.keys)):
        side = max(side, min(TOKEN_LINE * longest, LONGEST_NAMED))
    if numbers:
        side = max(side, min(CELL * longest, LONGEST_NUMBERED))
    width, height = (max(size * side / longest, SHORTEST_SIDE) for size in (m, n))
    columns = _columns(panels, width + 0.4, height + 0.5)
    room = 0.5 + LETTER * letters  # for labels
    most = [max(LARGEST / count - room, 0.5) for count in (columns, math.ceil(len(panels) / columns))]
    share = min(1.0, most[0] / width, most[1] / height)
    return Grid(columns, *(max(size * share, min(size, SHORTEST_SIDE)) for size in (width, height)))


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
    figure: Figure, panels: Sequence[Axes], columns: int, bar: Axes | None, lines: int, sides: tuple[str, str]
) -> None:
    """Gives every panel its place and the figure its size, by what ticks and titles take as they are drawn.

    `bar` stands right of all panels; below them is room for so many `lines`. `sides` are the names of what the rows
    and the columns of a panel are.
    """
    canvas: Any = FigureCanvasAgg(figure)
    renderer = canvas.get_renderer()
    spans = [_span(axes, renderer) for axes in panels]
    lefts, right = _tracks([[span[:3] for span in spans[c::columns]] for c in range(columns)], MARGIN + LINE)
    rows = range(0, len(panels), columns)
    tops, bottom = _tracks([[span[3:] for span in spans[r : r + columns]] for r in rows], MARGIN + LINE)
    (_, wide, _, _, high, _) = spans[0]
    boxes = {axes: (lefts[i % columns], tops[i // columns], wide, high) for i, axes in enumerate(panels)}
    keys, bottom = bottom + MARGIN // 2, bottom + LINE
    if bar:
        length = max(SHORTEST_BAR, min(LONGEST_BAR, tops[-1] + high - tops[0]))
        boxes[bar] = right + GAP, tops[0], BAR_WIDTH, length
        right, bottom = right + GAP + BAR_WIDTH + _span(bar, renderer)[2], max(bottom, tops[0] + length)
    width, height = max(right + MARGIN, NARROWEST), bottom + lines * LINE + MARGIN
    figure.set_size_inches(width / DPI, height / DPI)
    for axes, (left, top, w, h) in boxes.items():
        axes.set_position((left / width, 1 - (top + h) / height, w / width, h / height))
    figure.supxlabel(sides[1], x=(lefts[0] + lefts[-1] + wide) / 2 / width, y=1 - keys / height, va="top")
    figure.supylabel(sides[0], x=MARGIN / width, y=1 - (tops[0] + tops[-1] + high) / 2 / height)


def _span(axes: Axes, renderer: RendererAgg) -> tuple[int, int, int, int, int, int]:
    """Pixels left of a panel, of itself and right of it, then above it, of itself and below it."""
    core = axes.get_window_extent(renderer)
    whole = axes.get_tightbbox(renderer, bbox_extra_artists=axes.child_axes) or core  # texts in cells left aside
    ends = core.x0 - whole.x0, core.width, whole.x1 - core.x1, whole.y1 - core.y1, core.height, core.y0 - whole.y0
    before, wide, after, above, high, below = (math.ceil(end - 0.01) for end in ends)
    return before, wide, after, above, high, below


def _tracks(tracks: Sequence[Sequence[tuple[int, ...]]], position: int) -> tuple[list[int], int]:
    """Where the panels of columns (or rows) beside each other start, and where the last one ends."""
    starts = []
    for track in tracks:
        before, size, after = (max(parts) for parts in zip(*track, strict=True))
        starts.append(position + before)
        position = starts[-1] + size + after + GAP
    return starts, position - GAP
