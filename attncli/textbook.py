"""Attention as textbooks write it: the yardstick of `attncli bench`, and a second opinion in tests.

Every line is the formula and nothing else: no tiles, no masks, no care for memory or for extreme numbers. Shapes as in
`attncli.attention`.
"""

import math

import torch
from torch import Tensor


def additive_scores(queries: Tensor, keys: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> Tensor:
    """Scores w_v . tanh(W_q q + W_k k) for queries (..., n, q), keys (..., m, k), W_q (h, q), W_k (h, k), w_v (h,).

    Holds all b n m h hidden units at once, twice: before and after the tanh.
    """
    hidden = (queries @ w_q.mT).unsqueeze(-2) + (keys @ w_k.mT).unsqueeze(-3)  # ... n m h
    return torch.tanh(hidden) @ w_v  # ... n m


def scaled_dot_scores(queries: Tensor, keys: Tensor) -> Tensor:
    """Scores q . k / sqrt(d) for queries (..., n, d) and keys (..., m, d)."""
    return queries @ keys.mT / math.sqrt(queries.shape[-1])  # ... n m


def attention(scores: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Output (..., n, v) and weights (..., n, m) for values (..., m, v), where nothing is masked."""
    weights = scores.softmax(-1)  # ... n m
    return weights @ values, weights  # ... n v
