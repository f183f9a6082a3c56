"""Panels in rows and columns, on a page that is as large as they need."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.transforms import Bbox

from attncli.show.figures import DPI
from attncli.show.matrices import Panel

LARGEST = 18.0  # inches a side for all panels with their labels
CELL, LONG_SIDE, LONGEST_SIDE = 0.34, 3.0, 5.0  # inches: of a cell, of a panel with few cells, and with many
LONGEST_NAMED, LONGEST_NUMBERED = 7.5, 15.0  # of a panel whose tokens or numbers should all be readable
SHORTEST_SIDE = 0.3  # of a panel: a single row or column stays visible, if not square
FEW_PANELS, SMALL_SIDE = 4, 1.7  # more panels than these are drawn smaller, down to this side
TOKEN_LINE = 0.14  # from one token to the next
LETTER = 0.075  # a character is about as wide
WIDE = 1.4  # width to height of a picture that fits a page
GAP, MARGIN, AXIS_TITLE = 32, 20, 44  # pixels between panels, around all, and for "Keys" and "Queries"
Span = tuple[int, int, int]  # pixels before a panel, of itself, and after it


@dataclass
class Slot:
    """A panel with its size in inches, and whether it has labels of its own: its neighbour's may be the same."""

    panel: Panel
    width: float
    height: float
    queries_labelled: bool
    keys_labelled: bool
    axes: list[Axes] = field(default_factory=list)  # the panel, and its colour bar where it has its own

    @property
    def block(self) -> tuple[int, int]:
        """How many rows and columns of cells one pixel has to show."""
        (n, m) = self.panel.shape
        return math.ceil(n / (self.height * DPI)), math.ceil(m / (self.width * DPI))


def slots(panels: Sequence[Panel], numbers: bool) -> list[list[Slot]]:
    """The panels in rows: a column for each label or head, or several places side by side where that would be a strip.

    `numbers`: every cell should have room for a number.
    """
    sizes = [_size(panel, len(panels), numbers) for panel in panels]
    width, height = (max(sides) for sides in zip(*sizes, strict=True))
    columns = _columns(panels, width + 0.4, height + 0.5)
    count = math.ceil(len(panels) / columns)
    longest = max((len(name) for panel in panels for name in (*(panel.queries or ()), *(panel.keys or ()))), default=0)
    room = 0.5 + LETTER * longest  # for labels
    share = min(1.0, max(LARGEST / columns - room, 0.5) / width, max(LARGEST / count - room, 0.5) / height)
    rows = []
    for start in range(0, len(panels), columns):
        row = []
        for i in range(start, min(start + columns, len(panels))):
            panel, (wide, high) = panels[i], (max(side * share, min(side, SHORTEST_SIDE)) for side in sizes[i])
            left = panels[i - 1] if i > start else None
            below = panels[i + columns] if i + columns < len(panels) else None
            same_queries = left and (left.shape[0], left.queries) == (panel.shape[0], panel.queries)
            same_keys = below and (below.shape[1], below.keys) == (panel.shape[1], panel.keys)
            row.append(Slot(panel, wide, high, not same_queries, not same_keys))
        rows.append(row)
    return rows


def token_step(count: int, length: float) -> int:
    """Every how many of `count` tokens one can be labelled along `length` inches."""
    return max(1, math.ceil(TOKEN_LINE * count / length - 0.05))


def _size(panel: Panel, panels: int, numbers: bool) -> tuple[float, float]:
    """Width and height of one of so many panels, in inches. Cells are square unless a side would be too short."""
    n, m = panel.shape
    longest = max(n, m)
    side = min(CELL * longest, LONG_SIDE + 0.012 * longest, LONGEST_SIDE)
    side = max(side * min(1.0, (FEW_PANELS / panels) ** 0.5), min(side, SMALL_SIDE))
    if panel.queries or panel.keys:
        side = max(side, min(TOKEN_LINE * longest, LONGEST_NAMED))
    if numbers:
        side = max(side, min(CELL * longest, LONGEST_NUMBERED))
    return max(m * side / longest, SHORTEST_SIDE), max(n * side / longest, SHORTEST_SIDE)


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


