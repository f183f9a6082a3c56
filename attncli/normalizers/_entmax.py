"""What sparsemax and entmax share: the package `entmax`, made safe for masks."""

from collections.abc import Callable

import torch
from torch import Tensor

from attncli.normalizers._jacobian import norm_of_softmax
from attncli.normalizers._valid import largest_score


def within_reach(weights_of: Callable[[Tensor], Tensor], scores: Tensor, valid: Tensor | None, reach: float) -> Tensor:
    """Weights of a sparse normaliser, in which a key that is `reach` or more below the largest has none.

    Invalid keys are put there in place of minus infinity, which the package `entmax` does not bear. Nor does it bear
    NaN: a query with NaN or infinity as its largest valid score gets weights of NaN.
    """
    blocked = scores.new_zeros(1, 1, dtype=torch.bool) if valid is None else ~valid
    top = largest_score(scores, valid)
    broken = ~top.isfinite()
    below = (scores - top).masked_fill(blocked | broken, -2.0 * reach).clamp(min=-2.0 * reach)  # ... n m
    weights = weights_of(below).masked_fill(broken, torch.nan)
    return weights.masked_fill(blocked, 0.0)


def norm_of_entmax(weights: Tensor, alpha: float) -> Tensor:
    """Frobenius norm (..., n) of diag(g) - g g^T / sum(g) with g_i = p_i^(2 - alpha) where p_i > 0, else 0.

    It is sum(g) times the norm of the softmax's Jacobian at g / sum(g) (Peters et al. 2019).
    """
    g = weights.clamp(min=0.0).pow(2.0 - alpha).where(weights > 0, 0.0)
    total = g.sum(-1, keepdim=True)
    norms: Tensor = total[..., 0] * norm_of_softmax(g / total.where(total > 0, 1.0))
    return norms
