"""Rows of the study `bench` as lines over the sizes, and the findings."""

import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from attncli.core.numbers import duration, number, several
from attncli.errors import in_bytes, listed, printable
from attncli.results import Finding, Result, Row, by_label, in_sentence
from attncli.studies.bench.columns import AXES, SIZES, BenchFacts
from attncli.studies.bench.options import IMPLEMENTATIONS

Line = tuple[str, str]  # the label, with its hidden units where it has several at one size, and the implementation

NOISY = 2.0  # largest factor between the ends of the 95 % interval of a ratio that is stated as one number


def row_size(record: Row) -> tuple[int, ...]:
    """Return the sizes of a row, n first."""
    return tuple(record[axis] for axis in AXES)


def changing(records: Sequence[Row], sizes: Iterable[str] = AXES) -> list[str]:
    """Return the names of the sizes that have several values; m only if it differs from n in some row."""
    several = [size for size in sizes if len({record[size] for record in records} - {None}) > 1]
    return [size for size in several if size != "m" or not _square(records)]


def _square(records: Sequence[Row]) -> bool:
    return all(record["m"] == record["n"] for record in records)


def size_words(record: Row, axes: Iterable[str]) -> str:
    """Return the sizes of a row as text: `n = 512`, or `n = 512, d = 64` if other sizes change, too."""
    return ", ".join(f"{axis} = {record[axis]}" for axis in dict.fromkeys(["n", *axes]))


def rows_by_line(records: Sequence[Row]) -> dict[Line, list[Row]]:
    """Return the rows of each line, a pair of label and implementation, sorted by size.

    The label of a line includes `num_hiddens` if rows of the label differ only in it.
    """
    alike = Counter((row["label"], row["implementation"], row["measure"], *row_size(row)) for row in records)
    split = {label for (label, *_), count in alike.items() if count > 1}
    lines: dict[Line, list[Row]] = {}
    for record in sorted(records, key=row_size):
        label = record["label"]
        title = f"{label} (num_hiddens {record['num_hiddens']})" if label in split else label
        lines.setdefault((title, record["implementation"]), []).append(record)
    return lines


def is_larger(row: Row, other: Row) -> bool:
    """Whether a row is of the same label, implementation and measure as another, and no size is smaller."""
    is_alike = all(row[key] == other[key] for key in ("label", "implementation", "measure"))
    return is_alike and all((row[size] or 0) >= (other[size] or 0) for size in SIZES)


def mark_noisy(records: Sequence[Row]) -> None:
    """Set `noisy` of each timed row: whether it took longer than a larger one, by more than both of their ranges."""
    timed = [record for record in records if record["seconds"] is not None]
    for row in timed:
        row["noisy"] = any(
            row["seconds"] - other["seconds"] > max(row["seconds_iqr"], other["seconds_iqr"])
            for other in timed
            if is_larger(other, row)
        )


def conditions(result: Result, records: Sequence[Row]) -> list[str]:
    """Return the conditions of measurement, and the sizes common to all rows."""
    facts, axes = BenchFacts.of(result), changing(records, SIZES)
    common = {size: {record[size] for record in records} - {None} for size in SIZES if size not in axes}
    common |= {"m": {"n"}} if _square(records) else {}
    return [
        *(["interrupted: results are incomplete"] if result.interrupted else []),
        "forward and backward" if facts.backward else "forward",
        facts.dtype,
        printable(f"{facts.device} ({facts.device_name})"),
        several(facts.threads, "thread"),
        *(f"{size} = {value}" for size, values in common.items() for value in values),
    ]


def growth(records: Sequence[Row], axis: str) -> float | None:
    """Return the exponent p of the best fit time ~ size^p over the larger half of the sizes; None for a single size.

    At small sizes the overhead of a call dominates, which does not depend on the size. Noisy rows do not count.
    """
    times = [(record[axis], record["seconds"]) for record in records if record["seconds"] and not record.get("noisy")]
    sizes = sorted({size for size, _ in times})
    if len(sizes) < 2:
        return None
    smallest = sizes[-max(2, math.ceil(len(sizes) / 2))]
    x, y = zip(*((math.log(size), math.log(seconds)) for size, seconds in times if size >= smallest), strict=True)
    return statistics.linear_regression(x, y).slope


