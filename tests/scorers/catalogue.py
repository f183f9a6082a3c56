"""Scorers and tensors for tests."""

import shutil
from typing import Any

import pytest
import torch
from torch import Tensor

from attncli.scorers import SCORERS, Scorer

# Every option of every scorer away from its default, beside the defaults.
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "additive": [{}, {"num_hiddens": 1}, {"num_hiddens": 5}, {"bias": True}],
    "scaled_dot": [{}, {"scale": "1/sqrt(d)"}, {"scale": "1/d"}, {"scale": 0.3}, {"scale": 2}],
    "cosine": [{}, {"scale": 4.0}],
    "gaussian": [{}, {"sigma": 0.5}, {"sigma": 3}],
    "kernel": [{}, {"phi": "relu"}, {"phi": "exp"}, {"phi": "t2r"}, {"phi": "hedgehog"}],
}
needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("g++", "clang++"))),
    reason="compiled scorers, because no C++ compiler is installed; on Debian `apt-get install g++`",
)
VARIANTS = [(name, options) for name in SCORERS for options in OPTIONS.get(name, [{}])]


def make(name: str, query_size: int, key_size: int | None = None, **options: Any) -> Scorer:
    """Return a scorer with fixed parameters."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(7)  # torch.manual_seed keeps a trace of the stack for each kind of device
        return SCORERS[name](query_size, query_size if key_size is None else key_size, **options)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return standard normal numbers, drawn in float64 and stored in `dtype`."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors have the same dtype and bits: NaN equals NaN, and -0.0 differs from 0.0."""
    return a.dtype == b.dtype and torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))
