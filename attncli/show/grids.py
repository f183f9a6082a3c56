"""Panels of one size in rows and columns, on a page as large as they need, or in what a page of a given size has."""

import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg

from attncli.config.looks import HeatmapLook
from attncli.show.figures import Picture
from attncli.show.matrices import Panel
from attncli.show.themes import DPI, POINTS, Sheet

Size = tuple[float, float]  # in inches
LARGEST = 18.0  # inches a side for all panels with their labels
CELL, LONG_SIDE, LONGEST_SIDE = 0.34, 3.0, 5.0  # inches: of a cell, of a panel with few cells, and with many
LONGEST_NAMED, LONGEST_NUMBERED = 7.5, 15.0  # of a panel whose tokens or numbers should all be readable
SMALLEST = 0.1  # inches of a panel on a page that is too small for it
SHORTEST_SIDE = 0.3  # of a panel: a single row or column stays visible, if not square
FEW_PANELS, SMALL_SIDE = 4, 1.7  # more panels than these are drawn smaller, down to this side
TOKEN_LINE = 0.14  # from one token to the next
LETTER, NARROW_LETTER = 0.075, 0.065  # a character is about as wide, and at the least in a whole word
WIDE = 1.4  # width to height of a picture that fits a page
GAP, LEAST_GAP = 32, 16  # pixels between panels, and between those of a page of a given size
MARGIN, LINE = 20, 44  # pixels: around all, and for a line of text
BAR_WIDTH, SHORTEST_BAR, LONGEST_BAR = 24, 200, 800  # pixels
NARROWEST = 700  # pixels that a page has for titles
AROUND = 1.0  # inches around all panels, about, for the titles of the page and of its sides, and the colour bar
OWN_BAR = 0.85  # of its width and its ticks beside a panel
TITLE_LINE, TITLE_PAD = 0.15, 0.06  # of a title above a panel
NARROWEST_TITLE = 2.0  # inches, however narrow the panel, where the page may be as large as it needs
FEWEST_LETTERS, BESIDE_LETTERS = 8, 12  # of a line above a panel, and of one beside a row


class LabelWrapper(textwrap.TextWrapper):
    """Ends lines after spaces and underscores."""

    wordsep_re = re.compile(r"(\s+|[^\s_]*_+)")


@dataclass(frozen=True)
class Grid:
    """How many panels stand side by side, their size in inches, and how much larger text is than usual."""

    columns: int
    width: float
    height: float
    unit: float = 1.0

    def letters(self, sheet: Sheet) -> int:
        """How many characters a line above a panel has."""
        width = self.width if sheet.size is not None else max(self.width, NARROWEST_TITLE)
        return max(FEWEST_LETTERS, int(width / LETTER / self.unit))


@dataclass(frozen=True)
class Titles:
    """What is said once for the page, once beside each row in lines, and above each panel in parts."""

    page: Sequence[str]
    beside: Sequence[str]
    panels: Sequence[Sequence[str]]

    def above(self, letters: int) -> list[str]:
        """The text above each panel, in lines of so many characters."""
        texts = ((", ".join(parts), parts) for parts in self.panels)
        return [text if len(text) <= letters else in_lines(parts, letters) for text, parts in texts]


def titles_of(panels: Sequence[Panel], columns: int, sheet: Sheet) -> Titles:
    """The titles of panels in so many columns: all above their panels, unless the page has a given size.

    There what all panels have in common stands in the title of the page, what a column has in common above its first
    panel, and what a row has in common beside it.
    """
    starts = range(0, len(panels), columns)
    page, beside = list[str](), [list[str]() for _ in starts]
    own = [[p.label, *filter(None, [p.place] if sheet.size is None else p.place.split(", "))] for p in panels]
    for parts in list(zip(*own, strict=False)) if sheet.size is not None else ():
        kept = 0
        if len({*parts}) == 1 and not sheet.look.title:
            page.append(parts[0])
        elif all(len({*parts[c::columns]}) == 1 for c in range(columns)):
            kept = columns
        elif all(len({*parts[r : r + columns]}) == 1 for r in starts):
            for row, part in zip(beside, parts[::columns], strict=True):
                row.append(part)
        else:
            continue
        for title, part in zip(own[kept:], parts[kept:], strict=True):
            title.remove(part)
    return Titles(page, [in_lines(row, BESIDE_LETTERS) for row in beside], own)


