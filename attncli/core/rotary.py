"""Rotary positions: pairs of features of queries and keys, turned by angles in proportion to their positions."""

import torch
from torch import Tensor


def rotated(vectors: Tensor, positions: Tensor, theta: float, count: int, *, interleaved: bool) -> Tensor:
    """Return vectors (..., n, d) with the first `count` features rotated (Su et al. 2021, arXiv:2104.09864).

    Pair t turns by position * theta^(-2t / count), so the dot product of two vectors depends on the difference of their
    positions only. Pair t is of the features t and t + count / 2, or if `interleaved` of 2t and 2t + 1. `positions` are
    integers that broadcast to (..., n).
    """
    powers = torch.arange(0, count, 2, dtype=torch.float64) / count  # on the CPU: some devices have no float64
    angles = positions.cpu().double()[..., None] * theta**-powers  # ... n count/2
    cos, sin = angles.cos().to(vectors), angles.sin().to(vectors)
    turning, still = vectors[..., :count], vectors[..., count:]
    x, y = (turning[..., ::2], turning[..., 1::2]) if interleaved else turning.chunk(2, -1)
    turned = x * cos - y * sin, y * cos + x * sin
    both = torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)
    return torch.cat([both, still], -1)
