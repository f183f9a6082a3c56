"""How many times as fast as the textbook's code of the same scorer the others are, as sentences."""

from collections.abc import Iterator, Sequence

from attncli.runs.records import BenchResult
from attncli.studies.study import Record
from attncli.views.bench_lines import Line, baseline, lines_of
from attncli.views.bench_ratios import NOISY, uncertain
from attncli.views.bench_sizes import changing, measures_of, of_measure, place, size_of


def beside_textbook(result: BenchResult) -> list[str]:
    """One sentence a measure and label, at the largest size; none of the baseline's label, whose ratios say it."""
    measures = measures_of(result.records)
    measured = [row for row in result.comparisons if row["times_as_fast"] is not None]
    return [
        f"{f'{measure}: ' if len(measures) > 1 else ''}{sentence}."
        for measure in measures
        for sentence in _of_measure(of_measure(measured, measure), result.records)
    ]


def _of_measure(comparisons: Sequence[Record], records: Sequence[Record]) -> Iterator[str]:
    against = baseline(records[0])
    titles: dict[str, list[tuple[Line, Record]]] = {}
    for line, rows in lines_of(comparisons).items():
        if (line.label, "textbook") != (against.label, against.implementation):
            titles.setdefault(line.title, []).append((line, max(rows, key=size_of)))
    for title, several in titles.items():
        yield _sentence(title, several, changing(records))


def _sentence(title: str, several: Sequence[tuple[Line, Record]], keys: Sequence[str]) -> str:
    """`additive is 11 ± 1 times as fast as the textbook's additive code at n = 512; compiled it is ...`."""
    (line, first), *rest = several
    code, there = f"the textbook's {title} code", place(first, keys)
    said = [f"{line.name} is {_fast(first)} as {code} at {there}"]
    if unclear := _unclear(first):
        said = [f"{line.name} beside {code} at {there}: {unclear}"]
    for line, row in rest:
        elsewhere = f" at {place(row, keys)}" if place(row, keys) != there else ""
        said.append(f"{line.again} {_unclear(row) or _fast(row)}{elsewhere}")
    return "; ".join(said)


def _fast(row: Record) -> str:
    return f"{uncertain(row['times_as_fast'], row['times_as_fast_ci'])} times as fast"


def _unclear(row: Record) -> str:
    """Where the interval contains 1; else nothing."""
    low, high = row["times_as_fast_ci"]
    if not low <= 1 <= high:
        return ""
    if high > NOISY * low:
        return f"too noisy to tell ({uncertain(row['times_as_fast'], [low, high])})"
    return "not measurably different"
