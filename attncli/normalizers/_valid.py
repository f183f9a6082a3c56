"""Valid keys, for normalisers to which their number or the largest score matters."""

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
