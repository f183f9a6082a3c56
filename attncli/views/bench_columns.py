"""The columns of the tables of the `bench` study."""

from collections.abc import Mapping, Sequence

from attncli.show.numbers import MISSING, duration, short
from attncli.show.tables import Cells
from attncli.studies.study import Record
from attncli.units import in_bytes
from attncli.views.bench_lines import Line, is_baseline
from attncli.views.bench_ratios import has_ratio, same, uncertain
from attncli.views.bench_sizes import Size, place, size_of, timed
from attncli.views.bench_slopes import slope

Lines = Mapping[Line, Sequence[Record]]


def by_size(lines: Lines, sizes: Sequence[Size], keys: Sequence[str]) -> list[Cells]:
    """One column a size, and how steeply the time grows where there is one size that changes."""
    columns = []
    for size in sizes:
        found = [{size_of(record): record for record in records}.get(size) for records in lines.values()]
        known = next(record for record in found if record)
        heading = place(known, keys).replace(", ", "\n")
        columns.append(Cells(heading, [_time(record) for record in found]))
    if len(keys) > 1:
        return columns
    return [*columns, Cells("slope", [_slope(records, keys[0]) for records in lines.values()])]


def _slope(records: Sequence[Record], key: str) -> str:
    found = slope([(record[key], record["seconds"]) for record in records if timed(record)])
    return MISSING if found is None else f"{found:.2f}"


def details(lines: Lines) -> list[Cells]:
    """Everything that was measured at one size."""
    records = [rows[0] for rows in lines.values()]
    return [
        Cells("time", [_time(record) for record in records]),
        Cells("IQR", [duration(record["seconds_iqr"]) for record in records]),
        Cells("memory", [_bytes(record["peak_bytes"]) for record in records]),
        Cells("GFLOP/s", [short(record["gflops"]) for record in records]),
        Cells("GB/s", [short(record["gbytes_per_second"]) for record in records]),
        Cells("ratio", [_ratio(record) for record in records]),
    ]


def _time(record: Record | None) -> str:
    """The time, or why there is none."""
    if record is None:
        return MISSING
    return duration(record["seconds"]) if record["status"] == "timed" else str(record["status"])


def _bytes(size: float | None) -> str:
    return MISSING if size is None else in_bytes(size)


def undecided(record: Record) -> bool:
    """Whether the time cannot be told from the baseline's."""
    return has_ratio(record) and not is_baseline(record) and same(record)


def _ratio(record: Record) -> str:
    """With the mark of those that do not differ."""
    if not has_ratio(record):
        return MISSING
    return f"{'= ' if undecided(record) else ''}{uncertain(record['ratio'], record['ratio_ci'])}"
