"""How much memory a call needs, by estimate before it is made and as measured."""

import gc
import itertools
import os
from collections.abc import Callable

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from attncli.attention import computing_dtype
from attncli.studies.bench.plan import Case
from attncli.studies.memory import Estimate, estimate_attention

LOG_LEVEL = "KINETO_LOG_LEVEL"  # of the profiler's library, which tells everybody on stderr that it starts
MOST_PAIRS = 2**26  # whose memory is counted on the CPU: of work in tiles the profiler keeps more than its tiles take
MATRICES = {"scores": 1, "weights": 2, "output": 0}  # (n, m) matrices that attncli's own code keeps
BACKWARD = 3  # times the matrices of forward


def estimate_call(
    scorer: nn.Module, implementation: str, hidden: int | None, case: Case, measure: str, backward: bool, dtype: str
) -> Estimate:
    """What one call needs; `scorer` may be on the meta device. One of the user's own counts with its scores only."""
    stored = getattr(torch, dtype)
    queries, keys = (*case.leading, case.n, case.d), (*case.leading, case.m, case.d)
    textbook = implementation == "textbook"
    matrices = max(MATRICES[measure], 2 * (textbook and measure != "scores")) * (BACKWARD if backward else 1)
    shapes = {"queries": queries, "keys": keys, "values": keys}
    of_pairs = (3 if backward else 2) * case.pairs * hidden if textbook and hidden else 0
    parts = estimate_attention(shapes, stored, [matrices], [scorer]).parts
    return Estimate({**parts, "hidden units of all pairs": of_pairs * computing_dtype(stored).itemsize})


def peak_extra(call: Callable[[], object], device: torch.device) -> int | None:
    """Bytes at the peak of one call beyond what was there before, its result included; None where nobody counts."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    return _peak_on_cpu(call) if device.type == "cpu" else None


def _peak_on_cpu(call: Callable[[], object]) -> int:
    """The running sum of what torch's allocator takes and gives back, as its profiler records it event by event."""
    os.environ.setdefault(LOG_LEVEL, "99")
    was_on = gc.isenabled()
    gc.disable()  # garbage that is found meanwhile would count as given back
    try:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
            result = call()  # noqa: F841  # kept until the end
    finally:
        if was_on:
            gc.enable()
    assert record.profiler is not None
    assert record.profiler.kineto_results is not None
    allocations = [each for each in record.profiler.kineto_results.events() if each.name() == "[memory]"]
    allocations.sort(key=lambda each: each.start_ns())
    return max(itertools.accumulate(each.nbytes() for each in allocations), default=0)


def make_room(device: torch.device) -> None:
    """Give back what a failed attempt has left."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
