"""Where figures come from: versions, machine, command."""

import platform
import shlex
import sys
from datetime import datetime

import numpy
import torch

from attncli import __version__
from attncli.results.records import Record


def provenance(study: str, name: str, seed: int, device: torch.device, started: datetime) -> Record:
    """The head of results.json."""
    return {
        "attncli": __version__,
        "study": study,
        "name": name,
        "seed": seed,
        "created": started.isoformat(timespec="seconds"),
        "command": shlex.join(["attncli", *sys.argv[1:]]),
        "environment": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": numpy.__version__,
            "platform": platform.platform(),
            "device": str(device),
            "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine(),
            "threads": torch.get_num_threads(),
        },
    }
