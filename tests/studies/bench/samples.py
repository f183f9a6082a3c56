"""Results of `bench` to show, made by closed formulas so that every figure is known."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from attncli.studies.bench.columns import COLUMNS
from attncli.studies.bench.findings import findings_of
from attncli.studies.study import Record, Result

BASELINE = "scaled_dot/textbook"
SCORERS = ("additive", "scaled_dot", "dot", "general", "cosine", "gaussian", "vector_sum")
FEW = [("additive", "attncli"), ("additive", "textbook"), ("scaled_dot", "textbook"), ("dot", "attncli")]
USUAL = [*((name, "attncli") for name in SCORERS), *FEW[1:3], ("scaled_dot", "fused")]
TIMES = {"additive/attncli": 4.0, "additive/textbook": 200.0, "scaled_dot/fused": 0.5, "dot/attncli": 1.01}
SETTINGS: Record = {
    "baseline": BASELINE,
    "backward": False,
    "dtype": "float32",
    "device": "cpu",
    "device_name": "A Processor",
    "threads": 2,
}
QUARTILES = (0.9, 0.95, 1.0, 6.0, 11.0)  # rounds, over the median


def row_of(label: str, implementation: str, measure: str, n: int, **figures: Any) -> Record:
    """n^2 ns at the baseline, and n^2 floats of memory, of the textbook additive 64 times as many."""
    ratio, name = TIMES.get(f"{label}/{implementation}", 1.0), f"{label}/{implementation}"
    figures = {
        "seconds": ratio * n**2 * 1e-9,
        "seconds_iqr": ratio * n**2 * 1e-10,
        "peak_bytes": 4 * n * n * (64 if name == "additive/textbook" else 1),
        "gflops": 128 / ratio,
        "gbytes_per_second": 4 / ratio,
        "ratio": ratio,
        "ratio_ci": [1.0, 1.0] if name == BASELINE else [ratio * 0.95, ratio * 1.05],
        "rounds": 5,
        **figures,
    }
    names = {"scorer": label, "label": label, "implementation": implementation, "measure": measure}
    sizes = {"n": n, "m": n, "d": 64, "batch": 1, "heads": 1, "num_hiddens": 64 if label == "additive" else None}
    status = {"backward": False, "status": "timed", "reason": None, "baseline": BASELINE}
    found = names | sizes | SETTINGS | status | figures
    return {column.key: found[column.key] for column in COLUMNS}


def result_of(records: Sequence[Record]) -> Result:
    """The result with these rows, additive beside its textbook code."""
    beside = [
        {**row, "against": "textbook", "times_as_fast": 50.0, "times_as_fast_ci": [49.0, 51.0]}
        for row in records
        if (row["label"], row["implementation"]) == ("additive", "attncli") and row["seconds"]
    ]
    formulas = {str(row["label"]): f"the formula of {row['label']}" for row in records}
    times = {
        f"{row['label']}/{row['implementation']}/{row['measure']}/{row['n']}x{row['m']}x{row['d']}x"
        f"{row['num_hiddens'] or '-'}x{row['batch']}x{row['heads']}": torch.tensor(QUARTILES) * row["seconds"]
        for row in records
        if row["seconds"]
    }
    findings = findings_of(records, beside)
    settings = SETTINGS | {"formulas": formulas}
    return Result("bench", "bench", settings, records, beside, findings, tensors=times)


def sample(
    sizes: Sequence[int] = (512,),
    pairs: Sequence[tuple[str, str]] = USUAL,
    measures: Sequence[str] = ("scores", "output"),
    **figures: Any,
) -> Result:
    """All pairs of label and implementation at every size; the fused kernel for outputs only."""
    rows = [
        (label, implementation, measure, n) for n in sizes for measure in measures for label, implementation in pairs
    ]
    return result_of([row_of(*row, **figures) for row in rows if row[1] != "fused" or row[2] == "output"])


def changed(result: Result, where: Callable[[Record], bool], **figures: Any) -> Result:
    """The result with other figures in some of its records."""
    return result_of([record | figures if where(record) else record for record in result.records])


def crossed(result: Result, key: str, values: Sequence[int]) -> Result:
    """Every record at other sizes, too."""
    return result_of([record | {key: value} for record in result.records for value in values])


def not_timed(result: Result, where: Callable[[Record], bool], status: str = "too large") -> Result:
    """The result with some of its records not timed."""
    figures = ("seconds", "seconds_iqr", "peak_bytes", "gflops", "gbytes_per_second", "ratio", "ratio_ci", "rounds")
    return changed(result, where, **dict.fromkeys(figures), status=status, reason="needs 32.0 GiB\nor more")


def interrupted(result: Result) -> Result:
    """As the user has ended it."""
    return replace(result, interrupted=True)


def textbook_additive(record: Record) -> bool:
    """The one whose hidden units do not fit into memory."""
    return (record["label"], record["implementation"]) == ("additive", "textbook")
