"""What the tables of the studies against d share: one block a label, with its heading, and lines of text below."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from attncli.runs.records import SweepResult
from attncli.show.numbers import finite, printable, significant
from attncli.show.tables import Cells
from attncli.show.weights import FAINT, STRONG
from attncli.studies.study import Record

MOST_ROWS = 40  # of one table; more are shown with --full only
Format = Callable[[Any], str]
Columns = Sequence[tuple[str, str, Format]]


def by_label(records: Sequence[Record]) -> dict[str, list[Record]]:
    """The records of each label, in their order."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record["label"], []).append(record)
    return found


def columns(wanted: Columns, records: Sequence[Record]) -> list[Cells]:
    """Columns of numbers: key, heading and format of each."""
    return [Cells(heading, [form(record.get(key)) for record in records]) for key, heading, form in wanted]


def labels(records: Sequence[Record]) -> list[Cells]:
    """Which row is which; the formulas below say which scorer it is."""
    return [Cells("label", [printable(record["label"]) for record in records])]


def heading(result: SweepResult, label: str, records: Sequence[Record], facts: Sequence[str] = ()) -> Iterator[Text]:
    """The label with its scorer and whatever there is to say, and the formula on a line of its own."""
    said = f": {', '.join(facts)}" if facts else ""
    yield Text.assemble((printable(label), STRONG), f"{_scorer(records)}{said}")
    yield Text(printable(result.formulas[label]))


def _scorer(records: Sequence[Record]) -> str:
    """The scorer in brackets, where the label does not say it."""
    scorer, label = records[0]["scorer"], records[0]["label"]
    return "" if scorer == label else f" ({printable(scorer)})"


def formulas(result: SweepResult) -> Iterator[Text]:
    """The formula of every label, where they share a table."""
    for label, records in by_label(result.records).items():
        yield Text.assemble((printable(label), STRONG), f"{_scorer(records)}: {printable(result.formulas[label])}")


def scale(records: Sequence[Record]) -> str:
    """The scorer's own factor, at the first and the last d where it depends on it."""
    scales = finite(record.get("scale") for record in records)
    if not scales:
        return "no scale"
    first, last = significant(scales[0]), significant(scales[-1])
    if first == last:
        return f"scale {first}"
    return f"scale {first} at d = {records[0]['d']} to {last} at d = {records[-1]['d']}"


def shortened(records: Sequence[Record], full: bool) -> tuple[list[Record], str]:
    """The rows to show, and a line that says how many are left out."""
    left_out = 0 if full else max(0, len(records) - MOST_ROWS)
    if not left_out:
        return list(records), ""
    half = MOST_ROWS // 2
    return [*records[:half], *records[-half:]], f"{left_out} of {len(records)} rows left out; see them with --full"


def same(records: Sequence[Record], key: str) -> bool:
    """Whether all records have the same value."""
    return len(list(groupby(records, key=lambda record: record[key]))) <= 1


def stacked_parts(tables: Sequence[RenderableType]) -> Iterator[RenderableType]:
    """Tables with a line between them."""
    for index, table in enumerate(tables):
        if index:
            yield Text()
        yield table


def faint(line: str) -> Iterator[Text]:
    """A remark, where there is one."""
    if line:
        yield Text(line, style=FAINT)


def findings(sentences: Sequence[str]) -> Iterator[RenderableType]:
    """What holds, as a list of plain sentences."""
    if sentences:
        yield Text()
        yield Text("What holds", style=STRONG)
    for sentence in sentences:
        yield _bullet(sentence)


def _bullet(sentence: str) -> Table:
    item = Table.grid(padding=(0, 1, 0, 0))
    item.add_column(width=1)
    item.add_column(overflow="fold")
    item.add_row(Text("-"), Text(sentence))
    return item
