"""Colours and markers of the labels, and legends that stand below the panels and never on the data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.lines import Line2D

from attncli.show.numbers import printable
from attncli.views.fonts import Typeface
from attncli.views.heatmap.page import INK, Page
from attncli.views.sweep_axes import TICK_POINTS

# Okabe and Ito (2008), "Color universal design", without the yellow, which is too pale for lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
LARGEST, SMALLER = 7.2, 0.2  # points; each label's markers are smaller than those below, which show around them
SAMPLE, SAMPLE_GAP, ENTRY_GAP = 0.32, 0.08, 0.25  # inches: the sample line, and the room after it and after the text
LINE = 0.165
MOST_COLUMNS = 6
Folded = tuple[Sequence[str], dict[str, Any]]  # the lines of an entry, and how its sample is drawn


@dataclass(frozen=True)
class Entry:
    """A line of the legend: its text, and how the sample is drawn (options of Line2D)."""

    text: str
    look: dict[str, Any]


@dataclass(frozen=True)
class Legend:
    """Entries with their texts folded, row by row, in columns of these widths."""

    entries: Sequence[Folded]
    columns: Sequence[float]

    @property
    def height(self) -> float:
        """In inches."""
        return LINE * sum(max(len(lines) for lines, _ in row) for row in self._rows())

    def _rows(self) -> list[Sequence[Folded]]:
        count = len(self.columns)
        return [self.entries[start : start + count] for start in range(0, len(self.entries), count)]

    def draw(self, page: Page, left: float, top: float) -> None:
        """Row by row, from left to right."""
        for row in self._rows():
            for index, (lines, look) in enumerate(row):
                self._draw_entry(page, left + sum(self.columns[:index]), top, lines, look)
            top += LINE * max(len(lines) for lines, _ in row)

    def _draw_entry(self, page: Page, x: float, top: float, lines: Sequence[str], look: dict[str, Any]) -> None:
        height = page.figure.get_figheight()
        y = height - top - LINE / 2
        sample = Line2D([x, x + SAMPLE / 2, x + SAMPLE], [y, y, y], markevery=[1], **look)
        sample.set_transform(page.figure.dpi_scale_trans)
        page.figure.add_artist(sample)
        for index, line in enumerate(lines):
            place = top + LINE * (index + 0.5)
            page.words(x + SAMPLE + SAMPLE_GAP, place, line, TICK_POINTS, va="center_baseline", gid="legend")


def look_of(index: int) -> dict[str, Any]:
    """Colour and marker of the label with this index; markers tell apart what has the same colour."""
    colour = COLOURS[index % len(COLOURS)]
    size = LARGEST - SMALLER * (index % len(MARKERS))
    marker = {"marker": MARKERS[index % len(MARKERS)], "markersize": size, "markeredgewidth": 0.6}
    return {"color": colour, "linewidth": 1.2, "markeredgecolor": "white", **marker}


REFERENCE: dict[str, Any] = {"color": INK, "linewidth": 0.9, "linestyle": (0, (1, 1.5))}


def legend(entries: Sequence[Entry], width: float, face: Typeface) -> Legend:
    """As many columns as the texts allow; texts wider than everything are folded."""
    room = width - SAMPLE - SAMPLE_GAP
    folded = [(fold(printable(entry.text), room, TICK_POINTS, face), entry.look) for entry in entries]
    texts = [max(face.width(line, TICK_POINTS) for line in lines) for lines, _ in folded]
    widths = [SAMPLE + SAMPLE_GAP + text + ENTRY_GAP for text in texts]
    for count in range(min(len(widths), MOST_COLUMNS), 1, -1):
        columns = [max(widths[column::count]) for column in range(count)]
        if sum(columns) <= width + ENTRY_GAP:
            return Legend(folded, columns)
    return Legend(folded, [max(widths)])


def fold(text: str, width: float, points: float, face: Typeface) -> list[str]:
    """The text in lines of at most `width` inches, broken after a space where there is one in the line."""
    lines = [""]
    for char in text:
        line = lines[-1] + char
        if face.width(line.rstrip(), points) <= width or not lines[-1]:
            lines[-1] = line
            continue
        kept, space, rest = lines[-1].rpartition(" ")
        lines[-1:] = [kept + space, rest + char] if kept.strip() else [lines[-1], char]
    return [line.strip() for line in lines]
