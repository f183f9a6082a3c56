"""How much memory a call takes, from what torch's allocator tells its profiler."""

import gc
import itertools
import os
from collections.abc import Callable

from torch.profiler import ProfilerActivity, profile


def peak_of(call: Callable[[], object]) -> int:
    """Bytes taken on the CPU at once by all tensors that the call makes, seen by Python or not; its result included."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or it tells on stderr that it starts
    gc.disable()  # garbage that is found meanwhile would count as given back
    try:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
            result = call()
    finally:
        gc.enable()
    assert record.profiler is not None
    assert record.profiler.kineto_results is not None
    events = [event for event in record.profiler.kineto_results.events() if event.name() == "[memory]"]
    del result
    sizes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return max(itertools.accumulate(sizes), default=0)
