"""Rich tables from the columns of a study, in as many blocks as the width of the console needs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from attncli.show.numbers import MISSING, printable
from attncli.studies.study import Column, Finding, Record

STRONG, FAINT = "bold", "dim"
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


def tables(names: Sequence[Column], figures: Sequence[Column], records: Sequence[Record], width: int) -> list[Table]:
    """The rows with the columns that name them on the left of their figures: one table, or several if too wide."""
    return stacked(cells(names, records), cells(figures, records), width)


def stacked(names: Sequence[Cells], columns: Sequence[Cells], width: int) -> list[Table]:
    """One table with all columns where `width` allows it, else several that share them out and repeat the names.

    Names are folded where they must be, numbers never; before the columns are shared out they move closer.
    """
    natural = [name.width for name in names]
    for gap in GAPS:
        gaps = gap * (len(names) - 1)
        room = width - gaps - sum(column.width + gap for column in columns)
        if room >= sum(min(NARROW_NAME, name) for name in natural):
            return [_table(names, shares(natural, room), columns, gap)]
    widths = [column.width + gap for column in columns]
    longest = max(NARROW_NAME, width // 4)
    fitted = shares([min(longest, name) for name in natural], max(width - max(widths) - gaps, len(names)))
    blocks = balanced(widths, width - gaps - sum(fitted))
    return [_table(names, fitted, columns[block.start : block.stop], gap) for block in blocks]


def shares(wanted: Sequence[int], room: int) -> list[int]:
    """What each of several columns gets of `room`: what it wants, or as much as any other that wants more."""
    given = [0] * len(wanted)
    for waiting, index in zip(
        range(len(wanted), 0, -1), sorted(range(len(wanted)), key=wanted.__getitem__), strict=True
    ):
        given[index] = min(wanted[index], room // waiting)
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
    for less in range(tightest, room):
        tighter = list(pack(widths, less))
        if len(tighter) == len(counts):
            return _ranges(tighter)
    return _ranges(counts)


def _ranges(counts: Iterable[int]) -> list[range]:
    """Consecutive ranges of these lengths."""
    blocks = [range(0)]
    for count in counts:
        blocks.append(range(blocks[-1].stop, blocks[-1].stop + count))
    return blocks[1:]


def heading(record: Record, formula: str, facts: Sequence[str] = ()) -> Iterator[Text]:
    """The label of a record with its scorer and some facts, and the formula on a line of its own."""
    scorer = "" if record["scorer"] == record["label"] else f" ({printable(record['scorer'])})"
    said = f": {', '.join(facts)}" if facts else ""
    yield Text.assemble((printable(record["label"]), STRONG), f"{scorer}{said}")
    yield Text(printable(formula))


def formulas(records: Sequence[Record], settings: Record) -> Iterator[Text]:
    """The formula of every label, where they share a table."""
    for record in {record["label"]: record for record in records}.values():
        name, formula = heading(record, settings["formulas"][record["label"]])
        yield Text.assemble(name, ": ", formula)


def shortened(records: Sequence[Record], full: bool) -> tuple[list[Record], str]:
    """The rows to show, and a line that says how many are left out."""
    left_out = 0 if full else max(0, len(records) - MOST_ROWS)
    if not left_out:
        return list(records), ""
    half = MOST_ROWS // 2
    return [*records[:half], *records[-half:]], f"{left_out} of {len(records)} rows left out; see them with --full"


def apart(parts: Sequence[RenderableType]) -> Iterator[RenderableType]:
    """Parts with an empty line between them."""
    for index, part in enumerate(parts):
        if index:
            yield Text()
        yield part


def titled(title: str, parts: Sequence[RenderableType]) -> Iterator[RenderableType]:
    """Parts below a title, after an empty line."""
    yield Text()
    yield Text(title, style=STRONG)
    yield from apart(parts)


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
