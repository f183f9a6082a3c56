"""What the study `bench` finds: one sentence for each label, and why the slowest is slow."""

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from attncli.errors import in_bytes
from attncli.show.numbers import duration, interval, short
from attncli.studies.bench.columns import AXES, IMPLEMENTATIONS, changing, lines_of, place, size_of
from attncli.studies.study import Finding, Record

FIGURES = ("implementation", "measure", *AXES, "num_hiddens", "seconds", "peak_bytes")
ALIKE = ("label", "implementation", "num_hiddens", "measure", *AXES)


def findings_of(
    records: Sequence[Record], comparisons: Sequence[Record], operations: Sequence[int | None]
) -> list[Finding]:
    """From the rows, and the operations that the formula of each takes for a call."""
    rows = [record | {"operations": count} for record, count in zip(records, operations, strict=True)]
    labels = [[row for row in rows if row["label"] == label] for label in dict.fromkeys(row["label"] for row in rows)]
    axes = changing(records)
    return [*(_of_label(of_label, axes, comparisons) for of_label in labels), *_why(map(_chosen, labels), rows)]


def growth(records: Sequence[Record], axis: str) -> float | None:
    """The power of a size by which the time grows over the larger half of the sizes; None for a single size.

    At small sizes the time of a call is what it takes to start it, which does not depend on the size.
    """
    known = [(record[axis], record["seconds"]) for record in records if record["seconds"]]
    sizes = sorted({size for size, _ in known})
    if len(sizes) < 2:
        return None
    smallest = sizes[-max(2, math.ceil(len(sizes) / 2))]
    x, y = np.log([point for point in known if point[0] >= smallest]).T
    return float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())


def _of_label(rows: Sequence[Record], axes: Sequence[str], comparisons: Sequence[Record]) -> Finding:
    """What the first measure says of a label at the largest size, and how its times grow."""
    row = _chosen(rows)
    label, numbers = row["label"], {"growth": dict(_growths(rows, axes[0]))} if len(axes) == 1 else Record()
    if row["seconds"] is None:
        return Finding(f"{_name(row)}: {row['status']} at {place(row, axes)}: {row['reason']}.", label, numbers)
    numbers |= {key: row[key] for key in FIGURES}
    memory = "" if row["peak_bytes"] is None else f" and {in_bytes(row['peak_bytes'])}"
    said = [f"{_name(row)}: {duration(row['seconds'])}{memory} for {row['measure']} at {place(row, axes)}"]
    if _is_baseline(row):
        said.append("which the others are compared with")
    elif row["ratio"] is not None:
        numbers |= {key: row[key] for key in ("ratio", "ratio_ci", "baseline")}
        said.append(_compared(row["ratio"], row["ratio_ci"], f"the time of {row['baseline']}"))
    for beside in comparisons:
        if all(beside[key] == row[key] for key in ALIKE) and beside["times_as_fast"] is not None:
            numbers |= {key: beside[key] for key in ("times_as_fast", "times_as_fast_ci")}
            if row["baseline"] != f"{label}/textbook":
                said.append(_compared(beside["times_as_fast"], beside["times_as_fast_ci"], "as fast as textbook code"))
    return Finding(f"{', '.join(said)}.", label, numbers)


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
    return max(
        (record for record in first if record["seconds"] is not None),
        key=lambda row: (
            not _is_baseline(row),
            -IMPLEMENTATIONS.index(row["implementation"]),
            size_of(row),
            row["num_hiddens"] or 0,
        ),
        default=first[0],
    )


def _is_baseline(row: Record) -> bool:
    return bool(row["baseline"] == f"{row['label']}/{row['implementation']}")


def _name(row: Record) -> str:
    own = row["implementation"] == "attncli"
    return str(row["label"]) if own else f"{row['label']} ({row['implementation']})"


def _compared(ratio: float, ends: Sequence[float], what: str) -> str:
    """`96.2 times the time of scaled_dot/textbook (90.1 to 103)`."""
    same = ends[0] <= 1 <= ends[1]
    return f"{short(ratio)} times {what} ({interval(ends)}{', no measurable difference' if same else ''})"


def _why(chosen: Iterable[Record], rows: Sequence[Record]) -> Iterator[Finding]:
    """What of the largest ratio is the formula, and what the speed at which it runs."""
    slow = [row for row in chosen if row["ratio"] is not None and row["ratio_ci"][0] > 1 and row["operations"]]
    for row in sorted(slow, key=lambda row: float(row["ratio"]))[-1:]:
        there = (other for other in rows if all(other[key] == row[key] for key in ("measure", *AXES)))
        base = next(other for other in there if _is_baseline(other))
        if base["operations"]:
            pairs = math.prod(row[axis] for axis in AXES if axis != "d")
            each, less = row["operations"] / pairs, base["operations"] / pairs
            text = (
                f"Why {row['label']} takes longest: its formula has {each:,.0f} operations for each pair of query and "
                f"key, that of {row['baseline']} {less:,.0f}; they run at {short(row['gflops'])} and "
                f"{short(base['gflops'])} GFLOP/s."
            )
            numbers = {"operations_per_pair": each, "operations_per_pair_of_baseline": less, "gflops": row["gflops"]}
            yield Finding(text, None, numbers | {"gflops_of_baseline": base["gflops"]})
