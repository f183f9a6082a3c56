"""The number of valid keys and their largest score."""

import torch
from torch import Tensor


def number_of_keys(scores: Tensor, valid: Tensor | None) -> Tensor:
    """Return the number of valid keys of each query, at least 1: (..., n or 1, 1) in the dtype of the scores."""
    m = scores.shape[-1]
    if valid is None:
        return scores.new_full((1, 1), m)
    return valid.expand(*valid.shape[:-1], m).sum(-1, keepdim=True).clamp(min=1).to(scores.dtype)


def largest_score(scores: Tensor, valid: Tensor | None) -> Tensor:
    """Return the largest valid score of each query, (..., n, 1), without a gradient; -inf if no key is valid."""
    scores = scores.detach()
    return (scores if valid is None else scores.masked_fill(~valid, -torch.inf)).amax(-1, keepdim=True)
