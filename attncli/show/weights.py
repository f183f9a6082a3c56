"""Matrices of weights as tables for the terminal: which rows and keys are shown, in blocks that fit the console.

A row's maximum is marked, masked cells have a dot, and the background shows the weight as heatmaps do.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.color import Color
from rich.console import Console, ConsoleOptions, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from attncli.show import numbers
from attncli.show.numbers import printable
from attncli.show.tables import balanced, pack
from attncli.studies.study import TIE, Names, Tokens

if TYPE_CHECKING:
    from torch import Tensor

MAXIMUM, MASKED, GAP = "*", "·", "..."
FAINT = Style(dim=True)
STRONG = Style(bold=True)
Cell = tuple[str, Style]
CORNER = r"q \ k"
MOST_ROWS = 16  # more queries than this are shortened to the first and last few
ENDS = 4
MOST_BLOCKS = 4  # more blocks of keys than this are shortened to the first and the last
LONGEST_LABEL = 20  # cells; longer names are folded
LONGEST_HEADING = 12
PEAK_HEADINGS = ("max", "at key")
WIDEST_OUTPUT = 8  # features; longer outputs are left to tensors.safetensors
OUTPUT = "output"
RAMP = ((255, 244, 238), (252, 186, 160), (247, 105, 75), (198, 26, 30), (100, 2, 14))  # at weights 0, 1/4, ... 1
STEPS = 50  # finer than the eye can tell, and few enough to be kept
DARK = 33  # from this step on white text has the higher contrast (WCAG 2.2)
BLACK, WHITE = Color.from_rgb(0, 0, 0), Color.from_rgb(255, 255, 255)


@dataclass(frozen=True)
class Layout:
    """The shape of every weight table of one output: the sizes n and m, and what of them is shown where.

    `number_width` is the width of a weight in cells, without its mark.
    """

    n: int
    m: int
    width: int
    number_width: int
    tokens: Tokens
    full: bool = False

    @cached_property
    def rows(self) -> Sequence[int]:
        """The queries shown."""
        if self.full or self.n <= MOST_ROWS:
            return range(self.n)
        return [*range(ENDS), *range(self.n - ENDS, self.n)]

    @cached_property
    def blocks(self) -> list[range]:
        """The keys shown, in the blocks they are shown in."""
        room = self.width - self.label_width
        first_blocks = list(islice(pack(map(self.key_width, range(self.m)), room), MOST_BLOCKS + 1))
        if self.full or len(first_blocks) <= MOST_BLOCKS:
            return balanced([self.key_width(key) for key in range(self.m)], room)
        room = max(room - sum(self.peak_widths), room // 2)
        first = next(pack(map(self.key_width, range(self.m)), room))
        last = next(pack(map(self.key_width, reversed(range(self.m))), room))
        return [range(first), range(self.m - last, self.m)]

    @cached_property
    def label_width(self) -> int:
        """The width of the queries' names."""
        longest = min(LONGEST_LABEL, max(len(CORNER), self.width // 4))
        return max(len(CORNER), *(min(_widest(self.tokens.queries, i), longest) for i in self.rows))

    def key_width(self, key: int) -> int:
        """The width of a key's column, a space on its left included."""
        longest = max(min(LONGEST_HEADING, self.width - self.label_width - 1), 1)
        return 1 + max(self.number_width + 1, min(_widest(self.tokens.keys, key), longest))

    @property
    def peak_widths(self) -> tuple[int, int]:
        """The widths of the two columns that say how large a row's maximum is and where."""
        return self.number_width + 2, 1 + max(len(PEAK_HEADINGS[1]), len(str(self.m - 1)))

    @cached_property
    def shows_peaks(self) -> bool:
        """Whether those two columns stand beside the last block: they do where keys are left out and they fit."""
        last = sum(map(self.key_width, self.blocks[-1]))
        return self.keys_left_out > 0 and self.label_width + last + sum(self.peak_widths) <= self.width

    @cached_property
    def keys_left_out(self) -> int:
        """How many keys stand in no block."""
        return self.m - sum(map(len, self.blocks))

    @property
    def lines(self) -> int:
        """About how many lines one table takes."""
        return len(self.blocks) * (len(self.rows) + 3)


def _widest(names: Names | None, index: int) -> int:
    """The width of a name in cells, the widest over the batch, so that all its tables look alike."""
    return max(cell_len(printable(row[index])) for row in names) if names else len(str(index))


@dataclass(frozen=True)
class Peak:
    """Where a row is largest. `least` is the least weight to be marked: infinite where no key stands out."""

    weight: float
    key: int
    least: float


def row_peaks(weights: "Tensor", valid: "Tensor") -> list[Peak]:
    """The maximum of every row of weights (n, m) over its valid keys.

    Equal maxima all count. None does where all of several valid keys have the same weight, nor where there is no valid
    key: a mark on everything would say nothing.
    """
    inf = float("inf")
    largest, keys = weights.masked_fill(~valid, -inf).max(-1)  # n
    least = largest * (1 - TIE)  # n
    level = (weights.masked_fill(~valid, inf) >= least[:, None]).all(-1) & (valid.sum(-1) != 1)  # n
    least = least.masked_fill(level | ~largest.isfinite(), inf)
    largest = largest.masked_fill(~valid.any(-1), 0.0)
    keys = keys.masked_fill(~valid.any(-1), -1)
    return [Peak(*peak) for peak in zip(largest.tolist(), keys.tolist(), least.tolist(), strict=True)]


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


def output_table(output: "Tensor", queries: Sequence[str], layout: Layout) -> Table | None:
    """Rows of `output` (n, v) for the queries shown, or None where they would not fit: one query needs no names."""
    if output.shape[-1] > WIDEST_OUTPUT:
        return None
    written = numbers.significant if output.shape[-2] == 1 else numbers.statistic  # columns want equal decimals
    rows = [[written(value) for value in row] for row in output[list(layout.rows)].tolist()]
    names = [OUTPUT] if len(rows) == 1 else list(queries)
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    if max(map(cell_len, [OUTPUT, *names])) + sum(width + 2 for width in widths) > layout.width:
        return None
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=len(rows) > 1)
    table.add_column(Text(OUTPUT, style=FAINT), justify="right")
    for feature in range(output.shape[-1]):
        table.add_column(Text(str(feature), style=FAINT), justify="right")
    for name, row in zip(names, rows, strict=True):
        table.add_row(Text(name, style=FAINT if len(rows) == 1 else ""), *row)
    return table


def shade(weight: float) -> Style:
    """Background for a weight, and black or white text, whichever stands out more; none for NaN."""
    if weight != weight:
        return Style.null()
    return _shade(round(min(max(weight, 0.0), 1.0) * STEPS))


@lru_cache(maxsize=STEPS + 1)
def _shade(step: int) -> Style:
    place = step / STEPS * (len(RAMP) - 1)
    index = min(int(place), len(RAMP) - 2)
    low, high = RAMP[index], RAMP[index + 1]
    rgb = [round(a + (b - a) * (place - index)) for a, b in zip(low, high, strict=True)]
    return Style(color=BLACK if step < DARK else WHITE, bgcolor=Color.from_rgb(*rgb))