def bench_findings(records: Sequence[Row], comparisons: Sequence[Row], random: Collection[str] = ()) -> list[Finding]:
    """Return a finding for each label: the time at the largest size that was timed.

    Timed implementations other than the baseline are preferred, among them the linear form, then attncli's code. The
    finding is about the first measure, or the last if normalisers differ, since scores do not depend on normalisers.
    `random` has the labels with random parameters.
    """
    main = 0 if len({row["normalizer"] for row in records}) == 1 else -1

    def rank(row: Row) -> tuple[Any, ...]:
        """Return a sort key; the row with the largest is in the finding."""
        order = -IMPLEMENTATIONS.index(row["implementation"])
        is_linear = row["implementation"] == "linear"
        return not _is_baseline(row), is_linear, order, row_size(row), row["num_hiddens"] or 0

    findings = []
    for rows in by_label(records).values():
        timed = [row for row in rows if row["measure"] == rows[main]["measure"] and row["seconds"]]
        findings.append(_finding(max(timed, key=rank, default=rows[main]), records, comparisons, random))
    return findings


def _is_baseline(row: Row) -> bool:
    return bool(row["baseline"] == f"{row['label']}/{row['implementation']}")


def _finding(row: Row, records: Sequence[Row], comparisons: Sequence[Row], random: Collection[str]) -> Finding:
    """Return a finding with time and memory of a row, compared with the baseline and the textbook's code."""
    label, baseline, axes = row["label"], row["baseline"], changing(records)
    name = in_sentence(label, random) + (f" ({row['implementation']})" if row["implementation"] != "attncli" else "")
    if row["seconds"] is None:
        return Finding(f"{name}: {row['status']} at {size_words(row, axes)}: {row['reason']}.", label)
    numbers = {key: row[key] for key in ("implementation", "measure", *SIZES, "seconds", "peak_bytes")}
    if len(axes) == 1:
        lines = rows_by_line([record for record in records if record["measure"] == row["measure"]]).values()
        numbers["growth"] = next(growth(line, axes[0]) for line in lines if row in line)
    memory = "" if row["peak_bytes"] is None else f" and {in_bytes(row['peak_bytes'])}"
    text = f"{name}: {duration(row['seconds'])}{memory} for {row['measure']} at {size_words(row, axes)}"
    if _is_baseline(row):
        text += ", the baseline"
    elif row["ratio"] is not None:
        numbers |= {key: row[key] for key in ("ratio", "ratio_ci", "baseline")}
        text += _times(row["ratio"], row["ratio_ci"], f"the time of {baseline}")
    for beside in comparisons:
        if (
            all(beside[key] == row[key] for key in ("label", "implementation", "measure", *SIZES))
            and beside["times_as_fast"] is not None
        ):
            numbers |= {key: beside[key] for key in ("times_as_fast", "times_as_fast_ci")}
            if baseline != f"{label}/textbook":
                text += _times(beside["times_as_fast"], beside["times_as_fast_ci"], "as fast as textbook code")
    if noisy := [other for other in records if other["label"] == label and other.get("noisy")]:
        numbers["noisy"] = len(noisy)
        places = listed(list(dict.fromkeys(size_words(other, axes) for other in noisy)))
        text += f". Slower than at larger sizes, so noisy (repeat it on a quiet machine): {places}"
    return Finding(f"{text}.", label, numbers)


def _times(ratio: float, ends: Sequence[float], what: str) -> str:
    """Return a clause such as `, 96.2 times the time of scaled_dot/textbook (90.1 to 103)`.

    If the ends of the interval differ by more than a factor of `NOISY`, only the interval is stated; if the interval
    also contains 1, the clause says that the times are too noisy to compare.
    """
    if ends[1] > NOISY * ends[0]:
        wide = f"{number(ends, 2)} times {what}"
        if ends[0] <= 1 <= ends[1]:
            return f", too noisy to compare ({wide}; repeat it on a quiet machine)"
        return f", {wide} (noisy; repeat it on a quiet machine)"
    same = ", no measurable difference" if ends[0] <= 1 <= ends[1] else ""
    return f", {number(ratio, 3)} times {what} ({number(ends, 3)}{same})"
