"""What the study `bench` finds: one sentence for each label, and why the slowest is slow."""

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from attncli.errors import in_bytes
from attncli.show.numbers import duration, interval, short
from attncli.studies.bench.columns import AXES, changing, lines_of, place, size_of
from attncli.studies.bench.options import IMPLEMENTATIONS
from attncli.studies.study import Finding, Record, by_label

FIGURES = ("implementation", "measure", *AXES, "num_hiddens", "seconds", "peak_bytes")


def findings_of(records: Sequence[Record], comparisons: Sequence[Record]) -> list[Finding]:
    """From the rows at the largest size, and of their growth with the size."""
    axes, labels = changing(records), by_label(records)
    chosen = [_chosen(rows) for rows in labels.values()]
    beside = {_key(row): row for row in comparisons if row["times_as_fast"] is not None}
    growths = [{"growth": dict(_growths(rows, axes[0]))} if len(axes) == 1 else {} for rows in labels.values()]
    found = [_of_label(row, axes, beside.get(_key(row)), each) for row, each in zip(chosen, growths, strict=True)]
    return [*found, *_why(chosen, records)]


def growth(records: Sequence[Record], axis: str) -> float | None:
    """The power of a size by which the time grows over the larger half of the sizes; None for a single size.

    At small sizes the time of a call is what it takes to start it, which does not depend on the size.
    """
    known = [(record[axis], record["seconds"]) for record in records if record["seconds"]]
    sizes = sorted({size for size, _ in known})
    if len(sizes) < 2:
        return None
    smallest = sizes[-max(2, math.ceil(len(sizes) / 2))]
    x, y = zip(*((math.log(size), math.log(seconds)) for size, seconds in known if size >= smallest), strict=True)
    return statistics.linear_regression(x, y).slope


def _growths(records: Sequence[Record], axis: str) -> Iterator[tuple[str, float]]:
    """`scores/attncli`, or with hidden units where the label has several `scores/attncli/64`, and its power."""
    for measure in dict.fromkeys(record["measure"] for record in records):
        lines = lines_of([record for record in records if record["measure"] == measure])
        for (title, implementation), of_line in lines.items():
            hidden = "" if title == of_line[0]["label"] else f"/{of_line[0]['num_hiddens']}"
            power = growth(of_line, axis)
            if power is not None:
                yield f"{measure}/{implementation}{hidden}", power


def _chosen(records: Sequence[Record]) -> Record:
    """The row that stands for a label: attncli's code if it is there, at the largest size with a time."""
    first = [record for record in records if record["measure"] == records[0]["measure"]]

    def rank(row: Record) -> tuple[Any, ...]:
        order = -IMPLEMENTATIONS.index(row["implementation"])
        return not _is_baseline(row), order, size_of(row), row["num_hiddens"] or 0

    return max((record for record in first if record["seconds"] is not None), key=rank, default=first[0])


def _of_label(row: Record, axes: Sequence[str], beside: Record | None, numbers: Record) -> Finding:
    """Time and memory of the chosen row, beside the baseline and beside the textbook's code of the same entry."""
    label, baseline, where = row["label"], row["baseline"], place(row, axes)
    name = label if row["implementation"] == "attncli" else f"{label} ({row['implementation']})"
    if row["seconds"] is None:
        return Finding(f"{name}: {row['status']} at {where}: {row['reason']}.", label, numbers)
    numbers |= {key: row[key] for key in FIGURES}
    memory = "" if row["peak_bytes"] is None else f" and {in_bytes(row['peak_bytes'])}"
    text = f"{name}: {duration(row['seconds'])}{memory} for {row['measure']} at {where}"
    if _is_baseline(row):
        text += ", which the others are compared with"
    elif row["ratio"] is not None:
        numbers |= {key: row[key] for key in ("ratio", "ratio_ci", "baseline")}
        text += _times(row["ratio"], row["ratio_ci"], f"the time of {baseline}")
    if beside:
        numbers |= {key: beside[key] for key in ("times_as_fast", "times_as_fast_ci")}
        if baseline != f"{label}/textbook":
            text += _times(beside["times_as_fast"], beside["times_as_fast_ci"], "as fast as textbook code")
    return Finding(f"{text}.", label, numbers)


def _key(row: Record) -> tuple[Any, ...]:
    """What a row and its comparison have in common."""
    return tuple(row[key] for key in ("label", "implementation", "num_hiddens", "measure", *AXES))


def _is_baseline(row: Record) -> bool:
    return bool(row["baseline"] == f"{row['label']}/{row['implementation']}")


def _times(ratio: float, ends: Sequence[float], what: str) -> str:
    """`, 96.2 times the time of scaled_dot/textbook (90.1 to 103)`."""
    same = ", no measurable difference" if ends[0] <= 1 <= ends[1] else ""
    return f", {short(ratio)} times {what} ({interval(ends)}{same})"


def _why(chosen: Iterable[Record], records: Sequence[Record]) -> Iterator[Finding]:
    """What of the largest ratio is the formula, and what the speed at which it runs."""
    slow = [row for row in chosen if row["ratio"] is not None and row["ratio_ci"][0] > 1 and row["gflops"]]
    for row in sorted(slow, key=lambda row: float(row["ratio"]))[-1:]:
        alike = (other for other in records if all(other[key] == row[key] for key in ("measure", *AXES)))
        base = next(other for other in alike if _is_baseline(other))
        if base["gflops"]:
            each, less = _operations_per_pair(row), _operations_per_pair(base)
            text = (
                f"Why {row['label']} takes longest: its formula has {each:,.0f} operations for each pair of query and "
                f"key, that of {row['baseline']} {less:,.0f}; they run at {short(row['gflops'])} and "
                f"{short(base['gflops'])} GFLOP/s."
            )
            numbers = {"operations_per_pair": each, "operations_per_pair_of_baseline": less, "gflops": row["gflops"]}
            yield Finding(text, None, numbers | {"gflops_of_baseline": base["gflops"]})


def _operations_per_pair(row: Record) -> float:
    operations = float(row["gflops"]) * 1e9 * float(row["seconds"])
    return round(operations) / math.prod(int(row[axis]) for axis in AXES if axis != "d")
