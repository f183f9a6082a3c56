"""Matrices of weights as tables for the terminal: which rows and keys are shown, in blocks that fit the console.

A row's maximum is marked, masked cells have a dot, and the background shows the weight as heatmaps do.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.color import Color
from rich.console import RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from attncli.common.study import TIE, Names, Tokens
from attncli.errors import printable
from attncli.numbers import MISSING, number
from attncli.show.tables import FAINT, STRONG, balanced, pack, remark

if TYPE_CHECKING:
    from torch import Tensor

MAXIMUM, MASKED, GAP = "*", "·", "..."
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


def weight_tables(
    weights: "Tensor", valid: "Tensor", layout: Layout, title: str = "", batch: int = 0
) -> Iterator[RenderableType]:
    """A table for each block of keys of one matrix (n, m), `valid` of the same shape, below a line and its caption.

    The names are those of a batch element. Cells are read only when their table is asked for.
    """
    rows = list(layout.rows)
    queries = _names(layout.tokens.queries, batch, rows)
    largest, peaks, least = _row_peaks(weights[rows], valid[rows])
    for block in layout.blocks:
        caption = ", ".join(part for part in (title, _span(block, layout.m)) if part)
        yield Text()
        yield from remark(caption)
        names, widths = _names(layout.tokens.keys, batch, block), [layout.key_width(key) - 1 for key in block]
        has_peaks = layout.shows_peaks and block == layout.blocks[-1]
        if has_peaks:
            names, widths = [*names, *PEAK_HEADINGS], [*widths, *(width - 1 for width in layout.peak_widths)]
        table = Table(box=None, padding=(0, 0, 0, 1), pad_edge=False)
        table.add_column(Text(CORNER, style=FAINT), width=layout.label_width, justify="right", overflow="fold")
        for name, width in zip(names, widths, strict=True):
            table.add_column(Text(name, style=STRONG, justify="center"), width=width, overflow="fold")
        shown = slice(block.start, block.stop)
        numbers, allowed = (matrix[:, shown][rows].tolist() for matrix in (weights, valid))
        for i, query in enumerate(queries):
            if i and rows[i] - rows[i - 1] > 1:
                table.add_row(Text(GAP, style=FAINT))
            figures = zip(numbers[i], allowed[i], widths, strict=False)
            cells = [_cell(value, may, value >= least[i], layout.number_width, width) for value, may, width in figures]
            if has_peaks:
                marked = least[i] < math.inf
                cells.append(_cell(largest[i], peaks[i] >= 0, marked, layout.number_width, widths[-2]))
                cells.append(Text((str(peaks[i]) if marked else MISSING).rjust(widths[-1])))
            table.add_row(Text(query, style=STRONG), *cells)
        yield table


def _row_peaks(weights: "Tensor", valid: "Tensor") -> tuple[list[float], list[int], list[float]]:
    """The maximum of every row of weights (n, m) over its valid keys, its key, and the least weight that is marked.

    Equal maxima are all marked. None is where all of several valid keys have the same weight, nor where there is no
    valid key: a mark on everything would say nothing.
    """
    inf, none = float("inf"), ~valid.any(-1)
    largest, keys = weights.masked_fill(~valid, -inf).max(-1)  # n
    least = largest * (1 - TIE)  # n
    level = (weights.masked_fill(~valid, inf) >= least[:, None]).all(-1) & (valid.sum(-1) != 1)  # n
    least = least.masked_fill(level | ~largest.isfinite(), inf)
    return largest.masked_fill(none, 0.0).tolist(), keys.masked_fill(none, -1).tolist(), least.tolist()


def _cell(value: float, valid: bool, marked: bool, size: int, width: int) -> Text:
    """A weight with its mark; a masked key that has a weight all the same (in an empty row) shows both."""
    if not valid and value == 0:
        return Text(f"{MASKED.center(size) + ' ':^{width}}", style=FAINT)
    mark = MAXIMUM if marked else " " if valid else MASKED
    return Text(
        f"{number(value, decimals=3).rjust(size) + mark:^{width}}",
        style=shade(value) + STRONG if marked else shade(value),
    )


def _span(block: range, m: int) -> str:
    if len(block) == m:
        return ""
    first, last = block[0], block[-1]
    return (f"key {first}" if first == last else f"keys {first}-{last}") + f" of {m}"


def _names(names: Names | None, batch: int, indices: Sequence[int]) -> list[str]:
    """What the rows or columns are called in this batch element: tokens, or their indices where there are none."""
    return [printable(names[batch][index]) if names else str(index) for index in indices]


def output_table(output: "Tensor", layout: Layout, batch: int) -> Table | None:
    """Rows of `output` (n, v) for the queries shown, or None where they would not fit: one query needs no names."""
    if output.shape[-1] > WIDEST_OUTPUT:
        return None
    rows = [[number(value) for value in row] for row in output[list(layout.rows)].tolist()]
    names = [OUTPUT] if len(rows) == 1 else _names(layout.tokens.queries, batch, layout.rows)
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
