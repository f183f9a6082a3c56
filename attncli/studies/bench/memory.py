"""How much memory a call really takes, and whether it can be dared."""

import gc
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from attncli.studies import memory
from attncli.studies.bench.plan import Case
from attncli.studies.memory import RESERVE
from attncli.studies.stderr_lines import without_lines_of
from attncli.units import in_bytes

LOG_LEVEL = "KINETO_LOG_LEVEL"  # of the profiler's library, which tells everybody on stderr that it starts
FEW_PAIRS = 2**22  # at which nothing has many events
MOST_EVENTS, GROWTH = 2**20, 8  # events that are kept; by how much there may be more at twice the queries and keys
WARNING = b"Memory block of unknown size was allocated before the profiling started"  # true of inputs, and no harm


def peak_extra(call: Callable[[], object], device: torch.device) -> int | None:
    """Bytes at the peak of one call beyond what was there before, its result included; None where nobody counts."""
    if device.type == "cuda":
        return _peak_on_cuda(call, device)
    return _peak_on_cpu(call) if device.type == "cpu" else None


def _peak_on_cuda(call: Callable[[], object], device: torch.device) -> int:
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    call()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before


def _peak_on_cpu(call: Callable[[], object]) -> int:
    """The running sum of what torch's allocator takes and gives back, as its profiler records it event by event."""
    events = [each for each in _events(call) if each.name() == "[memory]"]
    sizes = [each.nbytes() for each in sorted(events, key=lambda each: each.start_ns())]
    return max(itertools.accumulate(sizes), default=0)


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


def largest_counted(call_at: Callable[[Case], Callable[[], object]], case: Case, device: torch.device) -> Case:
    """The case, or the largest half of it at which the peak can be counted.

    On the CPU the profiler keeps an event of some 2 KiB for every small operation, of which code that works tile by
    tile has so many at large sizes that they take far more memory than the call. How many, smaller calls tell.
    """
    steps = 0
    while (
        device.type == "cpu" and case.halved(steps).pairs > FEW_PAIRS and case.halved(steps) != case.halved(steps + 1)
    ):
        steps += 1
    for step in range(steps, 0, -1):
        if GROWTH * len(_events(call_at(case.halved(step)))) > MOST_EVENTS:
            return case.halved(step)
    return case


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


def too_large_at_work(peak_at: Callable[[Case], int | None], case: Case, most: int, device: torch.device) -> str | None:
    """Why a call cannot be dared; `most` is more bytes than it takes by any account, `peak_at` measures smaller ones.

    What a call takes grows with the numbers of queries and of keys at most, so that four times the peak at half of both
    bounds the next. From sizes that are harmless the peak is followed upwards, and nothing is tried that might not fit.
    """
    available = memory.available_memory(device)
    room = RESERVE * available
    steps = 0
    while most / 4**steps > room and case.halved(steps) != case.halved(steps + 1):
        steps += 1
    for step in range(steps, 0, -1):
        small, larger = case.halved(step), case.halved(step - 1)
        bound = (peak_at(small) or 0) * larger.n * larger.m / (small.n * small.m)
        if bound > room:
            return f"may need {in_bytes(bound)}{_at(larger, case)}; {in_bytes(available)} of memory is available"
    return None


def _at(reached: Case, asked: Case) -> str:
    return "" if reached == asked else f" at n = {reached.n}, m = {reached.m} already"
