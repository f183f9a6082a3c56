"""On what machine and how was measured: what figures of time mean nothing without."""

import platform
from pathlib import Path
from typing import Any

import torch

from attncli.studies.bench.inputs import cache_size
from attncli.studies.bench.timing import BLOCK, BUDGET
from attncli.studies.study import Record


def setting_of(options: Any, device: torch.device) -> Record:
    """The settings of a result."""
    return {
        "baseline": options.baseline,
        "backward": options.backward,
        "compile": options.compile,
        "measure": list(options.measure),
        "dtype": options.dtype,
        "device": str(device),
        "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else _processor(),
        "threads": torch.get_num_threads(),
        "cache_bytes": cache_size(device),
        "block_seconds": BLOCK,
        "budget_seconds": BUDGET,
        "ratio_ci": "95 %, Student's t of the logarithms of the ratios round by round",
    }


def _processor() -> str:
    """As Linux calls it, else the kind of machine."""
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            names = (line.partition(":")[2].strip() for line in file if line.startswith("model name"))
            return next(names, platform.machine())
    except OSError:
        return platform.machine()
