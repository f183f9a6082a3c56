"""Slow, independent answers to check the fast code against: loops over Python floats, to be read as the formulas.

Every scorer of the catalogue has its oracle in `ORACLES`, under its name: `oracle(scorer, queries, keys, **options)`,
for queries (n, q) and keys (m, k), gives scores (n, m) in float64. Parameters are read from the scorer; options are
not, so that a scorer which misreads its options is caught: pass them to the oracle as well.

Every normaliser has its oracle in `NORMALIZERS`: `oracle(scores, **options)` gives the weights for the scores of a
query's valid keys, at least one. `weights_of` puts them into a matrix with a mask.
"""

import cmath
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Vector = Sequence[float]


def additive(scorer: nn.Module, queries: Tensor, keys: Tensor, *, num_hiddens: int = 8, bias: bool = False) -> Tensor:
    w_q, w_k, (w_v,) = (parameter(scorer, name) for name in ("W_q.weight", "W_k.weight", "w_v.weight"))
    b = scorer.state_dict()["W_q.bias"].double().tolist() if bias else [0.0] * num_hiddens

    def score(q: Vector, k: Vector) -> float:
        return math.fsum(w_v[h] * math.tanh(inner(w_q[h], q) + inner(w_k[h], k) + b[h]) for h in range(num_hiddens))

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


def kernel(scorer: nn.Module, queries: Tensor, keys: Tensor, *, phi: str = "elu_plus_one") -> Tensor:
    return for_each_pair(
        lambda q, k: inner(features(scorer, q, "q", phi), features(scorer, k, "k", phi)), queries, keys
    )


MAPS: dict[str, Callable[[float], float]] = {
    "elu_plus_one": lambda x: x + 1 if x > 0 else math.exp(x),
    "relu": lambda x: max(x, 0.0),
    "exp": math.exp,
}


def features(scorer: nn.Module, x: Vector, side: str, phi: str) -> Vector:
    """Return the features of a query or key: phi of each entry, or of a projection with the parameters of its side."""
    if phi in MAPS:
        return [*map(MAPS[phi], x)]
    a = scorer.state_dict()[f"a_{side}"].double().tolist()
    z = [inner(row, x) + each for row, each in zip(parameter(scorer, f"A_{side}"), a, strict=True)]
    return [max(each, 0.0) for each in z] if phi == "t2r" else [math.exp(sign * each) for sign in (1, -1) for each in z]


ORACLES: dict[str, Callable[..., Tensor]] = {
    "additive": additive,
    "scaled_dot": scaled_dot,
    "dot": dot,
    "general": general,
    "cosine": cosine,
    "gaussian": gaussian,
    "vector_sum": vector_sum,
    "kernel": kernel,
}


def softmax(scores: Vector) -> Vector:
    largest = max(scores)
    powers = [math.exp(score - largest) for score in scores]
    return [power / math.fsum(powers) for power in powers]


def softmax_plus_one(scores: Vector, *, sink: float = 0.0) -> Vector:
    return softmax([*scores, sink])[:-1]


def sigmoid(scores: Vector, *, bias: float | str = "-ln(m)") -> Vector:
    b = -math.log(len(scores)) if isinstance(bias, str) else bias
    return [1 / (1 + math.exp(-s - b)) if s + b > 0 else math.exp(s + b) / (1 + math.exp(s + b)) for s in scores]


def ssmax(scores: Vector, *, c: float = 1.0) -> Vector:
    return softmax([c * math.log(len(scores)) * score for score in scores])


def sparsemax(scores: Vector) -> Vector:
    """The k largest scores have a weight, with the largest k such that 1 + k s_k exceeds their sum (algorithm 1)."""
    ordered = sorted((score - max(scores) for score in scores), reverse=True)
    k = max(k for k in range(1, len(ordered) + 1) if 1 + k * ordered[k - 1] > math.fsum(ordered[:k]))
    threshold = (math.fsum(ordered[:k]) - 1) / k
    return [max(score - max(scores) - threshold, 0.0) for score in scores]


