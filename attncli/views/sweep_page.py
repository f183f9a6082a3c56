"""A picture with panels side by side: a title above, legends below, and what it could not show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from attncli.show.numbers import printable
from attncli.studies.study import Record
from attncli.views.fonts import Typeface
from attncli.views.heatmap.frames import Box
from attncli.views.heatmap.page import Page
from attncli.views.sweep_axes import MARGIN_FACTOR, TITLE_POINTS, Axis, heads_axis, sizes_axis
from attncli.views.sweep_legend import Legend, fold
from attncli.views.sweep_tables import same

MARGIN = 0.12
TITLE_LINE = 0.19
ABOVE_PANEL, BELOW_PANEL, LEFT_OF_PANEL = 0.3, 0.56, 0.72  # titles, ticks and axis titles
DODGE = 0.5  # the part of a head's place that the labels share out among them


@dataclass(frozen=True)
class Drawn:
    """The figure, and what its reader should know."""

    figure: Figure
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Row:
    """Panels of one height side by side, each `widths` inches wide."""

    widths: Sequence[float]
    height: float

    @property
    def width(self) -> float:
        """Of the whole page."""
        return sum(self.widths) + LEFT_OF_PANEL * len(self.widths) + 2 * MARGIN

    def boxes(self, top: float) -> list[Box]:
        """Where the panels stand, with their titles from `top` on."""
        boxes, left = [], MARGIN
        for width in self.widths:
            boxes.append(Box(left + LEFT_OF_PANEL, top + ABOVE_PANEL, width, self.height))
            left += LEFT_OF_PANEL + width
        return boxes


def open_page(row: Row, title: str, legends: Sequence[Legend], face: Typeface) -> tuple[Page, list[Box], float]:
    """The page with its title, the boxes of the panels, and where the legends begin."""
    lines = fold(title, row.width - 2 * MARGIN, TITLE_POINTS, face)
    top = MARGIN + TITLE_LINE * len(lines)
    below = top + ABOVE_PANEL + row.height + BELOW_PANEL
    page = Page(row.width, below + max(legend.height for legend in legends) + MARGIN, face)
    for index, line in enumerate(lines):
        page.words(MARGIN, MARGIN + TITLE_LINE * (index + 0.5), line, TITLE_POINTS, va="center_baseline", gid="title")
    return page, row.boxes(top), below


def x_axis(records: Sequence[Record], real: bool, width: float, page: Page) -> Axis:
    """d, or the heads of real tensors."""
    if real:
        return heads_axis([record["head"] for record in records], width, page)
    return sizes_axis([record["d"] for record in records], width, page)


def offset(curve: Sequence[Record], real: bool, index: int, count: int) -> float:
    """How far aside the label with this index stands: labels of one head, or of the only d, stand side by side."""
    return DODGE * ((index + 0.5) / count - 0.5) if real or same(curve, "d") else 0.0


def x_values(records: Sequence[Record], real: bool, aside: float) -> list[float]:
    """Where the points of a label stand."""
    if real:
        return [(record["head"] or 0) + aside for record in records]
    return [record["d"] * MARGIN_FACTOR**aside for record in records]


def lost(missing: Mapping[str, Sequence[Record]], real: bool, figure: str) -> list[str]:
    """A note of the labels and points that a panel cannot show."""
    places = [f"{printable(label)} ({_places(records, real)})" for label, records in missing.items() if records]
    return [f"not drawn, as not a positive number: {figure} of {', '.join(places)}"] if places else []


def _places(records: Sequence[Record], real: bool) -> str:
    if real and records[0]["head"] is None:
        return "all pairs"
    return ", ".join(f"head {record['head']}" if real else f"d = {record['d']}" for record in records)
