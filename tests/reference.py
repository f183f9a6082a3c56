"""Slow, independent answers to check the fast code against: loops over Python floats, to be read as the formulas.

Every scorer of the catalogue has its oracle in `ORACLES`, under its name: `oracle(scorer, queries, keys, **options)`,
for queries (n, q) and keys (m, k), gives scores (n, m) in float64. Parameters are read from the scorer; options are
not, so that a scorer which misreads them is found out: pass the ones it was made with.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

Vector = Sequence[float]


def additive(scorer: nn.Module, queries: Tensor, keys: Tensor, *, num_hiddens: int = 8) -> Tensor:
    w_q, w_k, (w_v,) = (parameter(scorer, name) for name in ("W_q.weight", "W_k.weight", "w_v.weight"))

    def score(q: Vector, k: Vector) -> float:
        return math.fsum(w_v[h] * math.tanh(inner(w_q[h], q) + inner(w_k[h], k)) for h in range(num_hiddens))

    return for_each_pair(score, queries, keys)


def scaled_dot(scorer: nn.Module, queries: Tensor, keys: Tensor, *, scale: float | str = "1/sqrt(d)") -> Tensor:
    d = queries.shape[-1]
    factor = {"1/sqrt(d)": 1 / math.sqrt(d), "1/d": 1 / d}[scale] if isinstance(scale, str) else scale
    return for_each_pair(lambda q, k: factor * inner(q, k), queries, keys)


def dot(scorer: nn.Module, queries: Tensor, keys: Tensor) -> Tensor:
    return for_each_pair(inner, queries, keys)


def general(scorer: nn.Module, queries: Tensor, keys: Tensor) -> Tensor:
    w = parameter(scorer, "W.weight")
    return for_each_pair(lambda q, k: inner(q, [inner(row, k) for row in w]), queries, keys)


def cosine(scorer: nn.Module, queries: Tensor, keys: Tensor, *, scale: float = 1.0) -> Tensor:
    def score(q: Vector, k: Vector) -> float:
        lengths = math.hypot(*q) * math.hypot(*k)
        return scale * inner(q, k) / lengths if lengths > 0 else 0.0

    return for_each_pair(score, queries, keys)


def gaussian(scorer: nn.Module, queries: Tensor, keys: Tensor, *, sigma: float = 1.0) -> Tensor:
    return for_each_pair(lambda q, k: -(math.dist(q, k) ** 2) / (2 * sigma**2), queries, keys)


def vector_sum(scorer: nn.Module, queries: Tensor, keys: Tensor) -> Tensor:
    return for_each_pair(lambda q, k: math.fsum([*q, *k]), queries, keys)


ORACLES: dict[str, Callable[..., Tensor]] = {
    "additive": additive,
    "scaled_dot": scaled_dot,
    "dot": dot,
    "general": general,
    "cosine": cosine,
    "gaussian": gaussian,
    "vector_sum": vector_sum,
}


def masked_softmax(scores: Tensor, valid: Tensor | None = None) -> Tensor:
    """Weights (n, m) for scores (n, m) and booleans (n, m), True = may attend; a row without a valid key is all 0."""
    seen = torch.ones(scores.shape, dtype=torch.bool) if valid is None else valid.expand(scores.shape)
    return matrix([softmax(row, may) for row, may in zip(scores.tolist(), seen.tolist(), strict=True)])


def softmax(scores: Vector, valid: Sequence[bool]) -> list[float]:
    largest = max((score for score, may in zip(scores, valid, strict=True) if may), default=0.0)
    powers = [math.exp(score - largest) if may else 0.0 for score, may in zip(scores, valid, strict=True)]
    total = math.fsum(powers)
    return [power / total if total > 0 else 0.0 for power in powers]


def weighted_sum(weights: Tensor, values: Tensor) -> Tensor:
    """Attention pooling: weights (n, m) and values (m, v) give the output (n, v)."""
    return matrix([[inner(row, column) for column in values.mT.tolist()] for row in weights.tolist()])


def entropy(weights: Vector) -> float:
    """-sum_j w_j ln w_j in nats, where a weight of 0 adds nothing."""
    return -math.fsum(weight * math.log(weight) for weight in weights if weight > 0)


def for_each_matrix(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """`function` of the matrices in the last two axes, for each place on the leading axes, which are broadcast."""
    leading = torch.broadcast_shapes(*(tensor.shape[:-2] for tensor in tensors))  # type: ignore[no-untyped-call]
    stacks = [tensor.expand(*leading, *tensor.shape[-2:]).reshape(-1, *tensor.shape[-2:]) for tensor in tensors]
    results = [function(*matrices) for matrices in zip(*stacks, strict=True)]
    return torch.stack(results).reshape(*leading, *results[0].shape)


def for_each_pair(score: Callable[[Vector, Vector], float], queries: Tensor, keys: Tensor) -> Tensor:
    return matrix([[score(q, k) for k in keys.tolist()] for q in queries.tolist()])


def inner(a: Vector, b: Vector) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def parameter(scorer: nn.Module, name: str) -> list[list[float]]:
    rows: list[list[float]] = scorer.state_dict()[name].double().tolist()
    return rows


def matrix(rows: Sequence[Vector]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)
