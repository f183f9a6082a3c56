"""What was not timed, and why, as sentences."""

from collections.abc import Sequence

from attncli.show.numbers import printable
from attncli.studies.study import Record
from attncli.views.bench_lines import Line, lines_of
from attncli.views.bench_sizes import changing, measures_of, place, size_of, sizes_of

WORDS = {
    "disagrees": "disagrees with the reference, so it was not timed",
    "too large": "is too large",
    "not available": "is not available",
    "failed": "failed",
}


def left_out(records: Sequence[Record]) -> list[str]:
    """One sentence for each line and status; the reason is that of its smallest size."""
    lines = []
    for line, rows in lines_of(records).items():
        statuses = dict.fromkeys(record["status"] for record in rows if record["status"] != "timed")
        for status in statuses:
            lines.append(_sentence(line, [record for record in rows if record["status"] == status], records))
    return lines


def _sentence(line: Line, rows: Sequence[Record], records: Sequence[Record]) -> str:
    first = min(rows, key=size_of)
    status = str(first["status"])
    said = f"{line.name} {WORDS.get(status, f'was not timed ({status})')}{_where(line, rows, records)}"
    reason = printable(str(first["reason"] or "")).rstrip(". ")
    return f"{said}: {reason}." if reason else f"{said}."


def _where(line: Line, rows: Sequence[Record], records: Sequence[Record]) -> str:
    """At which sizes and for which measures, as far as it is not all of them."""
    keys = changing(records)
    places = list(dict.fromkeys(place(record, keys) for record in sorted(rows, key=size_of)))
    measures = measures_of(rows)
    tried = measures_of(lines_of(records)[line])
    sizes = f" at {_shortly(places)}" if keys and len(places) < len(sizes_of(records)) else ""
    return sizes + (f" ({', '.join(measures)})" if len(measures) < len(tried) else "")


def _shortly(places: Sequence[str]) -> str:
    """All places, or of many the first and the last."""
    return "; ".join(places) if len(places) <= 3 else f"{places[0]} and {len(places) - 1} more, up to {places[-1]}"
