"""All implementations at one size and for one measure: checked, their memory measured, and timed against each other."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from attncli.attention import computing_dtype
from attncli.config.scorer_entries import ScorerEntry
from attncli.errors import InputError
from attncli.scorers import SCORERS
from attncli.scorers._custom import raised
from attncli.studies.bench.calls import Inputs, Job, NotAvailableError, copies_of, draw_inputs, make_job
from attncli.studies.bench.check import disagreement
from attncli.studies.bench.memory import forecast, make_room, peak_extra, too_large_at_rest
from attncli.studies.bench.options import BenchOptions
from attncli.studies.bench.plan import Case, Contender, hidden_units, operations
from attncli.studies.bench.timing import clock_for, rounds_of
from attncli.studies.memory import ran_out
from attncli.studies.scoring import build_scorer, outline

TIMED, DISAGREES, TOO_LARGE = "timed", "disagrees", "too large"
NOT_AVAILABLE, FAILED = "not available", "failed"
GENEROUS = 8  # tensors with every number that simple code has for each pair: no scorer keeps so many


@dataclass
class Line:
    """One row in the making; with a job while it may be timed, with a status other than `timed` where it may not."""

    contender: Contender
    entry: ScorerEntry  # that of the contender, with its hidden units
    case: Case
    measure: str
    job: Job | None = None
    status: str = TIMED
    reason: str | None = None
    peak: int | None = None  # bytes
    operations: int | None = None
    seconds: list[float] = field(default_factory=list)
    may_fail: bool = False  # a smaller size has gone well, so that an error is a finding and not the end

    @property
    def name(self) -> str:
        """`label/implementation/measure/sizes`, as raw times are kept."""
        case, hidden = self.case, hidden_units(self.entry)
        sizes = (case.n, case.m, case.d, "-" if hidden is None else hidden, case.batch, case.heads or 1)
        return f"{self.contender.name}/{self.measure}/{'x'.join(map(str, sizes))}"

    def drop(self, status: str, reason: str) -> None:
        """Not to be timed, and why."""
        self.job, self.status, self.reason, self.peak, self.seconds = None, status, reason, None, []


def get_ready(
    lines: Sequence[Line], options: BenchOptions, device: torch.device, begin: Callable[[Line], None]
) -> None:
    """Give each line of one size and measure its job, or the status that says why it has none.

    `begin` is called with each line before work on it begins.

    Raises:
        InputError: a scorer of the user's own that fails, where the line may not.
    """
    for line in lines:
        reason = too_large_at_rest(_at_rest(line, options), device)
        if reason is not None:
            line.drop(TOO_LARGE, reason)
    if all(line.reason is not None for line in lines):
        return
    copies = copies_of(draw_inputs(options, lines[0].case, device), device)
    for line in lines:
        begin(line)
        if line.reason is None:
            with _failures(line, device):
                _prepare(line, copies, options, device)


def time_all(lines: Sequence[Line], baseline: Contender, device: torch.device) -> None:
    """Fill in the seconds of all lines that have a job; one that fails now is dropped, and the others begin again."""
    while ready := [line for line in lines if line.job is not None]:
        calling = list[Line]()
        baselines = {index for index, line in enumerate(ready) if line.contender == baseline}
        calls = [_noting(line, line.job, calling) for line in ready if line.job is not None]
        try:
            times = rounds_of(calls, baselines, clock_for(device))
        except Exception:
            with _failures(calling[-1], device):
                raise
            continue
        for line, seconds in zip(ready, times, strict=True):
            line.seconds, line.job = seconds, None
        return


def _prepare(line: Line, copies: Sequence[Inputs], options: BenchOptions, device: torch.device) -> None:
    case, dtype = line.case, getattr(torch, options.dtype)
    scorer = build_scorer(line.entry, case.d, case.d, options.seed, dtype).to(device)

    def call_at(smaller: Case) -> Callable[[], object]:
        """The line's call at smaller sizes; compiling once more would take long, and fused code takes no more."""
        contender = line.contender
        if contender.implementation == "compiled":
            contender = Contender(line.entry, "attncli", contender.index)
        few = [draw_inputs(options, smaller, device)]
        return make_job(contender, line.entry, scorer, line.measure, few, options.backward)

    expected = forecast(call_at, case, _most_bytes(line, dtype), device)
    if expected.too_large is not None:
        line.drop(TOO_LARGE, expected.too_large)
        return
    job = make_job(line.contender, line.entry, scorer, line.measure, copies, options.backward)
    reason = disagreement(job, scorer, job()[0])
    if reason is not None:
        line.drop(DISAGREES, reason)
        return
    line.peak = peak_extra(job, device) if expected.countable else None
    line.operations = operations(scorer, case, line.measure, options.backward)
    line.job = job


def _at_rest(line: Line, options: BenchOptions) -> int:
    """Bytes of inputs, parameters and results, without which nothing can be measured."""
    case, dtype = line.case, getattr(torch, options.dtype)
    results = case.n * case.d if line.measure == "output" else case.n * case.m
    parameters = sum(parameter.numel() for parameter in outline(line.entry, case.d, case.d).parameters())
    computing = computing_dtype(dtype).itemsize
    return int(case.numbers * dtype.itemsize + (case.matrices * results + 2 * parameters) * computing)


def _most_bytes(line: Line, dtype: torch.dtype) -> int:
    """More than any implementation takes, beside its parameters: vectors of the longer kind for each pair."""
    width = max(line.case.d, hidden_units(line.entry) or 1)
    return GENEROUS * computing_dtype(dtype).itemsize * (line.case.pairs * width + line.case.numbers)


def _noting(line: Line, job: Job, calling: list[Line]) -> Callable[[], Any]:
    """The job, which notes where it is first called that its line is at work: most calls take no time for it."""

    def call() -> Any:
        if not calling or calling[-1] is not line:
            calling[:] = [line]
        return job()

    return call


@contextmanager
def _failures(line: Line, device: torch.device) -> Iterator[None]:
    """Drop a line that this machine cannot have or hold; a user's own scorer may raise anything."""
    try:
        yield
    except NotAvailableError as error:
        line.drop(NOT_AVAILABLE, str(error))
    except InputError as error:
        if not line.may_fail:
            raise _placed(error, line) from error
        line.drop(FAILED, str(error))
    except Exception as error:
        if ran_out(error):
            line.drop(TOO_LARGE, "the memory was not enough")
            make_room(device)
        elif line.contender.implementation == "compiled":
            line.drop(NOT_AVAILABLE, f"compiling gave {raised(error)}")
        elif line.may_fail:
            line.drop(FAILED, f"it gave {raised(error)}")
        elif line.entry.scorer not in SCORERS:
            raise _placed(InputError.of(f"the scorer gave {raised(error)}"), line) from error
        else:
            raise


def _placed(error: InputError, line: Line) -> InputError:
    return error if line.contender.index is None else error.under("scorers", line.contender.index)
