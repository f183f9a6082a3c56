"""Give every tensor and every scorer its own random generator, so none depends on the others."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def derived_seed(seed: int, name: str) -> int:
    """Return the seed for a name such as `data.queries` or `scorers.additive`, given the experiment's seed."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1  # 63 bits, as torch takes signed integers


def generator(seed: int, name: str) -> torch.Generator:
    """Return the random generator for a name. It is on the CPU, so the device changes no number."""
    return torch.Generator().manual_seed(derived_seed(seed, name))


@contextmanager
def seeded(seed: int, name: str, device: torch.device | None = None) -> Iterator[None]:
    """Seed torch's global generators (on the CPU, and on `device` if CUDA) for the `with` block, then restore them."""
    cuda = [device] if device is not None and device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        # torch.manual_seed would also seed every GPU, even if only the CPU is used.
        (torch.manual_seed if cuda else torch.default_generator.manual_seed)(derived_seed(seed, name))
        yield
