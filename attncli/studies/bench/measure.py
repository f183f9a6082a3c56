"""Measure the cost of calls, on copies of the inputs in turn: memory and seconds."""

import gc
import itertools
import math
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from timeit import default_timer

import psutil
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from attncli.core.intervals import student_t
from attncli.core.seeding import generator
from attncli.studies.bench.implementations import Inputs
from attncli.studies.bench.options import BenchOptions
from attncli.studies.bench.plan import Case

COPIES_BYTES = 256 * 2**20  # of all copies of the inputs together, several times a last-level cache
MOST_COPIES = 1024

MOST_PAIRS = 2**26  # if memory is measured on the CPU: the profiler's log of more tiles takes more memory than they do
LOG_LEVEL = "KINETO_LOG_LEVEL"  # silences the profiler's library, which logs its start on stderr

BLOCK = 0.01  # seconds that an implementation is called for in each round, at least
BUDGET = 0.5  # seconds for all rounds of one implementation at one size, where the fewest rounds do not need more
FEWEST_ROUNDS, MOST_ROUNDS = 5, 11

AnyCall = Callable[[], object]


def draw_inputs(options: BenchOptions, case: Case, device: torch.device) -> Inputs:
    """Return standard normal queries, keys and values, which depend on the seed and the sizes only."""

    def draw(name: str, rows: int) -> Tensor:
        """Return one of the inputs, with this number of rows in each matrix."""
        shape = (case.matrices, rows, case.d)
        randomness = generator(options.seed, f"bench.{name}.{'x'.join(map(str, shape))}")
        return torch.randn(shape, generator=randomness).to(getattr(torch, options.dtype)).to(device)

    return draw("queries", case.n), draw("keys", case.m), draw("values", case.m)


def input_copies(inputs: Inputs) -> list[Inputs]:
    """Return the inputs and copies of them, together larger than usual caches, so that calls read main memory."""
    count = min(COPIES_BYTES // sum(tensor.nbytes for tensor in inputs), MOST_COPIES)
    return [inputs, *((q.clone(), k.clone(), v.clone()) for q, k, v in [inputs] * (count - 1))]


@contextmanager
def within_memory(device: torch.device) -> Iterator[None]:
    """Context manager in which an allocation beyond the memory that is free now fails, for work on the CPU of Linux.

    Without it Linux grants the allocation, and ends a process later. Other systems refuse it, or move it to the disk.
    """
    if sys.platform != "linux" or device.type != "cpu":
        yield
        return
    import resource  # only Unix has it

    own, most = resource.getrlimit(resource.RLIMIT_DATA)
    free = psutil.Process().memory_info().data + psutil.virtual_memory().available
    resource.setrlimit(resource.RLIMIT_DATA, (min({free, own} - {resource.RLIM_INFINITY}), most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (own, most))


def peak_memory(call: AnyCall, device: torch.device) -> int | None:
    """Return the peak bytes that one call allocates, result included; None if the device does not count them.

    On the CPU it is the largest running sum of allocated minus freed bytes in the log of torch's profiler.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    if device.type != "cpu":
        return None
    level = os.environ.get(LOG_LEVEL)
    os.environ[LOG_LEVEL] = level or "99"
    gc.disable()  # garbage that is found meanwhile would count as given back
    try:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
            result = call()  # noqa: F841  # kept until the end
    finally:
        gc.enable()
        if level is None:
            del os.environ[LOG_LEVEL]
    assert record.profiler is not None
    assert record.profiler.kineto_results is not None
    allocations = [event for event in record.profiler.kineto_results.events() if event.name() == "[memory]"]
    allocations.sort(key=lambda event: event.start_ns())
    return max(itertools.accumulate(event.nbytes() for event in allocations), default=0)


def clock(device: torch.device) -> float:
    """Wait until the device has finished its work, and return the time in seconds."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return default_timer()


def call_seconds(call: AnyCall, device: torch.device) -> float:
    """Return the median seconds per call, from a block of calls."""
    from torch.utils.benchmark import Timer  # imported late: it loads torch's builder of extensions

    timer = Timer("call()", globals={"call": call}, timer=partial(clock, device), num_threads=torch.get_num_threads())
    return timer.blocked_autorange(min_run_time=BLOCK).median


def rounds_for(call: AnyCall, device: torch.device) -> int:
    """Return the number of rounds within BUDGET seconds; each has at least two calls, the first to size a block."""
    times = [clock(device)]
    for _ in range(2):  # the faster one counts, since the machine may have been slow
        call()
        times.append(clock(device))
    once = min(times[1] - times[0], times[2] - times[1])
    return int(min(max(BUDGET // (2 * max(once, BLOCK)), FEWEST_ROUNDS), MOST_ROUNDS))


def time_ratio(seconds: Sequence[float], baseline: Sequence[float]) -> tuple[float, list[float]]:
    """Return the geometric mean over the rounds of the ratio `seconds` / `baseline`, and its 95 % interval.

    Noise common to both times of a round cancels. The interval is exp(mean +- t s / sqrt(rounds)) with Student's t,
    and mean and standard deviation s of the logarithms. Rounds with only one of the two times are left out.
    """
    logarithms = [math.log(one / other) for one, other in zip(seconds, baseline, strict=False)]
    mean, count = statistics.fmean(logarithms), len(logarithms)
    half = student_t(count - 1) * statistics.stdev(logarithms) / math.sqrt(count)
    return math.exp(mean), [math.exp(mean - half), math.exp(mean + half)]
