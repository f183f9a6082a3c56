"""What each implementation needs of memory at the largest size, as sentences."""

from collections.abc import Sequence

from attncli.studies.study import Record
from attncli.units import in_bytes
from attncli.views.bench_lines import Line, lines_of
from attncli.views.bench_sizes import changing, measures_of, of_measure, place, size_of


def memory(records: Sequence[Record]) -> list[str]:
    """One sentence a measure, from the least to the most."""
    keys, measures = changing(records), measures_of(records)
    found = [(measure, _needed(of_measure(records, measure), keys)) for measure in measures]
    several = len(measures) > 1
    return [f"{f'{measure}: ' if several else ''}{sentence}." for measure, sentence in found if sentence]


def _needed(records: Sequence[Record], keys: Sequence[str]) -> str:
    known = [record for record in records if record["peak_bytes"] is not None]
    if not known:
        return ""
    largest = max(map(size_of, known))
    there = [record for record in known if size_of(record) == largest]
    sizes = {line: max(record["peak_bytes"] for record in rows) for line, rows in lines_of(there).items()}
    return f"beyond the inputs, memory at {place(there[0], keys)} peaks at {_listed(sizes)}"


def _listed(sizes: dict[Line, float]) -> str:
    """`1.0 MiB (dot, scaled_dot), 4.2 MiB (additive)`: those that read the same stand together."""
    groups: dict[str, list[str]] = {}
    for line in sorted(sizes, key=sizes.__getitem__):
        groups.setdefault(in_bytes(sizes[line]), []).append(line.name)
    return ", ".join(f"{size} ({', '.join(names)})" for size, names in groups.items())
