"""One random generator for every tensor and every scorer, so none depends on other draws."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def derived_seed(seed: int, name: str) -> int:
    """Return the seed of a name, such as `data.queries` or `scorers.additive`."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1  # torch takes 63 bits without sign trouble


def generator(seed: int, name: str) -> torch.Generator:
    """Return the random generator of a name; on the CPU, so the device changes no number."""
    return torch.Generator().manual_seed(derived_seed(seed, name))


@contextmanager
def seeded(seed: int, name: str, device: torch.device | None = None) -> Iterator[None]:
    """Seed torch's global generators inside the body, and restore them afterwards."""
    cuda = [device] if device is not None and device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        # torch.manual_seed seeds every GPU, and would disturb them where only the CPU is used.
        (torch.manual_seed if cuda else torch.default_generator.manual_seed)(derived_seed(seed, name))
        yield
