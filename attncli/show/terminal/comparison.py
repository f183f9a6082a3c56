"""Differences between two runs, as tables for the terminal, the notebook and the page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from rich.console import RenderableType
from rich.text import Text

from attncli.core.numbers import MISSING, distinct, number, row_name, several
from attncli.errors import plain, printable, shortened
from attncli.results import Comparison, Finding, Row
from attncli.show.terminal.tables import (
    SCREEN,
    STRONG,
    Cells,
    blocks,
    findings,
    fit,
    left_out,
    numbered_layers,
    remark,
    titled,
)

MOST = 10  # rows of a table, without --full
BEFORE, MOST_LAYERS = 3, 12  # layers before the first that differs, and in all
ROUNDING = 1e-6  # smaller differences are not shown as numbers
MOST_LISTED = 6  # rows of the short lists
MOST_CELLS = 60  # of a value in them


@dataclass(frozen=True)
class Section:
    """A table with its title: words on the left, numbers on the right, and a line about rows that are left out."""

    title: str
    words: Sequence[Cells]
    numbers: Sequence[Cells] = ()
    left_out: str = ""


def sections(comparison: Comparison, most: int | None = MOST) -> Iterator[Section]:
    """Yield short lists of the differences, and the table of differences beyond rounding, with at most `most` rows.

    If `most` is None, all rows are shown, differences by rounding included.
    """
    listed = None if most is None else min(most, MOST_LISTED)
    lists = {"Settings": comparison.settings, "Inputs": comparison.inputs}
    if most is None:  # the sentence has them, shortened
        lists["In one run alone"] = comparison.only
    for title, rows in lists.items():
        if rows:
            words = [_words(heading, rows[:listed], heading.lower()) for heading in ("key", "A", "B")]
            yield Section(title, words, (), _left_out(rows, listed))
    rows = [row for row in comparison.differences if most is None or row["verdict"] != "rounding"]
    if comparison.differences:
        rounded = len(comparison.differences) - len(rows)
        by_rounding = f"{several(rounded, 'difference')} by rounding alone" if rounded else ""
        left_out = "; ".join(filter(None, [_left_out(rows, most), by_rounding]))
        yield Section("Differences, largest first", *_differences(rows[:most]), left_out)


def _left_out(rows: Sequence[Row], most: int | None) -> str:
    return several(len(rows) - most, "more row") if most is not None and len(rows) > most else ""


def tables(comparison: Comparison, width: int, lines: int | None = SCREEN) -> Sequence[RenderableType]:
    """Return the verdict and all differences, in at most `lines` lines of `width` cells unless it is None."""
    return fit(partial(_parts, comparison, width), (), width, lines, [MOST])


def _parts(comparison: Comparison, width: int, most: int | None) -> Iterator[RenderableType]:
    yield Text(f"A  {printable(comparison.a)}\nB  {printable(comparison.b)}")
    yield Text(printable(comparison.sentence), style=STRONG)
    for note in comparison.notes:
        yield from remark(note)
    for section in sections(comparison, most):
        left_out = section.left_out and f"{section.left_out}; see them with --full"
        if section.numbers:
            table = blocks(section.words, section.numbers, width) if section.words[0].cells else []
            yield from titled(section.title, [*table, *remark(left_out)])
        else:
            lines = list[str]()
            for name, *pair in zip(*(column.cells for column in section.words), strict=True):
                a, b = pair if most is None else (shortened(value, MOST_CELLS) for value in pair)
                lines.append(f"{name}: {a} -> {b}")
            yield from titled(f"{section.title}, A -> B", [*map(Text, lines), *remark(left_out)])


def _words(heading: str, rows: Sequence[Row], key: str) -> Cells:
    return Cells(heading, [MISSING if row.get(key) is None else printable(plain(row[key])) for row in rows])


def _differences(rows: Sequence[Row]) -> tuple[list[Cells], list[Cells]]:
    values = [[printable(value) for value in distinct(row["a"], row["b"])] for row in rows]
    words = [
        Cells("where", [printable(row_name(row["where"]) or row["rows"]) for row in rows]),
        Cells("metric", [printable(row["metric"].replace("_", " ")) for row in rows]),
    ]
    numbers = [Cells(side, [pair[index] for pair in values]) for index, side in enumerate("AB")]
    numbers.append(Cells("relative", [_relative(row) for row in rows]))
    return words, numbers


def _relative(row: Row) -> str:
    """Return the relative difference as text, or `null in A` where one value is null; shapes and words have none."""
    absent = [side for side in ("a", "b") if row[side] is None]
    if absent:
        return f"null in {absent[0].upper()}"
    return MISSING if isinstance(row["a"], str) else f"{row['relative']:.2g}"


def layers(
    records: Sequence[Row], sentences: Sequence[Finding], notes: Sequence[str], width: int, is_full: bool
) -> Iterator[RenderableType]:
    """Yield notes, a table of the layers of two captures around the first that differs, and the findings, last."""
    for note in [*notes, numbered_layers([], {row["layer"]: i for i, row in enumerate(records)}, 0)[1]]:
        yield from remark(note)
    numbered = [*enumerate(records)]
    first = next((index for index, row in numbered if row["differs"]), 0)
    around = numbered if is_full else numbered[max(0, first - BEFORE) :][:MOST_LAYERS]

    def column(key: str) -> Cells:
        """Return a column of the layers, with small numbers as `<1e-06`."""
        values = [row[key] for _, row in around]
        small = [isinstance(value, float) and value < ROUNDING for value in values]
        return Cells(key, [f"<{ROUNDING:g}" if tiny else number(of, 2) for of, tiny in zip(values, small, strict=True)])

    inputs = "queries, keys, values"  # in short
    differs = Cells("differs", [", ".join(row["differs"]).replace(inputs, "inputs") or MISSING for _, row in around])
    names = [Cells("layer", [str(index) for index, _ in around]), differs, column("kind"), column("right")]
    yield from titled("Layers", blocks(names, [column("inherited"), column("added")], width))
    yield from left_out(len(records) - len(around), len(records), "layers")
    yield from findings(sentences)
