"""One random generator for every tensor and every scorer, so that none depends on what else is drawn."""

import hashlib

import torch


def derived_seed(seed: int, name: str) -> int:
    """A seed of its own for everything that has a name, such as `data.queries` or `scorers.additive`."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1  # torch takes 63 bits without sign trouble


def generator(seed: int, name: str) -> torch.Generator:
    """The generator of that name, on the CPU whatever the device, so that the device changes no number."""
    return torch.Generator().manual_seed(derived_seed(seed, name))
