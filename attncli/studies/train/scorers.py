"""Scorers with one more axis in front: those of several seeds at once, as parts of one model.

Each gives what the scorers of the catalogue give one by one, up to rounding; its parameters are theirs, stacked. All
work in formulas whose gradients torch knows by itself.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from attncli import textbook
from attncli.scorers import SCORERS
from attncli.studies.train.own import OneByOne, Own
from attncli.studies.train.stacked import Stacked

AS_THEY_ARE = ("dot", "scaled_dot", "cosine", "vector_sum")  # formulas without parameters that take any leading axes


class Alike(Stacked):
    """A formula without parameters, the same for all seeds."""

    def __init__(self, scorers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.scorer = scorers[0]

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return cast(Tensor, self.scorer(queries, keys))  # s n m


class StackedAdditive(Stacked):
    """Additive scores as textbooks write them: few pairs are scored, and torch knows the gradients of a tanh."""

    def __init__(self, scorers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.W_q, self.W_k, self.w_v = (_stacked(scorers, f"{name}.weight") for name in ("W_q", "W_k", "w_v"))

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        w_v = self.w_v.mT.unsqueeze(-3)  # s 1 h 1
        return textbook.additive_scores(queries, keys, self.W_q, self.W_k, w_v).squeeze(-1)  # s n m


class StackedGeneral(Stacked):
    """A bilinear form for each seed."""

    def __init__(self, scorers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.W = _stacked(scorers, "W.weight")

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return (queries @ self.W) @ keys.mT  # s n m


def stacked(name: str, scorers: Sequence[nn.Module], seeds: Sequence[int]) -> Stacked:
    """The scorers of several seeds, made from the same entry, as one; `name` is that of the entry's scorer.

    `seeds` are for random numbers that they draw as they score.
    """
    if name not in SCORERS:
        return Own(scorers, seeds)
    if name in AS_THEY_ARE:
        return Alike(scorers)
    return {"additive": StackedAdditive, "general": StackedGeneral}.get(name, OneByOne)(scorers)


def _stacked(scorers: Sequence[nn.Module], name: str) -> nn.Parameter:
    return nn.Parameter(torch.stack([scorer.get_parameter(name).detach() for scorer in scorers]))
