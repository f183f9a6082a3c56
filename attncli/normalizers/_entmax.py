"""The package `entmax`, made safe for masks, as sparsemax and entmax use it."""

from collections.abc import Callable

import torch
from torch import Tensor

from attncli.normalizers._base import largest_score, norm_of_softmax

AT_A_TIME = 2**16  # scores; sorting and bisection hold more than a dozen tensors of this size


def within_reach(
    weights_of: Callable[..., Tensor], scores: Tensor, valid: Tensor | None, reach: float | Tensor, *options: Tensor
) -> Tensor:
    """Return the weights of a sparse normaliser that gives 0 to keys scoring `reach` or more below the largest.

    `options` (..., n or 1, 1), if any, are further arguments of `weights_of`, for each query.

    Scores of invalid keys are set to less than that, because the package `entmax` supports neither -inf nor NaN. A
    query gets weights of NaN if its largest valid score is NaN or infinite.
    """
    blocked = scores.new_zeros(1, 1, dtype=torch.bool) if valid is None else ~valid
    top = largest_score(scores, valid)
    broken = ~top.isfinite()
    least = scores.new_tensor(-2.0) * reach
    below = torch.where(blocked | broken, least, scores - top).maximum(least)  # ... n m
    rows = [
        below.reshape(-1, below.shape[-1]),
        *(option.expand(*below.shape[:-1], 1).reshape(-1, 1) for option in options),
    ]
    step = max(AT_A_TIME // max(below.shape[-1], 1), 1)
    chunks = [weights_of(*chunk) for chunk in zip(*(torch.split(tensor, step) for tensor in rows), strict=True)]
    weights = torch.cat(chunks).view(below.shape).masked_fill(broken, torch.nan)
    return weights.masked_fill(blocked, 0.0)


def norm_of_entmax(weights: Tensor, alpha: float) -> Tensor:
    """Return the Frobenius norm (..., n) of diag(g) - g g^T / sum(g), with g_i = p_i^(2 - alpha) if p_i > 0, else 0.

    It is sum(g) times the norm of softmax's Jacobian at g / sum(g) (Peters et al. 2019).
    """
    g = weights.clamp(min=0.0).pow(2.0 - alpha).where(weights > 0, 0.0)
    total = g.sum(-1, keepdim=True)
    norms: Tensor = total[..., 0] * norm_of_softmax(g / total.where(total > 0, 1.0))
    return norms
