"""Peak memory of a call, from torch's profiler."""

import gc
import itertools
import os
from collections.abc import Callable

from torch.profiler import ProfilerActivity, profile


def peak_of(call: Callable[[], object]) -> int:
    """Return the peak in bytes of all tensors that a call makes on the CPU, its result included."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # otherwise it writes to stderr when it starts
    gc.disable()  # garbage freed meanwhile would be subtracted
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
