"""The rows of the study `bench`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch

from attncli.config.scorer_entries import ScorerEntry
from attncli.studies.bench.job import Job
from attncli.studies.bench.plan import Contender
from attncli.studies.bench.sizes import Case, hidden_units, operations, traffic
from attncli.studies.bench.statistics import interquartile_range, ratio_of
from attncli.studies.study import Record

TIMED, DISAGREES, TOO_LARGE = "timed", "disagrees", "too large"
NOT_AVAILABLE, FAILED = "not available", "failed"
COLUMNS = (
    "scorer", "implementation", "n", "m", "d", "num_hiddens", "batch", "heads", "dtype", "device", "seconds",
    "seconds_iqr", "peak_bytes", "gflops", "gbytes_per_second", "ratio", "ratio_ci", "label", "measure", "backward",
    "status", "reason", "rounds", "baseline",
)  # fmt: skip
COMPARED = (
    "scorer", "label", "implementation", "against", "measure", "n", "m", "d", "batch", "heads", "num_hiddens",
    "times_as_fast", "times_as_fast_ci",
)  # fmt: skip
KNOWN = (*COLUMNS[:10], "label", "measure", "backward", "baseline")  # before the work


@dataclass
class Line:
    """One row in the making; with a job while it may be timed, with a status other than `timed` where it may not."""

    contender: Contender
    entry: ScorerEntry
    case: Case
    measure: str
    job: Job | None = None
    status: str = TIMED
    reason: str | None = None
    peak: int | None = None
    seconds: list[float] = field(default_factory=list)
    may_fail: bool = False  # a smaller size has gone well, so that an error is a finding and not the end

    @property
    def name(self) -> str:
        """`label/implementation/measure/sizes`, as raw times are kept."""
        case = self.case
        hidden = hidden_units(self.entry)
        sizes = (case.n, case.m, case.d, "-" if hidden is None else hidden, case.batch, case.heads or 1)
        return f"{self.contender.name}/{self.measure}/{'x'.join(map(str, sizes))}"

    def drop(self, status: str, reason: str) -> None:
        """Not to be timed, and why."""
        self.job, self.status, self.reason, self.peak, self.seconds = None, status, reason, None, []


def record_of(line: Line, lines: Sequence[Line], baseline: Contender, options: Any, device: torch.device) -> Record:
    """One row; what was not measured is None."""
    record: Record = dict.fromkeys(COLUMNS)
    record |= {
        "scorer": line.entry.scorer,
        "implementation": line.contender.implementation,
        "num_hiddens": hidden_units(line.entry),
        **{name: getattr(line.case, name) for name in ("n", "m", "d", "batch")},
        "heads": line.case.heads or 1,
        "dtype": options.dtype,
        "device": str(device),
        "label": line.entry.label,
        "measure": line.measure,
        "backward": options.backward,
        "status": line.status,
        "reason": line.reason,
        "baseline": options.baseline,
    }
    if line.seconds:
        record |= _figures(line, options) | _ratio(line, _baseline_of(line, lines, baseline))
    return record


def _figures(line: Line, options: Any) -> Record:
    seconds = median(line.seconds)
    done = operations(line.entry, line.case, line.measure, options.backward)
    moved = traffic(line.case, line.measure, options.backward, getattr(torch, options.dtype).itemsize)
    return {
        "seconds": seconds,
        "seconds_iqr": interquartile_range(line.seconds),
        "peak_bytes": line.peak,
        "gflops": None if done is None else done / seconds / 1e9,
        "gbytes_per_second": moved / seconds / 1e9,
        "rounds": len(line.seconds),
    }


def _baseline_of(line: Line, lines: Sequence[Line], baseline: Contender) -> Line:
    """With as many hidden units where there is one, else the first."""
    candidates = [each for each in lines if each.contender == baseline]
    alike = (each for each in candidates if hidden_units(each.entry) == hidden_units(line.entry))
    return next(alike, candidates[0])


def comparisons_of(lines: Sequence[Line]) -> Iterator[Record]:
    """How many times as fast as the textbook's code of the same entry the others are, from the rounds of both.

    None where one of the two was not timed.
    """
    for line, textbook in beside_textbook(lines):
        ratio, interval = None, None
        if line.seconds and textbook.seconds:
            count = min(len(line.seconds), len(textbook.seconds))
            ratio, interval = ratio_of(textbook.seconds[:count], line.seconds[:count])
        yield {**place_of(line), "times_as_fast": ratio, "times_as_fast_ci": interval and list(interval)}


def beside_textbook(lines: Sequence[Line]) -> Iterator[tuple[Line, Line]]:
    """Every line of a group with the textbook's line of the same entry, where there is one."""
    textbook = {_entry(line): line for line in lines if line.contender.implementation == "textbook"}
    for line in lines:
        other = textbook.get(_entry(line), line)
        if other is not line:
            yield line, other


def place_of(line: Line) -> Record:
    """The columns of a comparison that are known before the work."""
    return {
        "scorer": line.entry.scorer,
        "label": line.entry.label,
        "implementation": line.contender.implementation,
        "against": "textbook",
        "measure": line.measure,
        **{name: getattr(line.case, name) for name in ("n", "m", "d", "batch")},
        "heads": line.case.heads or 1,
        "num_hiddens": hidden_units(line.entry),
    }


def _entry(line: Line) -> tuple[str, int | None]:
    return line.entry.label, hidden_units(line.entry)


def _ratio(line: Line, baseline: Line) -> Record:
    if line is baseline:
        return {"ratio": 1.0, "ratio_ci": [1.0, 1.0]}
    if not baseline.seconds:
        return {}
    ratio, interval = ratio_of(line.seconds, baseline.seconds)
    return {"ratio": ratio, "ratio_ci": list(interval)}
