"""Terminal tables of the study `bench`: times by size, and all measurements at the largest size."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from attncli.core.numbers import MISSING, duration
from attncli.errors import listed, printable
from attncli.results import Result, Row
from attncli.show.terminal.tables import Cells, blocks, cells, formulas, pick, remark, titled
from attncli.show.terminal.tables import tables as record_tables
from attncli.studies.bench.columns import COLUMNS, COMPARISONS, SIZES
from attncli.studies.bench.rows import Line, changing, conditions, growth, row_size, rows_by_line, size_words

NAMES = pick(COLUMNS, ["label", "implementation", "measure"])
(TIME,) = pick(COLUMNS, ["seconds"])
DETAILS = pick(COLUMNS, ["seconds_iqr", "peak_bytes", "gflops", "gbytes_per_second", "ratio", "ratio_ci"])
MEASURES = {
    "scores": "scores (from queries and keys)",
    "weights": "weights (and output)",
    "output": "output (without weights)",
}
NOISY = " !"
LEGEND = (
    "time: median per call. IQR: interquartile range of the time. memory: peak without the inputs, results included. "
    "ratio: time / time of {} in the same round; if its interval contains 1, there is no measurable difference."
)


def tables(result: Result, *, width: int, most: int | None) -> Iterator[RenderableType]:
    """Yield for each measure the times by size, and all metrics at the largest size.

    After the measures follow the speed relative to the textbook's code, the rows without a time, and the formulas.
    """
    records, axes = result.records, changing(result.records)
    yield Text(", ".join(conditions(result, records)))
    yield Text(LEGEND.format(printable(listed(list(dict.fromkeys(row["baseline"] for row in records))))))
    if any(record.get("noisy") for record in records):
        yield Text(f"{NOISY.strip()}: noisy, since a larger size took less time; repeat it on a quiet machine.")
    for measure in dict.fromkeys(record["measure"] for record in records):
        rows = [record for record in records if record["measure"] == measure]
        sizes = sorted(set(map(row_size, rows)))
        if len(sizes) > 1:
            yield from titled(f"{MEASURES[measure]}, time by size", _by_size(rows, axes, width))
            if len(axes) == 1:
                yield from remark(
                    f"power of {axes[0]}: the time grows like {axes[0]}^power over the larger half of the sizes"
                )
        lines = rows_by_line(_at_largest(rows))
        first = [record for record, *_ in lines.values()]
        title = f"{MEASURES[measure]}, {size_words(first[0], axes)}"
        measured = [Cells(TIME.heading, [_time(record) for record in first]), *cells(DETAILS, first)]
        yield from titled(title, blocks(_names(lines), measured, width))
        yield from remark("memory and ratios at other sizes: --full" if len(sizes) > 1 else "")
    beside = _at_largest([row for row in result.comparisons if row["times_as_fast"] is not None])
    if beside:
        figures = pick(COMPARISONS, [*changing(beside, SIZES), "times_as_fast", "times_as_fast_ci"])
        yield from titled("Compared with the textbook's code", record_tables(NAMES, figures, beside, width, most))
    missing = _at_largest([row for row in records if row["status"] != "timed"])
    if missing:
        places = [f"{' '.join(row[name.key] for name in NAMES)}, {size_words(row, axes)}" for row in missing]
        texts = [f"{at}: {row['status']}: {row['reason']}" for at, row in zip(places, missing, strict=True)]
        yield from titled("Not timed", map(Text, map(printable, texts)))
    yield from formulas(result)


def _at_largest(records: Sequence[Row]) -> list[Row]:
    """Return the records at the largest size."""
    largest = max(map(row_size, records), default=())
    return [record for record in records if row_size(record) == largest]


def _by_size(records: Sequence[Row], axes: Sequence[str], width: int) -> Iterator[RenderableType]:
    """Yield tables with a column for each size, and the growth of the time if only one size changes."""
    lines = rows_by_line(records)
    times = [
        {row_size(record): _time(record) if record["seconds"] else record["status"] for record in of_line}
        for of_line in lines.values()
    ]
    columns = [
        Cells(size_words(record, axes).replace(", ", "\n"), [texts.get(size, MISSING) for texts in times])
        for size, record in sorted({row_size(record): record for record in records}.items())
    ]
    if len(axes) == 1:
        powers = [growth(of_line, axes[0]) for of_line in lines.values()]
        texts = [MISSING if power is None else f"{power:.2f}" for power in powers]
        columns.append(Cells(f"power\nof {axes[0]}", texts))
    return blocks(_names(lines), columns, width)


def _time(record: Row) -> str:
    """Return the time of a row, with a mark if it is noisy."""
    return duration(record["seconds"]) + (NOISY if record.get("noisy") else "")


def _names(lines: Iterable[Line]) -> list[Cells]:
    return cells(NAMES[:2], [{"label": title, "implementation": implementation} for title, implementation in lines])
