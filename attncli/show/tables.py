"""Rich tables of records and of weights, split into blocks to fit the width of the console."""

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from attncli.common.study import Column, Finding, Record
from attncli.errors import printable
from attncli.numbers import MISSING

STRONG, FAINT = Style(bold=True), Style(dim=True)
GAPS = (2, 1)  # spaces between columns; the first that fits
NARROW_NAME = 12  # names are folded down to this width before the columns are split over several tables
MOST_ROWS = 40  # of one table; more are shown with --full only


@dataclass(frozen=True)
class Cells:
    """A column of a table. With `styles`, one for each cell, heading and cells have their own spaces for alignment."""

    heading: str
    cells: Sequence[str]
    styles: Sequence[Style] | None = None

    @property
    def width(self) -> int:
        """The width of its widest line."""
        return max(map(cell_len, [*self.heading.split("\n"), *self.cells]))

    @property
    def texts(self) -> list[Text]:
        """The heading and the cells, ready to print."""
        if self.styles is None:
            return [*map(Text, (self.heading, *self.cells))]
        styles = (Style.null(), *self.styles)
        return [
            Text(text, style, justify="left") for text, style in zip((self.heading, *self.cells), styles, strict=True)
        ]


def cells(columns: Iterable[Column], records: Sequence[Record]) -> list[Cells]:
    """Return the columns of these rows, with `-` for missing values."""
    return [Cells(column.heading, [_cell(column, record.get(column.key)) for record in records]) for column in columns]


def _cell(column: Column, value: object) -> str:
    return MISSING if value is None else printable(column.format(value))


def pick(columns: Sequence[Column], keys: Sequence[str]) -> list[Column]:
    """The columns with these keys, in the order of the keys."""
    by_key = {column.key: column for column in columns}
    return [by_key[key] for key in keys]


def tables(
    names: Sequence[Column], figures: Sequence[Column], records: Sequence[Record], width: int, full: bool = True
) -> Iterator[RenderableType]:
    """Yield tables of the rows, with the columns that name a row on the left, split to fit `width`.

    Unless `full`, rows in the middle of many are left out, and a line below says how many.
    """
    many, half = not full and len(records) > MOST_ROWS, MOST_ROWS // 2
    shown = [*records[:half], *records[-half:]] if many else records
    yield from blocks(cells(names, shown), cells(figures, shown), width)
    if many:
        yield from remark(f"{len(records) - MOST_ROWS} of {len(records)} rows left out; see them with --full")


def blocks(names: Sequence[Cells], columns: Sequence[Cells], width: int) -> Iterator[RenderableType]:
    """Yield one table if all columns fit into `width`, else several with equal shares of the columns.

    Each table has the names on the left. Names are folded if they must be, numbers never.
    """
    room, size, gap = 0, len(columns), GAPS[0]
    widths = list[int]()
    for gap in GAPS:
        room = width - sum(min(name.width, NARROW_NAME) + gap for name in names) + gap
        widths = [column.width + gap for column in columns]
        if sum(widths) <= room:
            break
    for count in range(1, len(columns) + 1):
        size = ceil(len(columns) / count)
        if all(sum(widths[start : start + size]) <= room for start in range(0, len(columns), size)):
            break
    for start in range(0, len(columns), size):
        yield from [Text()] if start else []
        yield _table(names, columns[start : start + size], gap)


def _table(names: Sequence[Cells], columns: Sequence[Cells], gap: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, gap - 1))
    heads, *rows = zip(*(column.texts for column in (*names, *columns)), strict=True)
    for head in heads[: len(names)]:
        table.add_column(head, overflow="fold")
    for head, column in zip(heads[len(names) :], columns, strict=True):
        table.add_column(head, width=column.width, justify="right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def heading(record: Record, formula: str, facts: Sequence[str] = ()) -> Iterator[Text]:
    """Yield a line with the label of a record, its scorer and some facts, and a line with the formula."""
    scorer = "" if record["scorer"] == record["label"] else f" ({printable(record['scorer'])})"
    details = f": {', '.join(facts)}" if facts else ""
    yield Text.assemble((printable(record["label"]), STRONG), f"{scorer}{details}")
    yield Text(printable(formula))


def formulas(records: Sequence[Record], settings: Record) -> Iterator[Text]:
    """The formula of every label, where they share a table."""
    for record in {record["label"]: record for record in records}.values():
        name, formula = heading(record, settings["formulas"][record["label"]])
        yield Text.assemble(name, ": ", formula)


def numbered_layers(records: Sequence[Record]) -> tuple[list[Record], str]:
    """The rows with the numbers of their layers, which are short, and a line that says what these mean, if any."""
    numbers = {name: str(number) for number, name in enumerate(dict.fromkeys(row.get("layer") for row in records))}
    if set(numbers) <= {None}:
        return [*records], ""
    rows = [{**row, "layer": numbers[row["layer"]]} for row in records]
    return rows, "layers: " + ", ".join(f"{number} {name}" for name, number in numbers.items())


def titled(title: str, parts: Iterable[RenderableType]) -> Iterator[RenderableType]:
    """Parts below a title, after an empty line."""
    yield Text()
    yield Text(title, style=STRONG)
    yield from parts


def remark(line: str) -> Iterator[Text]:
    """A faint line, where there is one."""
    if line:
        yield Text(line, style=FAINT)


def findings(found: Sequence[Finding]) -> Iterator[RenderableType]:
    """Yield the findings of a study as a list of sentences."""
    if found:
        yield Text()
        yield Text("What holds", style=STRONG)
    for each in found:
        item = Table.grid(padding=(0, 1, 0, 0))
        item.add_column(width=1)
        item.add_column(overflow="fold")
        item.add_row(Text("-"), Text(printable(each.text)))
        yield item


def recorded(parts: Iterable[RenderableType], width: int) -> Console:
    """A console of this width that prints nowhere and has recorded the parts, to be exported as text or HTML."""
    console = Console(record=True, width=width, file=io.StringIO())
    for part in parts:
        console.print(part)
    return console
