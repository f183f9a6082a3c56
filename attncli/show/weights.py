"""Weights as tables for the terminal: a row for each batch element, head and query, and the keys as columns.

The output stands beside the weights. A row's maximum is marked, masked cells have a dot, and the background shows the
weight as heatmaps do.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import ceil, inf
from typing import TYPE_CHECKING

from rich.cells import cell_len, chop_cells
from rich.color import Color
from rich.console import RenderableType
from rich.style import Style
from rich.text import Text

from attncli.common.study import TIE, Names, Tokens
from attncli.errors import printable
from attncli.numbers import MISSING, number
from attncli.show.tables import FAINT, STRONG, Cells, blocks

if TYPE_CHECKING:
    from torch import Tensor

MAXIMUM, MASKED, GAP = "*", "·", "..."
MOST_QUERIES, MOST_KEYS = 16, 32  # of longer axes the first and the last are shown
END_QUERIES, END_KEYS = 4, 8
CELL_WIDTH, NAME_CELLS = 7, 2  # estimates: 0.123, a mark and a space; room for the names
LONGEST_HEADING = 12  # longer tokens of keys are folded
WIDEST_OUTPUT = 8  # features; longer outputs are in tensors.safetensors only
RAMP = ((255, 244, 238), (252, 186, 160), (247, 105, 75), (198, 26, 30), (100, 2, 14))  # at weights 0, 1/4, ... 1
STEPS = 50  # finer than the eye can see, and few enough for the cache
DARK = 33  # from this step on white text has the higher contrast (WCAG 2.2)
BLACK, WHITE = Color.from_rgb(0, 0, 0), Color.from_rgb(255, 255, 255)

Index = tuple[int, ...]  # of a matrix: its batch element, its head
Cell = tuple[str, Style]


def shown_queries(n: int, full: bool) -> list[int]:
    """Return the indices of the queries in a table."""
    return _ends(n, MOST_QUERIES, END_QUERIES, full)


def shown_keys(m: int, full: bool) -> list[int]:
    """Return the indices of the keys in a table."""
    return _ends(m, MOST_KEYS, END_KEYS, full)


def _ends(size: int, most: int, end: int, full: bool) -> list[int]:
    return [*range(size)] if full or size <= most else [*range(end), *range(size - end, size)]


def lines_of(weights: "Tensor", output: "Tensor | None", width: int, full: bool) -> int:
    """Return about how many lines one matrix of the weights (..., n, m) needs, with its output."""
    n, m = weights.shape[-2:]
    room = max(width // CELL_WIDTH - NAME_CELLS, 1)
    features = 0 if output is None or output.shape[-1] > WIDEST_OUTPUT else output.shape[-1]
    return len(shown_queries(n, full)) * ceil((len(shown_keys(m, full)) + features) / room)


def weight_tables(
    weights: "Tensor",
    valid: "Tensor",
    output: "Tensor | None",
    places: Sequence[Index],
    tokens: Tokens,
    width: int,
    full: bool,
) -> Iterator[RenderableType]:
    """Yield the tables of a scorer's weights (..., n, m) and outputs (..., n, v) at these places.

    `valid` has the shape of the weights. Batch elements with different tokens of keys have separate tables. A single
    place is not named.
    """
    keys = shown_keys(weights.shape[-1], full)
    if output is not None and output.shape[-1] > WIDEST_OUTPUT:
        output = None
    together = dict[tuple[str, ...], list[Index]]()
    for place in places:
        headings = tuple(_name(tokens.keys, place, key) for key in keys)
        together.setdefault(headings, []).append(place)
    for headings, alike in together.items():
        yield Text()
        axes = [axis for axis in range(weights.ndim - 2) if len({place[axis] for place in places}) > 1]
        names = _name_columns(weights, alike, axes, tokens.queries, full)
        columns = _key_columns(weights, valid, alike, headings, full)
        outputs = [] if output is None else _output_columns(output, alike, full)
        yield from blocks(names, [*columns, *outputs], width)


def _name(names: Names | None, place: Index, index: int) -> str:
    """Return the token at a position in its batch element, or the position if there are no tokens."""
    return printable(names[place[0] if place else 0][index]) if names else str(index)


def _name_columns(
    weights: "Tensor", places: Sequence[Index], axes: Sequence[int], tokens: Names | None, full: bool
) -> list[Cells]:
    """Return the columns with the indices along these axes, such as batch element and head, and with the query."""
    n = weights.shape[-2]
    rows = shown_queries(n, full)
    names = ["batch", "head"] if weights.ndim <= 4 else ["batch", *(f"axis {axis}" for axis in range(1, weights.ndim))]
    lines = [(place, row) for place in places for row in _with_gap(rows, rows)]
    columns = [Cells(names[axis], [str(place[axis]) for place, _ in lines]) for axis in axes]
    if n > 1 or tokens or not columns:
        columns.append(Cells("q", [GAP if row is None else _name(tokens, place, row) for place, row in lines]))
    columns[-1] = Cells(rf"{columns[-1].heading} \ k", columns[-1].cells)
    return columns


def _gap(indices: Sequence[int]) -> int | None:
    """Return the position after the indices left out."""
    return next((i for i in range(1, len(indices)) if indices[i] - indices[i - 1] > 1), None)


def _with_gap(values: Sequence[int], indices: Sequence[int]) -> list[int | None]:
    """Return the values with None where indices are left out."""
    gap = _gap(indices)
    return [*values] if gap is None else [*values[:gap], None, *values[gap:]]


def _key_columns(
    weights: "Tensor", valid: "Tensor", places: Sequence[Index], headings: Sequence[str], full: bool
) -> list[Cells]:
    """Return a column for each key; if some are left out, also the maximum of each row and its key."""
    rows, keys = shown_queries(weights.shape[-2], full), shown_keys(weights.shape[-1], full)
    lines, at_keys = list[list[Cell]](), list[str]()
    for place in places:
        matrix, allowed = weights[place][rows], valid[place][rows]  # n m
        largest, peaks, least = _row_peaks(matrix, allowed)
        numbers, may = matrix[:, keys].tolist(), allowed[:, keys].tolist()
        for i in _with_gap([*range(len(rows))], rows):
            if i is None:
                lines.append([("", FAINT)] * (len(keys) + 1))
                at_keys.append("")
                continue
            figures = [*zip(numbers[i], may[i], strict=True), (largest[i], peaks[i] >= 0)]
            lines.append([_cell(value, valid, value >= least[i]) for value, valid in figures])
            at_keys.append(str(peaks[i]) if least[i] < inf else MISSING)
    has_marks = any(not text.endswith(" ") for line in lines for text, _ in line if text)
    columns = [_shaded(heading, cells, has_marks) for heading, *cells in zip([*headings, "max"], *lines, strict=True)]
    gap = _gap(keys)
    if gap is None:
        return columns[:-1]
    dots = Cells(GAP, [GAP] * len(lines), [FAINT] * len(lines))
    return [*columns[:gap], dots, *columns[gap:], Cells("at key", at_keys)]


def _row_peaks(weights: "Tensor", valid: "Tensor") -> tuple[list[float], list[int], list[float]]:
    """Return the maximum of each row of weights (n, m) over its valid keys, its key, and the least weight to mark.

    Equal maxima are all marked. There is no mark in a row with no valid key, or with several valid keys of equal
    weight: a mark on everything would say nothing.
    """
    none = ~valid.any(-1)
    largest, keys = weights.masked_fill(~valid, -inf).max(-1)  # n
    least = largest * (1 - TIE)  # n
    level = (weights.masked_fill(~valid, inf) >= least[:, None]).all(-1) & (valid.sum(-1) != 1)  # n
    least = least.masked_fill(level | ~largest.isfinite(), inf)
    return largest.masked_fill(none, 0.0).tolist(), keys.masked_fill(none, -1).tolist(), least.tolist()


def _cell(value: float, valid: bool, is_marked: bool) -> Cell:
    """Return a weight with its mark. In an empty row masked keys may have weights; these have a weight and a dot."""
    if not valid and value == 0:
        return f"{MASKED} ", FAINT
    mark = MAXIMUM if is_marked else " " if valid else MASKED
    return number(value, decimals=3) + mark, shade(value) + STRONG if is_marked else shade(value)


def _shaded(heading: str, cells: Sequence[Cell], has_marks: bool) -> Cells:
    """Return a column with cells of equal width. If the table has no marks, cells have no space for them."""
    end = " " if has_marks else ""
    lines = chop_cells(heading, LONGEST_HEADING)
    texts = [text if has_marks else text.rstrip() for text, _ in cells]
    width = max(map(cell_len, [*lines, *texts]))
    padded = [line + end if cell_len(line) < width else line for line in lines]
    title = "\n".join(" " * (width - cell_len(line)) + line for line in padded)
    return Cells(title, [text.rjust(width) for text in texts], [style for _, style in cells])


def _output_columns(output: "Tensor", places: Sequence[Index], full: bool) -> list[Cells]:
    rows = shown_queries(output.shape[-2], full)
    lines = list[list[str]]()
    for place in places:
        numbers = output[place][rows].tolist()
        for i in _with_gap([*range(len(rows))], rows):
            lines.append([""] * output.shape[-1] if i is None else [number(value, decimals=3) for value in numbers[i]])
    return [Cells(f"out {feature}", column) for feature, column in enumerate(zip(*lines, strict=True))]


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
