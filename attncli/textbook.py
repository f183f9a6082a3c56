"""Attention as textbooks write it: the yardstick of `attncli bench`, and a second opinion in tests.

Each function is its formula: no tiles, no masks, no care for memory or extreme numbers. Shapes are as in
`attncli.attention`.
"""

import math

import torch
from pydantic import PositiveInt
from torch import Tensor, nn


def additive_scores(queries: Tensor, keys: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> Tensor:
    """Return w_v . tanh(W_q q + W_k k) for queries (..., n, q), keys (..., m, k), W_q (h, q), W_k (h, k), w_v (h,).

    Holds all b n m h hidden units in memory twice, before and after the tanh.
    """
    hidden = (queries @ w_q.mT).unsqueeze(-2) + (keys @ w_k.mT).unsqueeze(-3)  # ... n m h
    return torch.tanh(hidden) @ w_v  # ... n m


def scaled_dot_scores(queries: Tensor, keys: Tensor) -> Tensor:
    """Return q . k / sqrt(d), (..., n, m), for queries (..., n, d) and keys (..., m, d)."""
    return queries @ keys.mT / math.sqrt(queries.shape[-1])  # ... n m


def attention(scores: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return output (..., n, v) and weights for scores (..., n, m) and values (..., m, v), without a mask."""
    weights = scores.softmax(-1)  # ... n m
    return weights @ values, weights  # ... n v


class Perceptron(nn.Module):
    """w_v . tanh([W_q, W_k] [q, k]) (D2L, "Additive attention": a perceptron on the concatenated query and key)

    A scorer for configs, as `attncli.textbook:Perceptron`: every pair of query and key is concatenated to a
    vector of q + k entries and multiplied by a matrix (h, q + k). Parameters have the same names as in `additive`.
    """

    def __init__(self, query_size: int, key_size: int, *, num_hiddens: PositiveInt = 8) -> None:
        super().__init__()
        self.W_q = nn.Linear(query_size, num_hiddens, bias=False)
        self.W_k = nn.Linear(key_size, num_hiddens, bias=False)
        self.w_v = nn.Linear(num_hiddens, 1, bias=False)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scores (..., n, m) of queries (..., n, q) and keys (..., m, k)."""
        n, m = queries.shape[-2], keys.shape[-2]
        first = queries.unsqueeze(-2).expand(*queries.shape[:-1], m, -1)  # ... n m q
        second = keys.unsqueeze(-3).expand(*keys.shape[:-2], n, -1, -1)  # ... n m k
        matrix = torch.cat([self.W_q.weight, self.W_k.weight], -1)  # h q + k
        hidden = torch.tanh(torch.cat([first, second], -1) @ matrix.mT)  # ... n m h
        scores: Tensor = self.w_v(hidden).squeeze(-1)  # ... n m
        return scores
