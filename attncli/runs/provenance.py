"""Where figures come from: versions, machine, command."""

import platform
import shlex
import sys
from datetime import datetime

import numpy
import torch

from attncli import __version__
from attncli.studies.study import Record


def provenance(study: str, name: str, seed: int, device: torch.device, started: datetime) -> Record:
    """The head of results.json."""
    return {
        "attncli": __version__,
        "study": study,
        "name": name,
        "seed": seed,
        "created": started.isoformat(timespec="seconds"),
        "command": _printable(shlex.join(["attncli", *sys.argv[1:]])),
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


def _printable(command: str) -> str:
    """A command line as text, also where the name of a file in it is not UTF-8."""
    return command.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
