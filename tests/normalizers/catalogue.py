"""Normalisers with their options, and masks of every kind for scores (2, 3, 4, 5)."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attncli.attention import Rules
from attncli.normalizers import NORMALIZERS
from tests.reference import ORACLES, Vector, for_each_matrix, weights_of

# Each normaliser with default options, and with every option different from its default.
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "softmax_plus_one": [{}, {"sink": 1.5}],
    "sigmoid": [{}, {"bias": 0.0}, {"bias": -2}],
    "ssmax": [{}, {"c": 0.43}],
    "entmax": [{}, *({"alpha": alpha} for alpha in (1, 1.0001, 1.3, 2.0, 3.0))],
}
VARIANTS = [(name, options) for name in NORMALIZERS for options in OPTIONS.get(name, [{}])]

B, H, N, M = 2, 3, 4, 5
SHAPE = (B, H, N, M)


def mask(*shape: int, share: float = 0.6) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(3)) < share


MASKS: dict[str, Tensor | None] = {
    "none": None,
    "whole": mask(*SHAPE),
    "few": mask(*SHAPE, share=0.2),
    "all of it": torch.zeros(SHAPE, dtype=torch.bool),
    "lengths": (torch.arange(M) < torch.tensor([[0], [3]]))[:, None, None],  # b 1 1 m
    "causal": torch.ones(N, M, dtype=torch.bool).tril(),
    "a row": mask(1, M),
    "queries": torch.tensor([True, False, True, False])[:, None],  # n 1
    "elements": torch.tensor([True, False])[:, None, None, None],  # b 1 1 1
}


def whole(valid: Tensor | None) -> Tensor:
    return torch.ones(SHAPE, dtype=torch.bool) if valid is None else valid.expand(SHAPE)


def oracle(name: str, options: Mapping[str, Any], scores: Tensor, valid: Tensor | None = None) -> Tensor:
    """Return weights (..., n, m) in float64."""
    seen = torch.ones(scores.shape, dtype=torch.bool) if valid is None else valid.expand(scores.shape)
    return for_each_matrix(lambda s, v: weights_of(name, s, v, **options), scores.double(), seen)


def within_reach(name: str, scores: Tensor) -> Tensor:
    """Return the scores, or their absolute values if the normaliser refuses negative scores."""
    return scores if NORMALIZERS[name].lowest_score == -math.inf else scores.abs()


def scorer_of(name: str) -> str:
    """Return a scorer with scores that the normaliser accepts."""
    return "dot" if NORMALIZERS[name].lowest_score == -math.inf else "kernel"


def score(name: str, q: Vector, k: Vector) -> float:
    """Return the score of a pair by the oracle of `scorer_of`."""
    query, key = (torch.tensor([each], dtype=torch.float64) for each in (q, k))
    return float(ORACLES[scorer_of(name)](None, query, key))


def fitting(name: str, scorer: str, rules: Rules) -> tuple[str, Rules]:
    """Return the rules with this normaliser, and the scorer, changed if the normaliser refuses negative scores."""
    rules = replace(rules, normalizer=NORMALIZERS[name]())
    free = NORMALIZERS[name].lowest_score == -math.inf
    return (scorer, rules) if free else ("kernel", replace(rules, bias=None))
