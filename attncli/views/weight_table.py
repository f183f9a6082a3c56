"""One matrix of weights as tables for the terminal, a block of keys at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from attncli.show import numbers
from attncli.show.numbers import printable
from attncli.views.layout import CORNER, PEAK_HEADINGS, Layout
from attncli.views.peaks import Peak, row_peaks
from attncli.views.shading import shade

if TYPE_CHECKING:
    from torch import Tensor

MAXIMUM, MASKED, GAP = "*", "·", "..."
FAINT = Style(dim=True)
STRONG = Style(bold=True)
Cell = tuple[str, Style]


@dataclass(frozen=True)
class WeightBlock:
    """One block of keys of one matrix. Its cells are read only when it is printed."""

    layout: Layout
    block: range
    caption: str
    queries: Sequence[str]  # names of the queries shown
    keys: Sequence[str]  # names of the block's keys
    weights: "Tensor"  # n m
    valid: "Tensor"  # n m
    peaks: Sequence[Peak]  # of the queries shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        if self.caption:
            yield Text(self.caption, style=FAINT)
        yield self._table(console)

    def _table(self, console: Console) -> Table:
        """Two columns only, all keys' cells of a row in one text, which rich prints faster."""
        layout = self.layout
        names = [*self.keys, *(PEAK_HEADINGS if self._has_peaks else ())]
        widths = [*map(layout.key_width, self.block), *(layout.peak_widths if self._has_peaks else ())]
        table = Table(box=None, padding=0, pad_edge=False)
        table.add_column(Text(CORNER, style=FAINT), width=layout.label_width, justify="right", overflow="fold")
        table.add_column(headings(names, widths, console), width=sum(widths), overflow="fold")
        for index, cells in enumerate(self._rows(widths)):
            if index and layout.rows[index] - layout.rows[index - 1] > 1:
                table.add_row(Text(GAP, style=FAINT))
            table.add_row(Text(self.queries[index], style=STRONG), cells)
        return table

    @property
    def _has_peaks(self) -> bool:
        return self.layout.shows_peaks and self.block == self.layout.blocks[-1]

    def _rows(self, widths: Sequence[int]) -> Iterator[Text]:
        shown = slice(self.block.start, self.block.stop)
        queries = list(self.layout.rows)
        weights = self.weights[:, shown][queries].tolist()
        valid = self.valid[:, shown][queries].tolist()
        for row, may_attend, peak in zip(weights, valid, self.peaks, strict=True):
            cells = zip(row, may_attend, widths, strict=False)
            parts = [self._cell(weight, ok, weight >= peak.least, width) for weight, ok, width in cells]
            parts += self._peak_cells(peak, widths[-2:]) if self._has_peaks else []
            alike = groupby(parts, key=itemgetter(1))  # rich takes its time for each piece
            yield Text.assemble(*(("".join(text for text, _ in pieces), style) for style, pieces in alike))

    def _cell(self, weight: float, valid: bool, marked: bool, width: int) -> Cell:
        """A weight with its mark; a masked key that has a weight all the same (in an empty row) shows both."""
        size = self.layout.number_width
        if not valid and weight == 0:
            return f" {MASKED.center(size) + ' ':^{width - 1}}", FAINT
        mark = MAXIMUM if marked else " " if valid else MASKED
        text = f"{numbers.weight(weight).rjust(size)}{mark}"
        return f" {text:^{width - 1}}", shade(weight) + STRONG if marked else shade(weight)

    def _peak_cells(self, peak: Peak, widths: Sequence[int]) -> list[Cell]:
        marked = peak.least < float("inf")
        place = str(peak.key) if marked else numbers.MISSING
        return [self._cell(peak.weight, peak.key >= 0, marked, widths[0]), (place.rjust(widths[1]), Style.null())]


def weight_blocks(
    weights: "Tensor", valid: "Tensor", layout: Layout, title: str = "", batch: int = 0
) -> list[WeightBlock]:
    """The blocks of one matrix (n, m), `valid` of the same shape, with the names that batch element has."""
    queries = names_of(layout.tokens.queries, batch, layout.rows)
    rows = list(layout.rows)
    peaks = row_peaks(weights[rows], valid[rows])
    return [
        WeightBlock(
            layout,
            block,
            ", ".join(part for part in (title, _span(block, layout)) if part),
            queries,
            names_of(layout.tokens.keys, batch, block),
            weights,
            valid,
            peaks,
        )
        for block in layout.blocks
    ]


def _span(block: range, layout: Layout) -> str:
    if len(block) == layout.m:
        return ""
    first, last = block[0], block[-1]
    return (f"key {first}" if first == last else f"keys {first}-{last}") + f" of {layout.m}"


def names_of(names: Sequence[Sequence[str]] | None, batch: int, indices: Sequence[int]) -> list[str]:
    """What the rows or columns are called in this batch element: tokens, or their indices where there are none."""
    return [printable(names[batch][index]) if names else str(index) for index in indices]


def headings(names: Sequence[str], widths: Sequence[int], console: Console) -> Text:
    """The names side by side in columns of these widths, a space on each one's left, folded upwards where too long."""
    folded = [_folded(name, width - 1, console) for name, width in zip(names, widths, strict=True)]
    height = max(map(len, folded))
    columns = [[""] * (height - len(lines)) + lines for lines in folded]
    lines = [
        "".join(" " + _centred(text, width - 1) for text, width in zip(line, widths, strict=True))
        for line in zip(*columns, strict=True)
    ]
    return Text("\n".join(lines), style=STRONG)


def _folded(name: str, width: int, console: Console) -> list[str]:
    if cell_len(name) <= width:
        return [name]
    return [line.plain.rstrip() for line in Text(name).wrap(console, width, overflow="fold")]


def _centred(text: str, width: int) -> str:
    gap = max(width - cell_len(text), 0)
    return " " * (gap // 2) + text + " " * (gap - gap // 2)
