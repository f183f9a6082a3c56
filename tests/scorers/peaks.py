"""Peak memory of a call, from torch's profiler."""

import os
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from attncli.studies.bench.measure import peak_memory


def profiled(**options: Any) -> profile:
    """Return torch's profiler of the CPU, which reads once in a process whether to write to stderr when it starts."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    return profile(activities=[ProfilerActivity.CPU], **options)


def peak_of(call: Callable[[], object]) -> int:
    """Return the peak in bytes of all tensors that a call makes on the CPU, its result included."""
    peak = peak_memory(call, torch.device("cpu"))
    assert peak is not None
    return peak
