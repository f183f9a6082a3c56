"""Valid keys, for normalisers to which their number matters or an infinite score does harm."""

from collections.abc import Callable

import torch
from torch import Tensor


def number_of_keys(scores: Tensor, valid: Tensor | None) -> Tensor:
    """How many keys each query may attend to, (..., n or 1, 1) in the dtype of the scores, at least 1."""
    m = scores.shape[-1]
    if valid is None:
        return scores.new_full((1, 1), m)
    return valid.expand(*valid.shape[:-1], m).sum(-1, keepdim=True).clamp(min=1).to(scores.dtype)


def largest_score(scores: Tensor, valid: Tensor | None) -> Tensor:
    """The largest valid score of each query, (..., n, 1) and without a gradient; -inf without a valid key."""
    scores = scores.detach()
    return (scores if valid is None else scores.masked_fill(~valid, -torch.inf)).amax(-1, keepdim=True)


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