def place(figure: Figure, rows: Sequence[Sequence[Slot]], bar: Axes | None, legend: Legend | None, title: str) -> None:
    """Gives every panel its place and the figure its size, by what ticks and titles take as they are drawn.

    `bar` stands right of all panels, `legend` below them, and `title` above.
    """
    canvas: Any = FigureCanvasAgg(figure)
    renderer = canvas.get_renderer()
    spans = [[_spans(slot.axes, renderer) for slot in row] for row in rows]
    top = MARGIN + (AXIS_TITLE if title else 0)
    columns = [[row[c][0] for row in spans if c < len(row)] for c in range(len(spans[0]))]
    xs, right = _tracks(columns, MARGIN + AXIS_TITLE)
    ys, bottom = _tracks([[vertical for _, vertical in row] for row in spans], top)
    keys = (xs[0] + xs[-1]) / 2
    boxes: dict[Axes, tuple[int, int, int, int]] = {}  # left, top, width and height in pixels
    if bar:
        across, down = _spans([bar], renderer)
        above = (bottom - top - sum(down)) // 2  # of the bar; below 0 where it is longer than all panels
        boxes[bar] = right + GAP + across[0], top + max(above, 0) + down[0], across[1], down[1]
        ys, bottom = [y + max(-above, 0) for y in ys], bottom + max(-above, 0)
        right += GAP + sum(across)
    for row, y in zip(rows, ys, strict=True):
        for slot, x in zip(row, xs, strict=False):
            panel = slot.axes[0].get_window_extent()
            for axes in slot.axes:
                box = axes.get_window_extent()
                left = x - round(panel.width) // 2 + round(box.x0 - panel.x0)
                boxes[axes] = left, y - round(panel.height) // 2, round(box.width), round(box.height)
    width, height = right + MARGIN, max(bottom + AXIS_TITLE, boxes[bar][1] + sum(down[1:]) if bar else 0) + MARGIN
    if legend:
        box = legend.get_window_extent(renderer)
        width, height = max(width, math.ceil(box.width) + 2 * MARGIN), height + math.ceil(box.height) + GAP // 2
    figure.set_size_inches(width / DPI, height / DPI)
    for axes, (x, y, wide, high) in boxes.items():
        axes.set_position((x / width, 1 - (y + high) / height, wide / width, high / height))
    figure.supxlabel("Keys", x=keys / width, y=1 - (bottom + MARGIN // 2) / height, va="top")
    figure.supylabel("Queries", x=MARGIN / width, y=1 - (ys[0] + ys[-1]) / 2 / height)
    if title:
        figure.suptitle(title, x=MARGIN / width, y=1 - MARGIN / height, ha="left", va="top")


def _spans(axes: Sequence[Axes], renderer: RendererAgg) -> tuple[Span, Span]:
    """How far the first of the axes reaches across and down, and all of them with ticks and titles around it."""
    core = axes[0].get_window_extent(renderer)
    found = [part.get_tightbbox(renderer, bbox_extra_artists=[]) for part in axes]  # texts in cells left aside
    whole = Bbox.union([box for box in found if box])
    across = math.ceil(core.x0 - whole.x0), round(core.width), math.ceil(whole.x1 - core.x1)
    return across, (math.ceil(whole.y1 - core.y1), round(core.height), math.ceil(core.y0 - whole.y0))


def _tracks(tracks: Sequence[Sequence[Span]], start: int) -> tuple[list[int], int]:
    """The middles of columns (or rows) beside each other, and where the last one ends."""
    middles, position = [], start
    for track in tracks:
        before, size, after = (max(parts) for parts in zip(*track, strict=True))
        middles.append(position + before + size // 2)
        position += before + size + after + GAP
    return middles, position - GAP