def in_lines(parts: Iterable[str], letters: int) -> str:
    """A line for each part, or several where it is longer."""
    return "\n".join(line for part in parts for line in LabelWrapper(letters).wrap(part))


def grid_of(panels: Sequence[Panel], look: HeatmapLook, sheet: Sheet) -> Grid:
    """A column for each label or head, or several places side by side where that would be a strip.

    Cells are square unless a side would be too short; with numbers they all have room for one.
    """
    if sheet.size is not None:
        return _grid_on(sheet.size, panels, look, sheet)
    n, m = _largest(panels)
    unit = sheet.points / POINTS
    longest = max(n, m)
    side = min(CELL * longest, LONG_SIDE + 0.012 * longest, LONGEST_SIDE)
    side = max(side * min(1.0, (FEW_PANELS / len(panels)) ** 0.5), min(side, SMALL_SIDE))
    letters = max(len(str(name)) for panel in panels for name in (*panel.queries, *panel.keys))
    if any(isinstance(axis, tuple) for panel in panels for axis in (panel.queries, panel.keys)):
        side = max(side, min(unit * TOKEN_LINE * longest, LONGEST_NAMED))
    if look.annotate == "yes":
        side = max(side, min(CELL * longest, LONGEST_NUMBERED))
    width, height = (max(size * side / longest, SHORTEST_SIDE) for size in (m, n))
    columns = _columns(panels, width + 0.4, height + 0.5)
    room = unit * (0.5 + LETTER * letters)  # for labels
    most = [max(LARGEST / count - room, 0.5) for count in (columns, math.ceil(len(panels) / columns))]
    share = min(1.0, most[0] / width, most[1] / height)
    width, height = (max(size * share, min(size, SHORTEST_SIDE)) for size in (width, height))
    return Grid(columns, width, height, unit)


def _largest(panels: Sequence[Panel]) -> tuple[int, int]:
    return max(len(panel.queries) for panel in panels), max(len(panel.keys) for panel in panels)


def _grid_on(page: Sequence[float], panels: Sequence[Panel], look: HeatmapLook, sheet: Sheet) -> Grid:
    """As many columns on a page of a given size as give the largest cells; panels of about the size they will have."""
    unit, count, labels = sheet.points / POINTS, len(panels), len({panel.label for panel in panels})
    n, m = _largest(panels)
    ticks = max(len(str(name)) for panel in panels for name in panel.queries)
    gap, bar = unit * LEAST_GAP / DPI, unit * OWN_BAR * (look.scale == "panel")

    def tried(columns: int) -> tuple[float, Grid]:
        titles, rows = titles_of(panels, columns, sheet), math.ceil(count / columns)
        beside = ticks + _longest(titles.beside)
        pitch = (page[0] - unit * (AROUND + LETTER * beside)) / columns - gap
        longest = unit * NARROW_LETTER * _longest(titles.above(FEWEST_LETTERS))
        sized = Grid(columns, max(pitch - bar, SMALLEST), SMALLEST, unit)
        above = [len(each.splitlines()) for each in titles.above(sized.letters(sheet))]
        titled = unit * sum(TITLE_LINE * max(above[r : r + columns]) + TITLE_PAD for r in range(0, count, columns))
        height = (page[1] - unit * AROUND - titled) / rows - gap
        lowest = unit * TITLE_LINE * max(len(each.splitlines()) for each in titles.beside)
        across = pitch - (bar if pitch > longest else longest)
        down = height - (0.0 if height > lowest else lowest)
        return min(across / m, down / n), replace(sized, height=max(height, SMALLEST))

    able = [each for each in range(1, count + 1) if each % labels == 0 or labels % each == 0]
    return max(map(tried, able), key=itemgetter(0))[1]


