"""What differs between two runs, as tables for the terminal and as Markdown for a pull request."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from attncli.errors import plain, printable
from attncli.show.numbers import MISSING, several, significant, statistic
from attncli.show.tables import STRONG, Cells, remark, stacked, titled
from attncli.studies.study import Comparison, Record

DIGITS = (4, 6, 9, 17)  # the first that tell two numbers apart
FULL = "; see them with --full"
DIGEST = 8  # of its characters
MOST_NAMED = 3  # figures that are left out
TITLES = {
    "records": "Figures",
    "comparisons": "Figures of comparisons",
    "heads": "Figures by batch element and head",
    "head_comparisons": "Figures of comparisons by batch element and head",
}
MOST = {"records": 40, "comparisons": 20}  # rows that are shown without `full`; of others fewer
MOST_OTHERS = 10
INTERVALS = {True: "overlap", False: "apart", None: MISSING}
APART = {
    "js_divergence": "JS divergence\n(bits)",
    "top1_agreement": "top-1\nagreement",
    "max_abs_difference": "max abs\ndifference",
    "output_difference": "output\ndifference",
}
MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~&$])")


@dataclass(frozen=True)
class Section:
    """A table with its title: words on the left, numbers on the right, and below it what is left out."""

    title: str
    words: Sequence[Cells]
    numbers: Sequence[Cells] = ()
    left_out: str = ""


def sections(found: Comparison, full: bool = False) -> Iterator[Section]:
    """All that differs; without `full`, by more than rounding, and of many rows those that differ most."""
    figures, tensors = (
        [row for row in rows if full or row["verdict"] != "rounding"] for rows in (found.figures, found.tensors)
    )
    for title, changes in (("Settings", found.settings), ("Environment", found.environment)):
        if changes:
            yield Section(title, [_words("key", changes, "key"), _words("A", changes, "a"), _words("B", changes, "b")])
    if inputs := [row for row in found.inputs if not row["same"]]:
        sides = [Cells(side.upper(), [_fingerprint(row[side]) for row in inputs]) for side in "ab"]
        yield Section("Inputs", [_words("input", inputs, "name"), *sides])
    if found.only:
        shown, left_out = _most(found.only, lambda row: 0.0, MOST_OTHERS, full)
        yield Section("Rows of one run alone", [_words("run", shown, "run"), *_places(shown)], [], left_out)
    for kind, title in TITLES.items():
        if rows := [row for row in figures if row["rows"] == kind]:
            shown, left_out = _most(rows, lambda row: row["relative"], MOST.get(kind, MOST_OTHERS), full)
            yield Section(title, [*_places(shown), _figure_names(shown)], _figures(shown), left_out)
    differs = full or found.verdict == "different"
    if rows := [
        row for row in found.weights if differs and (row["max_abs_difference"] or row["output_difference"] != 0)
    ]:
        shown, left_out = _most(
            rows, lambda row: row["js_divergence"] or row["output_difference"] or 0.0, MOST_OTHERS, full
        )
        words = [_words(key, shown, key) for key in ("label", "layer", "batch", "head") if rows[0].get(key) is not None]
        numbers = [Cells(name, [statistic(row[key]) for row in shown]) for key, name in APART.items()]
        yield Section("Weights and outputs of A and B", words, numbers, left_out)
    if tensors and (full or not (found.weights or figures)):
        shown, left_out = _most(tensors, lambda row: row["relative"], MOST_OTHERS, full)
        keys = {"max_abs_difference": "max abs\ndifference", "relative": "relative"}
        numbers = [Cells(name, [statistic(row[key]) for row in shown]) for key, name in keys.items()]
        yield Section("Tensors", [_words("name", shown, "name")], numbers, left_out)


def by_rounding(found: Comparison, full: bool) -> str:
    """How much is left out that differs by rounding alone."""
    counts = {
        name: sum(row["verdict"] == "rounding" for row in rows)
        for name, rows in (("figure", found.figures), ("tensor", found.tensors))
    }
    named = " and ".join(several(count, name) for name, count in counts.items() if count)
    figures = list(dict.fromkeys(row["figure"] for row in found.figures if row["verdict"] == "rounding"))
    which = f" ({', '.join(figures[:MOST_NAMED])}{', ...' if len(figures) > MOST_NAMED else ''})" if figures else ""
    verb = "differs" if sum(counts.values()) == 1 else "differ"
    return f"{named} left out, which {verb} by no more than rounding{which}" if named and not full else ""


def tables(found: Comparison, width: int, full: bool = False) -> Iterator[RenderableType]:
    """The verdict, and all that differs, on a console `width` cells wide."""
    yield Text(f"A  {printable(found.a)}\nB  {printable(found.b)}")
    yield Text(printable(found.sentence), style=STRONG)
    for note in found.notes:
        yield from remark(note)
    for section in sections(found, full):
        parts = list(stacked(section.words, section.numbers, width)) if section.numbers else [_folded(section.words)]
        yield from titled(section.title, [*parts, *remark(section.left_out and section.left_out + FULL)])
    if left_out := by_rounding(found, full):
        yield Text()
        yield from remark(left_out + FULL)


def markdown(found: Comparison, full: bool = False) -> str:
    """The same for GitHub: labels and values are text there, whatever characters they have."""
    verdict, _, rest = found.sentence.partition(":")
    lines = [f"**{_escaped(verdict)}**:{_escaped(rest)}" if rest else f"**{_escaped(verdict)}**", ""]
    lines += [
        f"- A: {_escaped(found.a)}",
        f"- B: {_escaped(found.b)}",
        *(f"- {_escaped(note)}" for note in found.notes),
    ]
    for section in sections(found, full):
        columns = [*section.words, *section.numbers]
        rule = ["---"] * len(section.words) + ["---:"] * len(section.numbers)
        rows = [[each.heading for each in columns], *zip(*(each.cells for each in columns), strict=True)]
        head, *body = ["| " + " | ".join(_escaped(" ".join(cell.split("\n"))) for cell in row) + " |" for row in rows]
        lines += ["", f"#### {section.title}", "", head, f"| {' | '.join(rule)} |", *body]
        lines += ["", f"{section.left_out}."] if section.left_out else []
    lines += ["", f"{left_out}."] if (left_out := by_rounding(found, full)) else []
    return "\n".join(lines) + "\n"


def distinct(a: Any, b: Any) -> tuple[str, str]:
    """Two values with as many digits as tell them apart; `-` for none."""
    if isinstance(a, float) and isinstance(b, float):
        pairs = [(significant(a, digits), significant(b, digits)) for digits in DIGITS]
        return next((pair for pair in pairs if pair[0] != pair[1]), pairs[-1])
    first, second = (significant(each) if isinstance(each, float) else _word(each) for each in (a, b))
    return first, second


def _word(value: Any) -> str:
    return MISSING if value is None else printable(plain(value))


def _words(heading: str, rows: Sequence[Record], key: str) -> Cells:
    return Cells(heading, [_word(row.get(key)) for row in rows])


def _figure_names(rows: Sequence[Record]) -> Cells:
    """The figures in words, between which a narrow column breaks."""
    names = [APART.get(row["figure"], row["figure"].replace("_", " ")) for row in rows]
    return Cells("figure", [printable(" ".join(name.split())) for name in names])


def _places(rows: Sequence[Record]) -> list[Cells]:
    """The columns that say which rows these are."""
    keys = dict.fromkeys(key for row in rows for key in row["where"])
    return [Cells(key, [_word(row["where"].get(key)) for row in rows]) for key in keys]


def _figures(rows: Sequence[Record]) -> list[Cells]:
    values = [distinct(row["a"], row["b"]) for row in rows]
    signed = [MISSING if row["difference"] is None else f"{row['difference']:+.3g}" for row in rows]
    ratios = [MISSING if row["ratio"] is None else significant(row["ratio"]) for row in rows]
    columns = [Cells(side, [pair[index] for pair in values]) for index, side in enumerate("AB")]
    columns += [Cells("B - A", signed), Cells("B / A", ratios)]
    has_intervals = any("overlap" in row for row in rows)
    intervals = Cells("intervals", [INTERVALS[row.get("overlap")] for row in rows])
    return [*columns, intervals] if has_intervals else columns


def _fingerprint(print_: Record | None) -> str:
    if print_ is None:
        return MISSING
    return f"{print_['dtype']} {'x'.join(map(str, print_['shape']))} {print_['sha256'][:DIGEST]}"


def _most(
    rows: Sequence[Record], size: Callable[[Record], float], most: int, full: bool
) -> tuple[Sequence[Record], str]:
    """The rows that differ most, in their order, and how many are left out."""
    if full or len(rows) <= most:
        return rows, ""
    chosen = sorted(sorted(range(len(rows)), key=lambda index: -size(rows[index]))[:most])
    return [rows[index] for index in chosen], f"{len(rows) - most} of {len(rows)} rows left out, which differ less"


def _folded(columns: Sequence[Cells]) -> Table:
    """A table of words alone, which are folded where they must be."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(Text(column.heading), overflow="fold")
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*map(Text, row))
    return table


def _escaped(text: str) -> str:
    r"""Text that Markdown shows as it is: `a\|b`."""
    return MARKUP.sub(r"\\\1", printable(text))
