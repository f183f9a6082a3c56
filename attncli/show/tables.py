"""Rich tables from the columns of a study, in as many blocks as the width of the console needs."""

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

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
GAPS = (2, 1)  # cells between columns, the first that fits
NARROW_NAME = 12  # names are folded down to this before the columns are shared out over several tables
MOST_ROWS = 40  # of one table; more are shown with --full only


@dataclass(frozen=True)
class Cells:
    """A column of a table, ready to show."""

    heading: str
    cells: Sequence[str]

    @property
    def width(self) -> int:
        """Its natural width."""
        return max(map(cell_len, [*self.heading.split("\n"), *self.cells]))


def cells(columns: Iterable[Column], records: Sequence[Record]) -> list[Cells]:
    """The columns of these rows; `-` for what a row does not have."""
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
    """The rows with the columns that name them on the left of their figures, in as many tables as `width` needs.

    Unless `full`, rows in the middle of many are left out, and a line below says how many.
    """
    many, half = not full and len(records) > MOST_ROWS, MOST_ROWS // 2
    shown = [*records[:half], *records[-half:]] if many else records
    yield from stacked(cells(names, shown), cells(figures, shown), width)
    if many:
        yield from remark(f"{len(records) - MOST_ROWS} of {len(records)} rows left out; see them with --full")


def stacked(names: Sequence[Cells], columns: Sequence[Cells], width: int) -> Iterator[RenderableType]:
    """One table with all columns where `width` allows it, else several that share them out and repeat the names.

    Names are folded where they must be, numbers never; before the columns are shared out they move closer.
    """
    natural = [name.width for name in names]
    for gap in GAPS:
        gaps = gap * (len(names) - 1)
        room = width - gaps - sum(column.width + gap for column in columns)
        if room >= sum(min(NARROW_NAME, name) for name in natural):
            yield _table(names, shares(natural, room), columns, gap)
            return
    widths = [column.width + gap for column in columns]
    longest = max(NARROW_NAME, width // 4)
    fitted = shares([min(longest, name) for name in natural], max(width - max(widths) - gaps, len(names)))
    for block in balanced(widths, width - gaps - sum(fitted)):
        yield from [Text()] if block.start else []
        yield _table(names, fitted, columns[block.start : block.stop], gap)


def shares(wanted: Sequence[int], room: int) -> list[int]:
    """What each of several columns gets of `room`: what it wants, or as much as any other that wants more."""
    given = [0] * len(wanted)
    for done, index in enumerate(sorted(range(len(wanted)), key=wanted.__getitem__)):
        given[index] = min(wanted[index], room // (len(wanted) - done))
        room -= given[index]
    return given


def _table(names: Sequence[Cells], name_widths: Sequence[int], columns: Sequence[Cells], gap: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, gap - 1))
    for name, width in zip(names, name_widths, strict=True):
        table.add_column(Text(name.heading), width=width, overflow="fold")
    for column in columns:
        table.add_column(Text(column.heading), width=column.width, justify="right", overflow="fold")
    for row in zip(*(column.cells for column in (*names, *columns)), strict=True):
        table.add_row(*map(Text, row))
    return table


def pack(widths: Iterable[int], room: int) -> Iterator[int]:
    """How many columns of these widths go into each block of at most `room` cells, and always at least one."""
    count = used = 0
    for width in widths:
        if count and used + width > room:
            yield count
            count = used = 0
        count, used = count + 1, used + width
    if count:
        yield count


def balanced(widths: Sequence[int], room: int) -> list[range]:
    """The fewest blocks of columns of these widths with at most `room` cells each, none wider than it needs to be."""
    counts = list(pack(widths, room))
    tightest = max(max(widths), sum(widths) // len(counts))
    tighter = (list(pack(widths, less)) for less in range(tightest, room))
    ends = list(accumulate(next((each for each in tighter if len(each) == len(counts)), counts), initial=0))
    return [range(start, end) for start, end in pairwise(ends)]


def heading(record: Record, formula: str, facts: Sequence[str] = ()) -> Iterator[Text]:
    """The label of a record with its scorer and some facts, and the formula on a line of its own."""
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
    """What a study found, as a list of sentences."""
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