def _longest(texts: Iterable[str]) -> int:
    return max(len(line) for text in texts for line in text.split("\n"))


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
) -> tuple[Size, Size]:
    """Gives every panel its place and the figure its size, by what ticks and titles take as they are drawn.

    `bar` stands right of all panels; there is room for so many `lines` below them, and `above` them. `sides` are the
    names of what the rows and the columns of a panel are. Gives the size of a panel, and of a page with room for all
    texts, in inches.
    """
    unit, page = figure.sheet.points / POINTS, figure.sheet.size or (None, None)
    margin, line, gap, bar_width = (
        round(unit * pixels) for pixels in (MARGIN, LINE, GAP if page[0] is None else LEAST_GAP, BAR_WIDTH)
    )
    canvas: Any = FigureCanvasAgg(figure)
    renderer = canvas.get_renderer()
    spans = [_span(axes, renderer) for axes in panels]
    rows = [[span[3:] for span in spans[r : r + columns]] for r in range(0, len(panels), columns)]
    below = line + lines * line + margin
    tops, high, bottom = _tracks(rows, margin + above * line, gap, page[1], below)
    after, length = margin, tops[-1] + high - tops[0]
    if bar:
        if page[1] is None:
            length = max(SHORTEST_BAR, min(LONGEST_BAR, length))
        bar.set_position((0, 0, bar_width / DPI, length / DPI))  # of one inch: how many ticks it has depends on it
        after += gap + bar_width + _span(bar, renderer)[2]
    lefts, wide, right = _tracks(
        [[span[:3] for span in spans[c::columns]] for c in range(columns)], margin + line, gap, page[0], after
    )
    boxes = {axes: (lefts[i % columns], tops[i // columns], wide, high) for i, axes in enumerate(panels)}
    keys = bottom + margin // 2
    if bar:
        boxes[bar] = right + gap, tops[0], bar_width, length
    width, height = right + after, max(bottom + line, tops[0] + length) + lines * line + margin
    if page[0] is None:
        width = max(width, NARROWEST)
    figure.set_size_inches(width / DPI, height / DPI)
    for axes, (left, top, w, h) in boxes.items():
        axes.set_position((left / width, 1 - (top + h) / height, w / width, h / height))
    figure.supxlabel(sides[1], x=(lefts[0] + lefts[-1] + wide) / 2 / width, y=1 - keys / height, va="top")
    figure.supylabel(sides[0], x=margin / width, y=1 - (tops[0] + tops[-1] + high) / 2 / height)
    return (wide / DPI, high / DPI), (width / DPI, height / DPI)


def _span(axes: Axes, renderer: RendererAgg) -> tuple[int, int, int, int, int, int]:
    """Pixels left of a panel, of itself and right of it, then above it, of itself and below it."""
    core = axes.get_window_extent(renderer)
    whole = axes.get_tightbbox(renderer, bbox_extra_artists=axes.child_axes) or core  # texts in cells left aside
    ends = core.x0 - whole.x0, core.width, whole.x1 - core.x1, whole.y1 - core.y1, core.height, core.y0 - whole.y0
    before, wide, after, above, high, below = (math.ceil(end - 0.01) for end in ends)
    return before, wide, after, above, high, below


def _tracks(
    tracks: Sequence[Sequence[tuple[int, ...]]], start: int, gap: int, page: float | None, after: int
) -> tuple[list[float], float, float]:
    """Where the panels of columns (or rows) beside each other start, their size, and where the last one ends.

    On a page of so many inches they share what is left of it, where so much of it comes after them.
    """
    widest = [[max(parts) for parts in zip(*track, strict=True)] for track in tracks]
    size: float = tracks[0][0][1]
    if page is not None:
        around = start + sum(before + behind + gap for before, _, behind in widest) - gap + after
        size = max((page * DPI - around) / len(tracks), SMALLEST * DPI)
    starts, position = list[float](), float(start)
    for before, _, behind in widest:
        starts.append(position + before)
        position = starts[-1] + size + behind + gap
    return starts, size, position - gap
