"""Queries, keys and values that are measured on: several copies, so that no cache is measured by mistake."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from attncli.inputs.seeding import generator
from attncli.studies.bench.options import BenchOptions
from attncli.studies.bench.sizes import Case

CACHE = 32 * 2**20  # bytes of the last-level cache where the machine does not tell
MOST_BYTES = 256 * 2**20  # of all copies together
MOST_COPIES = 1024
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True)
class Inputs:
    """One set of tensors (..., n, d), (..., m, d) and (..., m, d)."""

    queries: Tensor
    keys: Tensor
    values: Tensor

    def needing_gradients(self) -> "Inputs":
        """The same memory as leaves of their own."""
        return Inputs(*(each.detach().requires_grad_() for each in (self.queries, self.keys, self.values)))


def draw_inputs(options: BenchOptions, case: Case, device: torch.device) -> Inputs:
    """Standard normal numbers that depend on the seed and the sizes only."""
    dtype = getattr(torch, options.dtype)
    shapes = {"queries": (case.n, case.d), "keys": (case.m, case.d), "values": (case.m, case.d)}
    drawn = []
    for name, shape in shapes.items():
        whole = (*case.leading, *shape)
        randomness = generator(options.seed, f"bench.{name}.{'x'.join(map(str, whole))}")
        drawn.append(torch.randn(whole, generator=randomness).to(dtype).to(device))
    return Inputs(*drawn)


def copies_of(inputs: Inputs, device: torch.device) -> list[Inputs]:
    """Copies in memory of their own, together larger than the last-level cache, the given tensors among them."""
    tensors = (inputs.queries, inputs.keys, inputs.values)
    size = sum(each.nbytes for each in tensors)
    wanted = 2 * cache_size(device) // size + 1
    count = max(min(wanted, MOST_BYTES // size, MOST_COPIES), 1)
    return [inputs, *(Inputs(*(each.clone() for each in tensors)) for _ in range(count - 1))]


def cache_size(device: torch.device) -> int:
    """Bytes of the last-level cache."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).L2_cache_size)
    sizes = [_kibibytes(path) * 2**10 for path in CACHES.glob("index*/size")]
    return max(sizes, default=0) or CACHE


def _kibibytes(path: Path) -> int:
    """What Linux says, such as `32768K`."""
    try:
        return int(path.read_text().strip().removesuffix("K"))
    except (OSError, ValueError):
        return 0
