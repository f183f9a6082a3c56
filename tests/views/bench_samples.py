"""Results of `bench` to show, made by closed formulas so that every figure is known."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from attncli.runs.records import BenchResult
from attncli.studies.study import Record

BASELINE = "scaled_dot/textbook"
SCORERS = ("additive", "scaled_dot", "dot", "general", "cosine", "gaussian", "vector_sum")
PAIRS = [(name, "attncli") for name in SCORERS]
USUAL = [*PAIRS, ("additive", "textbook"), ("scaled_dot", "textbook"), ("scaled_dot", "fused")]
FEW = [("additive", "attncli"), ("additive", "textbook"), ("scaled_dot", "textbook"), ("dot", "attncli")]
# How many times the baseline's time each takes.
TIMES: Mapping[str, float] = {
    "additive/attncli": 4.1,
    "additive/compiled": 1.9,
    "additive/textbook": 187.0,
    "scaled_dot/attncli": 1.004,
    "scaled_dot/textbook": 1.0,
    "scaled_dot/fused": 0.4,
    "general/attncli": 1.3,
    "cosine/attncli": 1.25,
    "gaussian/attncli": 1.4,
    "vector_sum/attncli": 0.5,
}
SETTINGS: Record = {
    "baseline": BASELINE,
    "backward": False,
    "device": "cpu",
    "device_name": "A Processor @ 2.00GHz",
    "threads": 2,
}
FORMULA = "the formula of {} (somebody 2020)"
UNKNOWN: Record = dict.fromkeys(
    ["seconds", "seconds_iqr", "peak_bytes", "gflops", "gbytes_per_second", "ratio", "ratio_ci"]
)


def bench_record(label: str, implementation: str, measure: str, n: int, **figures: Any) -> Record:
    """1 µs and n^2 ns at the baseline; n^2 floats of memory, of the textbook additive 64 times as many."""
    ratio = TIMES.get(f"{label}/{implementation}", 1.0) * (1.5 if measure == "output" else 1.0)
    if f"{label}/{implementation}" == BASELINE:
        ratio = 1.0
    seconds = ratio * (1e-6 + n**2 * 1e-9)
    many = 64 if (label, implementation) == ("additive", "textbook") else 1
    is_baseline = f"{label}/{implementation}" == BASELINE
    return {
        "scorer": label,
        "implementation": implementation,
        "n": n,
        "m": n,
        "d": 64,
        "num_hiddens": 64 if label == "additive" else None,
        "batch": 1,
        "heads": 1,
        "dtype": "float32",
        "device": "cpu",
        "seconds": seconds,
        "seconds_iqr": seconds / 20,
        "peak_bytes": 4 * n * n * many,
        "gflops": n * n * 128 / seconds / 1e9,
        "gbytes_per_second": 4 * n * n / seconds / 1e9,
        "ratio": ratio,
        "ratio_ci": [1.0, 1.0] if is_baseline else [ratio * 0.95, ratio * 1.05],
        "label": label,
        "measure": measure,
        "backward": False,
        "status": "timed",
        "reason": None,
        "rounds": 11,
        "baseline": BASELINE,
    } | figures


def bench_result(
    sizes: Sequence[int] = (512,),
    pairs: Sequence[tuple[str, str]] = USUAL,
    measures: Sequence[str] = ("scores", "output"),
    **figures: Any,
) -> BenchResult:
    """All pairs of label and implementation at every size; the fused kernel for outputs only."""
    records = [
        bench_record(label, implementation, measure, n, **figures)
        for n in sizes
        for measure in measures
        for label, implementation in pairs
        if implementation != "fused" or measure == "output"
    ]
    labels = dict.fromkeys(label for label, _ in pairs)
    return BenchResult(
        records=records, settings=SETTINGS, formulas={label: FORMULA.format(label) for label in labels}, times={}
    )


def changed(result: BenchResult, where: Callable[[Record], bool], **figures: Any) -> BenchResult:
    """The result with other figures in some of its records."""
    return replace(result, records=[record | figures if where(record) else record for record in result.records])


def not_timed(result: BenchResult, where: Callable[[Record], bool], status: str, reason: str) -> BenchResult:
    """The result with some of its records not timed."""
    return changed(result, where, **UNKNOWN, status=status, reason=reason)


def textbook_additive(record: Record) -> bool:
    """The one whose hidden units do not fit into memory."""
    return (record["label"], record["implementation"]) == ("additive", "textbook")