def entmax(scores: Vector, *, alpha: float = 1.5) -> Vector:
    """[(alpha - 1) s_j - t]_+ ^ (1 / (alpha - 1)), with t such that they sum to 1, by bisection to the last bit."""
    if alpha == 1:
        return softmax(scores)
    scaled = [(alpha - 1) * (score - max(scores)) for score in scores]

    def at(threshold: float) -> Vector:
        return [max(score - threshold, 0.0) ** (1 / (alpha - 1)) for score in scaled]

    low, high = -1.0, 0.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if math.fsum(at(middle)) >= 1 else (low, middle)
    weights = at(low)
    return [weight / math.fsum(weights) for weight in weights]


def relu(scores: Vector) -> Vector:
    return [max(score, 0.0) / len(scores) for score in scores]


def softpick(scores: Vector) -> Vector:
    """Times exp(-t), with the largest score t that is above 0, so that nothing overflows."""
    t = max(*scores, 0.0)
    sizes = [abs(math.expm1(s)) if t < 1 else abs(math.exp(s - t) - math.exp(-t)) for s in scores]
    total = math.fsum([1e-8 * (1.0 if t < 1 else math.exp(-t)), *sizes])
    return [size / total if s > 0 else 0.0 for s, size in zip(scores, sizes, strict=True)]


def stick_breaking(scores: Vector) -> Vector:
    left, weights = 1.0, list[float]()
    for share in reversed(sigmoid(scores, bias=0.0)):
        weights.append(share * left)
        left *= 1 - share
    return weights[::-1]


def shares(scores: Vector) -> Vector:
    total = math.fsum(score / (max(scores) or 1.0) for score in scores)
    return [score / (max(scores) or 1.0) / (total or 1.0) for score in scores]


def uniform(scores: Vector) -> Vector:
    return [1 / len(scores)] * len(scores)


NORMALIZERS: dict[str, Callable[..., Vector]] = {
    "softmax": softmax,
    "softmax_plus_one": softmax_plus_one,
    "sigmoid": sigmoid,
    "ssmax": ssmax,
    "sparsemax": sparsemax,
    "entmax": entmax,
    "relu": relu,
    "softpick": softpick,
    "stick_breaking": stick_breaking,
    "sum": shares,
    "uniform": uniform,
}


def weights_of(normalizer: str, scores: Tensor, valid: Tensor | None = None, **options: Any) -> Tensor:
    """Return weights (n, m) for scores (n, m) and booleans (n, m), True = may attend; 0 without a valid key."""
    seen = torch.ones(scores.shape, dtype=torch.bool) if valid is None else valid.expand(scores.shape)
    rows = []
    for row, may in zip(scores.tolist(), seen.tolist(), strict=True):
        places = [j for j, is_valid in enumerate(may) if is_valid]
        weights = NORMALIZERS[normalizer]([row[j] for j in places], **options) if places else []
        found = dict(zip(places, weights, strict=True))
        rows.append([found.get(j, 0.0) for j in range(len(row))])
    return matrix(rows)


def alibi_slopes(heads: int) -> Vector:
    """Return a geometric sequence with the first term and ratio 2^(-8/heads) if `heads` is a power of two.

    Otherwise return the slopes for the power of two below, then every other slope for the power of two above.
    """
    if math.log2(heads).is_integer():
        first = 2 ** (-8 / heads)
        return [first**power for power in range(1, heads + 1)]
    below = next(2**power for power in itertools.count() if 2 ** (power + 1) > heads)
    return [*alibi_slopes(below), *alibi_slopes(2 * below)[::2][: heads - below]]


def alibi(heads: int, n: int, m: int, first: int = 0) -> Tensor:
    """Return the bias (heads, n, m) if the first query has the position of key `first`."""
    slopes = alibi_slopes(heads)
    return torch.stack(
        [matrix([[-slope * abs(first + i - j) for j in range(m)] for i in range(n)]) for slope in slopes]
    )


