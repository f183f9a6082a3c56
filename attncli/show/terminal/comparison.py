"""Differences between two runs, as tables for the terminal, the notebook and the page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from attncli.common.study import Comparison, Record
from attncli.errors import plain, printable
from attncli.numbers import MISSING, distinct, number, place, several
from attncli.show.terminal.tables import STRONG, Cells, blocks, length_of, remark, titled

LINES = 60  # of a terminal, without --full
MOST = 20  # rows of a table, without --full
MOST_LISTED = 6  # rows of the short lists
INTERVALS = {True: "overlap", False: "apart", None: MISSING}
WEIGHTS = ("label", "layer", "batch", "head")
APART = {
    "js_divergence": "JS divergence\n(bits)",
    "top1_agreement": "top-1\nagreement",
    "max_abs_difference": "max abs\ndifference",
    "output_difference": "output\ndifference",
}


@dataclass(frozen=True)
class Section:
    """A table with its title: words on the left, numbers on the right, and a line about rows that are left out."""

    title: str
    words: Sequence[Cells]
    numbers: Sequence[Cells] = ()
    left_out: str = ""


def sections(found: Comparison, most: int | None = MOST) -> Iterator[Section]:
    """Yield tables of all differences beyond rounding, each with at most `most` rows.

    If `most` is None, all rows are shown, differences by rounding included.
    """
    is_full = most is None
    listed = None if most is None else min(most // 3, MOST_LISTED)
    lists = {"Settings": found.settings, "Environment": found.environment, "Inputs": found.inputs}
    for title, rows in lists.items():
        if rows:
            words = [_words(heading, rows[:listed], heading.lower()) for heading in ("key", "A", "B")]
            yield Section(title, words, (), _left_out(rows, listed))
    if rows := [row for row in found.weights if row["js_divergence"] or row["output_difference"]]:
        rows.sort(key=lambda row: -(row["js_divergence"] or row["output_difference"] or 0.0))
        words = [_words(key, rows[:listed], key) for key in WEIGHTS if rows[0].get(key) is not None]
        if is_full or found.verdict == "different":
            numbers = [Cells(heading, [number(row[key]) for row in rows[:listed]]) for key, heading in APART.items()]
            yield Section("Weights and outputs of A and B", words, numbers, _left_out(rows, listed))
    rows = [row for row in found.differences if is_full or row["verdict"] != "rounding"]
    if found.differences:
        rounded = len(found.differences) - len(rows)
        by_rounding = f"{several(rounded, 'difference')} by rounding alone"
        left_out = "; ".join(filter(None, [_left_out(rows, most), by_rounding * bool(rounded)]))
        yield Section("Differences, largest first", *_differences(rows[:most]), left_out)


def _left_out(rows: Sequence[Record], most: int | None) -> str:
    return several(len(rows) - most, "more row") if most is not None and len(rows) > most else ""


def tables(found: Comparison, width: int, full: bool = False, lines: int = LINES) -> Sequence[RenderableType]:
    """Return the verdict and all differences, in at most `lines` lines of `width` cells unless `full`."""
    if full:
        return list(_parts(found, width, None))
    parts: list[RenderableType] = []
    for most in range(MOST, -1, -1):
        parts = list(_parts(found, width, most))
        if length_of(parts, width) <= lines:
            break
    return parts


def _parts(found: Comparison, width: int, most: int | None) -> Iterator[RenderableType]:
    yield Text(f"A  {printable(found.a)}\nB  {printable(found.b)}")
    yield Text(printable(found.sentence), style=STRONG)
    for note in found.notes:
        yield from remark(note)
    for each in sections(found, most):
        left_out = each.left_out and f"{each.left_out}; see them with --full"
        if not each.words[0].cells:
            yield from remark(f"{each.title}: {left_out}")
        elif each.numbers:
            yield from titled(each.title, [*blocks(each.words, each.numbers, width), *remark(left_out)])
        else:
            lines = [f"{key}: {a} -> {b}" for key, a, b in zip(*(column.cells for column in each.words), strict=True)]
            yield from titled(f"{each.title}, A -> B", [*map(Text, lines), *remark(left_out)])


def _words(heading: str, rows: Sequence[Record], key: str) -> Cells:
    return Cells(heading, [MISSING if row.get(key) is None else printable(plain(row[key])) for row in rows])


def _differences(rows: Sequence[Record]) -> tuple[list[Cells], list[Cells]]:
    values = [[printable(value) for value in distinct(row["a"], row["b"])] for row in rows]
    words = [
        Cells("where", [printable(place(row["where"]) or row["rows"]) for row in rows]),
        Cells("metric", [printable(row["metric"].replace("_", " ")) for row in rows]),
    ]
    numbers = [Cells(side, [pair[index] for pair in values]) for index, side in enumerate("AB")]
    numbers.append(Cells("relative", [f"{row['relative']:.2g}" for row in rows]))
    if any("overlap" in row for row in rows):
        numbers.append(Cells("intervals", [INTERVALS[row.get("overlap")] for row in rows]))
    return words, numbers
