"""How much memory the `attention` study will take, known before anything is made."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psutil
import torch
from torch import nn

from attncli.errors import InputError
from attncli.precision import computing_dtype
from attncli.units import in_bytes

PROGRAM = 512 * 2**20  # Python, torch and matplotlib with their working space, beside the tensors
RESERVE = 0.9  # of the available memory may be used


@dataclass(frozen=True)
class Estimate:
    """Bytes by what they are needed for."""

    parts: Mapping[str, int]

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.parts.values())

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {in_bytes(size)}" for name, size in self.parts.items())
        return f"{in_bytes(self.total)} ({parts})"


def estimate_attention(
    shapes: Mapping[str, tuple[int, ...]], dtype: torch.dtype, stages: Sequence[int], scorers: Sequence[nn.Module]
) -> Estimate:
    """The peak of the study for queries (..., n, q), keys (..., m, k) and values (..., m, v).

    `stages` has, for each scorer, how many (..., n, m) matrices it keeps; `scorers` may be on the meta device. The
    working space is that of the widest moment: a softmax with its mask.
    """
    element = computing_dtype(dtype).itemsize
    pairs = math.prod(shapes["queries"][:-1]) * shapes["keys"][-2]
    entries = {name: math.prod(shape) for name, shape in shapes.items()}
    vectors = entries["queries"] // shapes["queries"][-1] + entries["keys"] // shapes["keys"][-1]
    widths = [max(parameter.shape, default=1) for scorer in scorers for parameter in scorer.parameters()]
    output = math.prod(shapes["queries"][:-1]) * shapes["values"][-1]
    return Estimate(
        {
            # Drawn in float64, rounded to the dtype, and a copy in the computing dtype for the scorers.
            "inputs": sum(entries.values()) * (8 + dtype.itemsize + 2 * element) + pairs,
            "scores and weights": sum(stages) * pairs * element + len(stages) * output * element,
            "parameters": sum(p.numel() for scorer in scorers for p in scorer.parameters()) * 12,
            "projections": 2 * max(widths, default=0) * vectors * element,
            "working space": pairs * (3 * element + 3) + 2 * output * element,
            "program": PROGRAM,
        }
    )


def require_memory(estimate: Estimate, device: torch.device, cure: str) -> None:
    """Refuse what will not fit into the memory of the device.

    Raises:
        InputError: with the figures and the cure.
    """
    available = available_memory(device)
    if estimate.total > RESERVE * available:
        needs = f"needs about {estimate}; {in_bytes(available)} of memory is available"
        raise InputError.of(f"{needs}; {cure}", ["data"])


def available_memory(device: torch.device) -> int:
    """Free bytes on the device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return psutil.virtual_memory().available