def rotated(vectors: Tensor, first: int, theta: float = 1e4, pairs: str = "halves", share: float = 1.0) -> Tensor:
    """Return vectors (..., n, d) at positions `first`, `first` + 1, ...: each pair is a complex number that turns."""

    def at(position: int, vector: Vector) -> Vector:
        count, turned = round(share * len(vector)), [*vector]
        for t in range(count // 2):
            i, j = (t, t + count // 2) if pairs == "halves" else (2 * t, 2 * t + 1)
            z = complex(vector[i], vector[j]) * cmath.exp(1j * position * theta ** (-2 * t / count))
            turned[i], turned[j] = z.real, z.imag
        return turned

    return for_each_matrix(
        lambda rows: matrix([at(first + i, row) for i, row in enumerate(rows.tolist())]), vectors.double()
    )


def normed(norm: str, vectors: Tensor) -> Tensor:
    """Return each vector (..., d) after LayerNorm (`layer`) or RMSNorm (`rms`), without gain, epsilon 1e-6."""

    def of(vector: Vector) -> Vector:
        mean = math.fsum(vector) / len(vector) if norm == "layer" else 0.0
        squares = math.fsum((x - mean) ** 2 for x in vector) / len(vector)
        return [(x - mean) / math.sqrt(squares + 1e-6) for x in vector]

    return matrix([of(vector) for vector in vectors.reshape(-1, vectors.shape[-1]).tolist()]).reshape(vectors.shape)


def masked_softmax(scores: Tensor, valid: Tensor | None = None) -> Tensor:
    return weights_of("softmax", scores, valid)


def weighted_sum(weights: Tensor, values: Tensor) -> Tensor:
    """Return the output (n, v) for weights (n, m) and values (m, v)."""
    return matrix([[inner(row, column) for column in values.mT.tolist()] for row in weights.tolist()])


def entropy(weights: Vector) -> float:
    """Return -sum_j w_j ln w_j in nats; a weight of 0 adds nothing."""
    return -math.fsum(weight * math.log(weight) for weight in weights if weight > 0)


def for_each_matrix(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Apply `function` to the matrices in the last two axes, for each place on the broadcast leading axes."""
    leading = torch.broadcast_shapes(*(tensor.shape[:-2] for tensor in tensors))  # type: ignore[no-untyped-call]
    stacks = [tensor.expand(*leading, *tensor.shape[-2:]).reshape(-1, *tensor.shape[-2:]) for tensor in tensors]
    results = [function(*matrices) for matrices in zip(*stacks, strict=True)]
    return torch.stack(results).reshape(*leading, *results[0].shape)


def for_each_pair(score: Callable[[Vector, Vector], float], queries: Tensor, keys: Tensor) -> Tensor:
    return matrix([[score(q, k) for k in keys.tolist()] for q in queries.tolist()])


def slopes(function: Callable[[list[float]], Sequence[float]], point: Sequence[float]) -> list[list[float]]:
    """Return the derivatives of several numbers by each entry of the point, by central differences."""
    step, found = 1e-5, []
    for place in range(len(point)):
        ends = [function([x + sign * step * (i == place) for i, x in enumerate(point)]) for sign in (1, -1)]
        found.append([(above - below) / (2 * step) for above, below in zip(*ends, strict=True)])
    return found


def rounding(operations: float, dtype: torch.dtype = torch.float32) -> float:
    """Return a bound on the error of a result after so many operations, relative to the sizes that enter.

    Each operation errs by at most half of eps, in whatever order they are done, fused or not: a sum of n products has
    2 n. An exponential, logarithm or tanh counts as four, since libraries are right to two units in the last place.
    """
    return operations * torch.finfo(dtype).eps


def inner(a: Vector, b: Vector) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def parameter(scorer: nn.Module, name: str) -> list[list[float]]:
    rows: list[list[float]] = scorer.state_dict()[name].double().tolist()
    return rows


def matrix(rows: Sequence[Vector]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)
