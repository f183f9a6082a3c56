"""The summary of all scorers and the pairwise comparisons, as one table each or, where they are too wide, several."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from attncli.views import numbers
from attncli.views.layout import balanced
from attncli.views.printable import printable

if TYPE_CHECKING:
    from attncli.results.records import Record

GAPS = (2, 1)  # cells between columns, the first that fits
NARROW_NAME = 12  # names are folded down to this before the columns are shared out over several tables


@dataclass(frozen=True)
class Column:
    """One column of a table, ready to show."""

    heading: str
    cells: Sequence[str]

    @property
    def width(self) -> int:
        """Its natural width."""
        return max(map(cell_len, [*self.heading.split("\n"), *self.cells]))


Format = Callable[[Any], str]
SUMMARY: Sequence[tuple[str, str, Format]] = (
    ("parameters", "params", numbers.count),
    ("score_mean", "score\nmean", numbers.statistic),
    ("score_std", "score\nstd", numbers.statistic),
    ("entropy", "entropy\n(nats)", numbers.statistic),
    ("effective_keys", "effective\nkeys", numbers.statistic),
    ("max_weight", "max\nweight", numbers.statistic),
    ("empty_rows", "empty\nrows", numbers.count),
    ("seconds", "time", numbers.duration),
)
COMPARISON: Sequence[tuple[str, str, Format]] = (
    ("js_divergence", "JS divergence\n(bits)", numbers.statistic),
    ("top1_agreement", "top-1\nagreement", numbers.statistic),
    ("max_abs_difference", "max abs\ndifference", numbers.statistic),
    ("output_difference", "output\ndifference", numbers.statistic),
)


def summary_tables(records: Sequence["Record"], width: int) -> list[Table]:
    """One row per scorer; the scorer's name only where a label does not say it."""
    names = [_names("label", "label", records)]
    if any(record["scorer"] != record["label"] for record in records):
        names.append(_names("scorer", "scorer", records))
    return stacked(names, _numbers(SUMMARY, records), width)


def comparison_tables(comparisons: Sequence["Record"], width: int) -> list[Table]:
    """One row per pair of scorers."""
    return stacked(
        [_names("a", "a", comparisons), _names("b", "b", comparisons)], _numbers(COMPARISON, comparisons), width
    )


def stacked(names: Sequence[Column], columns: Sequence[Column], width: int) -> list[Table]:
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


def _table(names: Sequence[Column], name_widths: Sequence[int], columns: Sequence[Column], gap: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, gap - 1))
    for name, width in zip(names, name_widths, strict=True):
        table.add_column(Text(name.heading), width=width, overflow="fold")
    for column in columns:
        table.add_column(Text(column.heading), width=column.width, justify="right", overflow="fold")
    for cells in zip(*(column.cells for column in (*names, *columns)), strict=True):
        table.add_row(*map(Text, cells))
    return table


def _names(key: str, heading: str, records: Sequence["Record"]) -> Column:
    return Column(heading, [printable(str(record[key])) for record in records])


def _numbers(formats: Sequence[tuple[str, str, Format]], records: Sequence["Record"]) -> list[Column]:
    return [Column(heading, [form(record.get(key)) for record in records]) for key, heading, form in formats]
