"""How much memory a call really takes, and whether it can be dared."""

import gc
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from attncli.errors import in_bytes
from attncli.studies import memory
from attncli.studies.bench.plan import Case
from attncli.studies.memory import RESERVE
from attncli.studies.stderr_lines import without_lines_of

LOG_LEVEL = "KINETO_LOG_LEVEL"  # of the profiler's library, which tells everybody on stderr that it starts
FEW_PAIRS = 2**22  # at which nothing has many events
MOST_EVENTS, GROWTH = 2**20, 8  # events that are kept; by how much there may be more at twice the queries and keys
WARNING = b"Memory block of unknown size was allocated before the profiling started"  # true of inputs, and no harm


def peak_extra(call: Callable[[], object], device: torch.device) -> int | None:
    """Bytes at the peak of one call beyond what was there before, its result included; None where nobody counts."""
    if device.type == "cuda":
        return _peak_on_cuda(call, device)
    return _peak_of(_events(call)) if device.type == "cpu" else None


def _peak_on_cuda(call: Callable[[], object], device: torch.device) -> int:
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    call()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before


def _peak_of(events: Iterable[Any]) -> int:
    """The running sum of what torch's allocator takes and gives back, as its profiler records it event by event."""
    allocations = sorted((each for each in events if each.name() == "[memory]"), key=lambda each: each.start_ns())
    return max(itertools.accumulate(each.nbytes() for each in allocations), default=0)


def _events(call: Callable[[], object]) -> list[Any]:
    """Everything that the profiler records of a call, whose result is kept until the end."""
    os.environ.setdefault(LOG_LEVEL, "99")
    with (
        _no_collection(),
        without_lines_of(WARNING),
        profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record,
    ):
        result = call()
    assert record.profiler is not None
    assert record.profiler.kineto_results is not None
    events = list(record.profiler.kineto_results.events())
    del result
    return events


@contextmanager
def _no_collection() -> Iterator[None]:
    """Garbage that is found meanwhile would count as given back."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def make_room(device: torch.device) -> None:
    """Give back what a failed attempt has left."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def too_large_at_rest(needed: int, device: torch.device) -> str | None:
    """Why tensors of so many bytes cannot be held."""
    available = memory.available_memory(device)
    if needed <= RESERVE * available:
        return None
    return f"needs at least {in_bytes(needed)}; {in_bytes(available)} of memory is available"


@dataclass(frozen=True)
class Forecast:
    """Whether a call can be dared, with the reason where it cannot, and whether its peak can be counted."""

    too_large: str | None = None
    countable: bool = True


def forecast(call_at: Callable[[Case], Callable[[], object]], case: Case, most: int, device: torch.device) -> Forecast:
    """What smaller calls tell of one; `most` is more bytes than it takes by any account.

    What a call takes grows with the numbers of queries and of keys at most, hence four times the peak at half of both
    bounds the next. From sizes that are harmless the peak is followed upwards, and nothing is tried that might not fit.

    On the CPU the profiler keeps an event of some 2 KiB for every small operation. Code that works tile by tile has so
    many at large sizes that they take far more memory than the call: from there on peaks are not counted.
    """
    available, on_cpu = memory.available_memory(device), device.type == "cpu"
    room, steps, bound, countable = RESERVE * available, 0, 0.0, True
    while case.halved(steps) != case.halved(steps + 1) and (
        most / 4**steps > room or (on_cpu and case.halved(steps).pairs > FEW_PAIRS)
    ):
        steps += 1
    for step in range(steps, 0, -1):
        small, larger = case.halved(step), case.halved(step - 1)
        if countable and on_cpu:
            events = _events(call_at(small))
            bound, countable = _peak_of(events), GROWTH * len(events) <= MOST_EVENTS
        elif countable:
            bound = peak_extra(call_at(small), device) or 0
        bound *= larger.pairs / small.pairs
        if bound > room:
            there = "" if larger == case else f" at n = {larger.n}, m = {larger.m} already"
            return Forecast(f"may need {in_bytes(bound)}{there}; {in_bytes(available)} of memory is available", False)
    return Forecast(None, countable)
