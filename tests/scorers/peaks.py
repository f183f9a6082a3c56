"""Peak memory of a call, from torch's profiler."""

import gc
import itertools
import os
from collections.abc import Callable
from typing import Any

from torch.profiler import ProfilerActivity, profile


def profiled(**options: Any) -> profile:
    """Return torch's profiler of the CPU, which reads once in a process whether to write to stderr when it starts."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    return profile(activities=[ProfilerActivity.CPU], **options)


def peak_of(call: Callable[[], object]) -> int:
    """Return the peak in bytes of all tensors that a call makes on the CPU, its result included."""
    gc.disable()  # garbage freed meanwhile would be subtracted
    try:
        with profiled(profile_memory=True) as record:
            result = call()
    finally:
        gc.enable()
    assert record.profiler is not None
    assert record.profiler.kineto_results is not None
    events = [event for event in record.profiler.kineto_results.events() if event.name() == "[memory]"]
    del result
    sizes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return max(itertools.accumulate(sizes), default=0)
