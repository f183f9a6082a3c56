"""Numbers of attention weights (..., m), one for each query: shares, entropy, divergence, top keys; relative L2."""

import math

import numpy as np
import torch
from torch import Tensor

from attncli.core.numbers import TIE

SMALLEST = torch.finfo(torch.float64).tiny  # replaces 0, since the logarithm of 0 is infinite


def shares(weights: Tensor) -> Tensor:
    """Return the weights of each query divided by their sum; NaN where a weight is negative, or all are 0."""
    total = weights.sum(-1).masked_fill((weights < 0).any(-1), math.nan)
    return weights / total[..., None]


def entropy(shares: Tensor) -> Tensor:
    """Return the entropy in nats of float64 shares on the CPU; NaN where one is NaN."""
    logs = shares.clamp(min=SMALLEST)
    np.log(logs.numpy(), out=logs.numpy())  # takes a third of the time of torch's logarithm
    return -logs.mul_(shares).sum(-1)


def js_divergence(middle: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return the Jensen-Shannon divergence in bits, from 0 (equal) to 1 (disjoint), from three entropies (Lin 1991).

    `a` and `b` are the entropies of the shares to compare, `middle` that of their mean.
    """
    return (middle - (a + b) / 2).clamp(min=0.0) / math.log(2)


def top_keys(weights: Tensor, visible: Tensor) -> Tensor:
    """Return the mask of the keys with the largest weight of their query, up to rounding, given the `visible` keys.

    A query has none if more than half of its visible keys, two at least, share the largest weight.
    """
    largest = weights.masked_fill(~visible, -math.inf).amax(-1, keepdim=True)
    top = (weights >= largest - TIE * largest.abs()) & visible
    count = top.sum(-1, keepdim=True)
    return top & ((count < 2) | (2 * count <= visible.sum(-1, keepdim=True)))


def top1_agreement(a: Tensor, b: Tensor) -> Tensor:
    """Return whether two masks of top keys share a key, as 1.0 or 0.0; NaN where one of them has none."""
    has_both = a.any(-1) & b.any(-1)
    return (a & b).any(-1).double().masked_fill(~has_both, math.nan)


def relative_l2(before: Tensor, new: Tensor, size: Tensor | None = None, axes: tuple[int, ...] | None = None) -> Tensor:
    """Return the L2 norm of the change over that of `size`, by default `before`, over these axes or all.

    Equal infinities and NaN do not differ. It is infinite if a number changes to or from NaN, or if the size is 0.
    """
    change = torch.where((new == before) | (new.isnan() & before.isnan()), 0.0, new - before)
    distance = torch.linalg.vector_norm(change, dim=axes)
    length = torch.linalg.vector_norm((before if size is None else size).nan_to_num(), dim=axes)
    return torch.where(distance == 0, 0.0, (distance / length).nan_to_num(math.inf, math.inf))


def relative_norm(squares: float, own_squares: float) -> float | None:
    """Return the L2 norm of a change over the original norm, from their squares; None if only the original is 0."""
    if own_squares == 0 and squares > 0:
        return None
    return math.sqrt(squares / (own_squares or 1.0))
