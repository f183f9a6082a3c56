"""All implementations at one size and for one measure: checked, their memory measured, and timed against each other."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from attncli.config.scorer_entries import ScorerEntry
from attncli.errors import InputError
from attncli.scorers import SCORERS
from attncli.scorers._custom import raised
from attncli.studies.bench.calls import Call, Inputs, NotAvailableError, copies_of, draw_inputs, make_call
from attncli.studies.bench.check import disagreement
from attncli.studies.bench.memory import MOST_PAIRS, estimate_call, make_room, peak_extra
from attncli.studies.bench.options import BenchOptions
from attncli.studies.bench.plan import Case, Contender, hidden_units, operations
from attncli.studies.bench.timing import clock_for, rounds_of
from attncli.studies.memory import ran_out, too_large
from attncli.studies.scoring import build_scorer, outline

TIMED, DISAGREES, TOO_LARGE = "timed", "disagrees", "too large"
NOT_AVAILABLE, FAILED = "not available", "failed"


@dataclass
class Line:
    """One row in the making; with a call while it may be timed, with a status other than `timed` where it may not."""

    contender: Contender
    entry: ScorerEntry  # that of the contender, with its hidden units
    case: Case
    measure: str
    may_fail: bool  # smaller sizes have gone well, so that an error is a finding and not the end
    call: Call | None = None
    status: str = TIMED
    reason: str | None = None
    peak: int | None = None  # bytes
    operations: int | None = None
    seconds: list[float] = field(default_factory=list)

    def drop(self, status: str, reason: str) -> None:
        """Not to be timed, and why."""
        self.call, self.status, self.reason, self.peak, self.seconds = None, status, reason, None, []


def get_ready(
    lines: Sequence[Line], options: BenchOptions, device: torch.device, begin: Callable[[Line], None]
) -> None:
    """Give each line of one size and measure its call, or the status that says why it has none.

    `begin` is called with each line before work on it begins.

    Raises:
        InputError: a scorer of the user's own that fails, where the line may not.
    """
    copies: list[Inputs] = []
    for line in lines:
        begin(line)
        entry, case, implementation = line.entry, line.case, line.contender.implementation
        scorer, hidden = outline(entry, case.d, case.d), hidden_units(entry)
        needed = estimate_call(scorer, implementation, hidden, case, line.measure, options.backward, options.dtype)
        if reason := too_large(needed, device):
            line.drop(TOO_LARGE, reason)
            continue
        with _failures(line, device):
            copies = copies or copies_of(draw_inputs(options, case, device), device)
            _prepare(line, copies, options, device)


def time_all(lines: Sequence[Line], baseline: Contender, device: torch.device) -> None:
    """Fill in the seconds of all lines that have a call; one that fails now is dropped, and the others begin again."""
    while ready := [line for line in lines if line.call is not None]:
        calling = list[Line]()
        baselines = {index for index, line in enumerate(ready) if line.contender == baseline}
        calls = [_noting(line, line.call, calling) for line in ready if line.call is not None]
        try:
            times = rounds_of(calls, baselines, clock_for(device))
        except (Exception, SystemExit):
            with _failures(calling[-1], device):
                raise
            continue
        for line, seconds in zip(ready, times, strict=True):
            line.seconds, line.call = seconds, None
        return


def _prepare(line: Line, copies: Sequence[Inputs], options: BenchOptions, device: torch.device) -> None:
    case, measure, implementation = line.case, line.measure, line.contender.implementation
    scorer = build_scorer(line.entry, case.d, case.d, options.seed, getattr(torch, options.dtype)).to(device)
    call = make_call(implementation, scorer, measure, copies, options.backward)
    results, _ = call()
    reason = disagreement(implementation, scorer, measure, copies[0], results)
    if reason is not None:
        line.drop(DISAGREES, reason)
        return
    del results
    if device.type != "cpu" or case.pairs <= MOST_PAIRS:
        line.peak = peak_extra(call, device)
    line.operations = operations(scorer, case, measure, options.backward)
    line.call = call


def _noting(line: Line, call: Call, calling: list[Line]) -> Callable[[], Any]:
    """The call, which notes where it is first made that its line is at work: most calls take no time for it."""

    def noted() -> Any:
        if not calling or calling[-1] is not line:
            calling[:] = [line]
        return call()

    return noted


@contextmanager
def _failures(line: Line, device: torch.device) -> Iterator[None]:
    """Drop a line that this machine cannot have or hold; a user's own scorer may raise anything."""
    index = line.contender.index
    place = () if index is None else ("scorers", index)
    try:
        yield
    except NotAvailableError as error:
        line.drop(NOT_AVAILABLE, str(error))
    except InputError as error:
        if not line.may_fail:
            raise error.under(*place) from error
        line.drop(FAILED, str(error))
    except (Exception, SystemExit) as error:  # which a scorer of the user may call
        if ran_out(error):
            line.drop(TOO_LARGE, "the memory was not enough")
            make_room(device)
        elif line.contender.implementation == "compiled":
            line.drop(NOT_AVAILABLE, f"compiling gave {raised(error)}")
        elif line.may_fail:
            line.drop(FAILED, f"it gave {raised(error)}")
        elif line.entry.scorer not in SCORERS:
            raise InputError.of(f"the scorer gave {raised(error)}", place) from error
        else:
            raise
