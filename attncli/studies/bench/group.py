"""All implementations at one size and for one measure: made ready, checked, and timed against each other."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from attncli.attention import computing_dtype
from attncli.config.scorer_entries import ScorerEntry
from attncli.errors import InputError
from attncli.scorers import SCORERS
from attncli.scorers._custom import raised
from attncli.studies.bench.calls import NotAvailableError
from attncli.studies.bench.check import disagreement
from attncli.studies.bench.inputs import Inputs, draw_inputs
from attncli.studies.bench.job import Job, make_job
from attncli.studies.bench.memory import largest_counted, make_room, peak_extra, too_large_at_work
from attncli.studies.bench.plan import Contender
from attncli.studies.bench.records import DISAGREES, FAILED, NOT_AVAILABLE, TOO_LARGE, Line
from attncli.studies.bench.sizes import Case, hidden_units
from attncli.studies.bench.timing import clock_for, rounds_of
from attncli.studies.memory import ran_out

GENEROUS = 8  # tensors with every number that textbook code has for each pair: no scorer keeps so many


def get_ready(line: Line, scorer: nn.Module, copies: Sequence[Inputs], options: Any, device: torch.device) -> None:
    """Give a line its job, checked and with its memory measured, or the status that says why it has none.

    Raises:
        InputError: a scorer of the user's own that fails, where the line may not.
    """
    call_at = _calls(line, scorer, options, device)
    with _failures(line, device):
        reason = _too_large(line, call_at, options, device)
        if reason is not None:
            line.drop(TOO_LARGE, reason)
            return
        job = make_job(line.contender, line.entry, scorer, line.measure, copies, options.backward)
        reason = disagreement(job, scorer, options.seed)
        if reason is not None:
            line.drop(DISAGREES, reason)
            return
        counted = largest_counted(call_at, line.case, device) == line.case
        line.peak = peak_extra(job, device) if counted else None
        line.job = job


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


def _calls(line: Line, scorer: nn.Module, options: Any, device: torch.device) -> Callable[[Case], Callable[[], object]]:
    """The line's call at smaller sizes; compiling once more for it would take long, and fused code takes no more."""
    plain = line.contender.implementation != "compiled"
    contender = line.contender if plain else Contender(line.entry, "attncli", line.contender.index)

    def call_at(case: Case) -> Callable[[], object]:
        few = [draw_inputs(options, case, device)]
        return make_job(contender, line.entry, scorer, line.measure, few, options.backward)

    return call_at


def _too_large(
    line: Line, call_at: Callable[[Case], Callable[[], object]], options: Any, device: torch.device
) -> str | None:
    itemsize = computing_dtype(getattr(torch, options.dtype)).itemsize

    def peak_at(case: Case) -> int | None:
        """Of a smaller call; where that cannot be counted no more than grows with the pairs from one that can."""
        counted = largest_counted(call_at, case, device)
        peak = peak_extra(call_at(counted), device)
        return None if peak is None else peak * case.cells // counted.cells

    return too_large_at_work(peak_at, line.case, most_bytes(line.entry, line.case, itemsize), device)


def most_bytes(entry: ScorerEntry, case: Case, itemsize: int) -> int:
    """More than any implementation takes, beside its parameters."""
    width = hidden_units(entry) or 1 if entry.scorer in SCORERS else max(case.d, hidden_units(entry) or 1)
    return GENEROUS * itemsize * (case.matrices * case.n * case.m * width + case.numbers)
