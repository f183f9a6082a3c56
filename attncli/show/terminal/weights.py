"""Weights as tables for the terminal: a row for each batch element, head and query, and the keys as columns.

The output is beside the weights. A row's maximum is marked, masked cells have a dot, small weights are dim and large
weights bold.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, TypeAlias

from rich.cells import cell_len, chop_cells
from rich.console import RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from attncli.core.numbers import MISSING, TIE, number
from attncli.errors import printable
from attncli.results import Names, Tokens
from attncli.show.terminal.tables import FAINT, Cells, blocks, ends, ink, remark

if TYPE_CHECKING:
    from torch import Tensor

MAXIMUM, MASKED, GAP = "*", "·", "..."
FEW = 10  # queries or keys of a matrix with more than there may be
LONGEST_HEADING = 12  # longer tokens of keys are folded
WIDEST_OUTPUT = 8  # features; longer outputs are in tensors.safetensors only
SIGNS = {MAXIMUM: "row maximum", MASKED: "masked"}

Index = tuple[int, ...]  # of a matrix: its batch element, its head, its label
Matrix: TypeAlias = "tuple[Tensor, Tensor, Tensor | None]"  # weights (n, m), where valid (n, m), outputs (n, v)
Line = tuple[Index, int | None]  # of a table: a matrix and a query; None where queries are left out
Cell = tuple[str, Style]


def weight_tables(
    matrices: Mapping[Index, Matrix],
    axes: Sequence[str],
    names: Mapping[int, Sequence[object]],
    tokens: Tokens,
    width: int,
    most: int | None,
) -> Iterator[RenderableType]:
    """Yield the tables of these matrices, by their index along `axes`, such as batch, head and label.

    An axis with a single index is not shown unless it has `names` that replace its indices. Batch elements with
    different tokens of keys have separate tables.

    Of more than `most` queries or half as many keys the first and last are shown. A line says how many are left out.
    """
    n, m = next(iter(matrices.values()))[0].shape
    queries, keys = ends(range(n), most, FEW), ends(range(m), None if most is None else most // 2, FEW)
    together = dict[tuple[str, ...], list[Index]]()
    for matrix in matrices:
        headings = tuple(_name(tokens.keys, matrix, key) for key in keys)
        together.setdefault(headings, []).append(matrix)
    for index, (headings, alike) in enumerate(together.items()):
        yield from [Text()] if index else []
        gap = _gap(queries)
        rows = [*queries] if gap is None else [*queries[:gap], None, *queries[gap:]]
        lines = [(matrix, row) for matrix in alike for row in rows]
        varied = [axis for axis in range(len(axes)) if axis in names or len({matrix[axis] for matrix in matrices}) > 1]
        places = list[Cells]()
        for axis in varied:
            indices = [matrix[axis] for matrix, _ in lines]
            places.append(Cells(axes[axis], [str(names[axis][i] if axis in names else i) for i in indices]))
        if n > 1 or tokens.queries or not places:
            cells = [GAP if row is None else _name(tokens.queries, matrix, row) for matrix, row in lines]
            places.append(Cells("q", cells))
        places[-1] = Cells(rf"{places[-1].heading} \ k", places[-1].cells)
        figures = [*_key_columns(matrices, lines, headings, keys), *_output_columns(matrices, lines)]
        yield from blocks(places, figures, width)
    missing = [(n - len(queries), n, "queries"), (m - len(keys), m, "keys")]
    words = " and ".join(f"{count} of {size} {name}" for count, size, name in missing if count)
    yield from remark(f"{words} left out; see them with --full" if words else "")


def most_matrices(n: int, most: int) -> int:
    """Return how many matrices of `n` queries a table of at most `most` rows has."""
    return max(most // len(ends(range(n), most, FEW)), 1)


def _name(names: Names | None, matrix: Index, index: int) -> str:
    """Return the token at a position in its batch element, or the position if there are no tokens."""
    return printable(names[matrix[0]][index]) if names else str(index)


def _gap(indices: Sequence[int]) -> int | None:
    """Return the position in `indices` of the first index after a gap; None if there is no gap."""
    return next((i for i in range(1, len(indices)) if indices[i] - indices[i - 1] > 1), None)


def _key_columns(
    matrices: Mapping[Index, Matrix], lines: Sequence[Line], headings: Sequence[str], keys: Sequence[int]
) -> list[Cells]:
    """Return a column for each key; if some are left out, also the maximum of each row and its key."""
    cells, at_keys = list[list[Cell]](), list[str]()
    for matrix, row in lines:
        if row is None:
            cells.append([("", FAINT)] * (len(keys) + 1))
            at_keys.append("")
            continue
        weights, valid, _ = matrices[matrix]
        values, allowed = weights[row], valid[row]  # m
        largest, peak, least = _peak(values, allowed)
        row_cells = [
            *zip(values[[*keys]].tolist(), allowed[[*keys]].tolist(), strict=True),
            (largest, peak is not None),
        ]
        cells.append([_cell(value, may, value >= least) for value, may in row_cells])
        at_keys.append(str(peak) if least < inf else MISSING)
    has_marks = any(not text.endswith(" ") for line in cells for text, _ in line if text)
    columns = [_shaded(heading, column, has_marks) for heading, *column in zip([*headings, "max"], *cells, strict=True)]
    gap = _gap(keys)
    if gap is None:
        return columns[:-1]
    dots = Cells(GAP, [GAP] * len(lines), [FAINT] * len(lines))
    return [*columns[:gap], dots, *columns[gap:], Cells("at key", at_keys)]


def _peak(weights: "Tensor", valid: "Tensor") -> tuple[float, int | None, float]:
    """Return the maximum of a row of weights (m) over valid keys, the key with it, and the least weight to mark.

    Equal maxima are all marked. There is no mark in a row with no valid key, or with several valid keys of equal
    weight: a mark on everything would say nothing.
    """
    if not valid.any():
        return 0.0, None, inf
    largest, key = weights.masked_fill(~valid, -inf).max(-1)
    least = largest * (1 - TIE)
    is_level = (weights.masked_fill(~valid, inf) >= least).all() and valid.sum() != 1
    has_mark = largest.isfinite() and not is_level
    return largest.item(), int(key), least.item() if has_mark else inf


def _cell(value: float, valid: bool, is_marked: bool) -> Cell:
    """Return a weight with its mark. Masked keys with a weight, possible in rows without a valid key, have a dot."""
    if not valid and value in (0, -inf):
        return f"{MASKED} ", FAINT
    mark = MAXIMUM if is_marked else " " if valid else MASKED
    return number(value, decimals=3) + mark, ink(value)


def _shaded(heading: str, cells: Sequence[Cell], has_marks: bool) -> Cells:
    """Return a column with cells of equal width. If the table has no marks, cells have no space for them."""
    end = " " if has_marks else ""
    lines = chop_cells(heading, LONGEST_HEADING)
    texts = [text if has_marks else text.rstrip() for text, _ in cells]
    width = max(map(cell_len, [*lines, *texts]))
    padded = [line + end if cell_len(line) < width else line for line in lines]
    title = "\n".join(" " * (width - cell_len(line)) + line for line in padded)
    return Cells(title, [text.rjust(width) for text in texts], [style for _, style in cells])


def _output_columns(matrices: Mapping[Index, Matrix], lines: Sequence[Line]) -> list[Cells]:
    """Return a column for each feature of the outputs, or no columns if outputs are not stored or wide."""
    outputs = {index: output for index, (*_, output) in matrices.items() if output is not None}
    features = next((output.shape[-1] for output in outputs.values()), 0)
    if len(outputs) < len(matrices) or features > WIDEST_OUTPUT:
        return []
    texts = [
        [""] * features if row is None else [number(value, decimals=3) for value in outputs[matrix][row].tolist()]
        for matrix, row in lines
    ]
    return [Cells(f"out {feature}", column) for feature, column in enumerate(zip(*texts, strict=True))]


def legend(renderables: Iterable[RenderableType]) -> str:
    """Return the meaning of the signs that occur in tables of weights; an empty string if none does."""
    columns = (column for renderable in renderables if isinstance(renderable, Table) for column in renderable.columns)
    ends = {str(cell).rstrip()[-1:] for column in columns for cell in column.cells}
    return "   ".join(f"{sign} {meaning}" for sign, meaning in SIGNS.items() if sign in ends)
