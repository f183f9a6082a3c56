import functools
import math
from collections.abc import Callable
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from attncli import textbook
from attncli.attention import at_least_float32
from attncli.core.modes import outside_autocast
from attncli.scorers._additive import WORKSPACE_BYTES, additive_scores
from attncli.scorers._base import Scorer
from attncli.scorers._theory import Moments, Theory, normal_rule

MOST_UNITS = 2**22  # hidden units of all pairs that are computed at once if each head has its parameters
LEAST = 1e-200  # in place of a standard deviation of 0, which would be a divisor


class Additive(Scorer):
    """w_v . tanh(W_q q + W_k k) (Bahdanau et al. 2015, arXiv:1409.0473)

    A perceptron of query and key with a hidden layer of `num_hiddens` units. Without `bias` the score is odd: if query
    and key both change their signs, so does the score, unlike a dot product. With it, a vector b is added to W_q q.
    Queries (..., n, q) and keys (..., m, k) give scores (..., n, m) and may differ in size. Working memory is at most
    `workspace_bytes`, besides scores, gradients and float32 copies of half-precision parameters.
    """

    sizes_may_differ = True
    stacks_over_heads = True
    workspace_bytes = WORKSPACE_BYTES
    theory_is_limit = True

    def __init__(
        self,
        query_size: int,
        key_size: int,
        *,
        num_hiddens: Annotated[int, Field(gt=0, description="number of hidden units")] = 8,
        bias: Annotated[bool, Field(description="whether the hidden units have a bias")] = False,
    ) -> None:
        super().__init__()
        self.W_q = nn.Linear(query_size, num_hiddens, bias=bias)
        self.W_k = nn.Linear(key_size, num_hiddens, bias=False)
        self.w_v = nn.Linear(num_hiddens, 1, bias=False)
        self._fused = False

    @outside_autocast
    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scores (..., n, m) of queries (..., n, q) and keys (..., m, k)."""
        queries, w_q, w_k, w_v = self._beside_bias(queries)
        if w_q.ndim == 2:
            return additive_scores(queries, keys, w_q, w_k, w_v, workspace=self.workspace_bytes, fused=self._fused)
        units = queries.shape[:-1].numel() * keys.shape[-2] * w_v.shape[-1]
        if units <= MOST_UNITS:  # one call for all heads
            queries, keys, w_q, w_k, w_v = at_least_float32(queries, keys, w_q, w_k, w_v)
            return textbook.additive_scores(queries, keys, w_q, w_k, w_v[:, None, :, None]).squeeze(-1)  # ... n m
        heads = w_q.shape[0]
        by_head = (tensor.expand(*tensor.shape[:-3], heads, -1, -1).unbind(-3) for tensor in (queries, keys))
        parameters = (w_q.unbind(0), w_k.unbind(0), w_v.unbind(0))
        return torch.stack([additive_scores(*arguments) for arguments in zip(*by_head, *parameters, strict=True)], -3)

    def _beside_bias(self, queries: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return queries, W_q, W_k and w_v. A bias is a further column of W_q, beside a further entry 1 of queries."""
        w_q, w_k, w_v = self.W_q.weight, self.W_k.weight, self.w_v.weight[..., 0, :]
        if self.W_q.bias is not None:
            queries = F.pad(queries, (0, 1), value=1.0)
            w_q = torch.cat([w_q, self.W_q.bias[..., None]], -1)
        return queries, w_q, w_k, w_v

    def compile(self, *args: object, **kwargs: object) -> None:
        """Use `torch.compile` for the work on each pair; it cannot compile the whole forward. Arguments are ignored."""
        self._fused = True

    @property
    def as_in_textbooks(self) -> Callable[[Tensor, Tensor], Tensor]:
        """Return the textbook implementation of these scores, a function of queries and keys (same parameters)."""

        def scores(queries: Tensor, keys: Tensor) -> Tensor:
            queries, *weights = self._beside_bias(queries)
            return textbook.additive_scores(queries, keys, *weights)

        return scores

    def steps(self, queries: Tensor, keys: Tensor) -> dict[str, Tensor]:
        """Return the projections, the hidden units, w_v and the score."""
        queries, w_q, w_k, w_v = self._beside_bias(queries)
        queries, keys, w_q, w_k, w_v = at_least_float32(queries, keys, w_q, w_k, w_v)
        of_query, of_key = (queries @ w_q.mT)[..., :, None, :], (keys @ w_k.mT)[..., None, :, :]
        hidden = (of_query + of_key).tanh()  # ... n m h
        projected = "W_q q" if self.W_q.bias is None else "W_q q + b"
        return {
            projected: of_query,
            "W_k k": of_key,
            f"tanh({projected} + W_k k)": hidden,
            "w_v": w_v[None, None],
            f"w_v . tanh({projected} + W_k k)": hidden @ w_v,
        }

    def operations(self, n: int, m: int, query_size: int, key_size: int) -> int:
        """Count the formula's operations: projections; for each pair and hidden unit 2 sums, a tanh and a product."""
        h = self.w_v.in_features
        biases = n * h if self.W_q.bias is not None else 0
        return 2 * (n * query_size + m * key_size) * h + biases + n * m * 4 * h

    def theory(self, moments: Moments) -> Theory:
        """Return mean and variance of a score, as limits for large d and many hidden units.

        Parameters are drawn from U(-1/sqrt(size), 1/sqrt(size)); `Moments` defines mu, s, nu and t.
        By the central limit theorem a hidden unit sees c + z: z ~ N(0, (s^2 + t^2) / 3) varies from pair to pair, and c
        ~ N(0, (mu^2 + nu^2) / 3) is fixed with the parameters. The entries of w_v have variance 1 / (3 h) and the h
        units are independent, so the variance is E[Var(tanh(c + z) | c)] / 3: 0.107 for standardised entries, for any
        d. The mean is 0 by symmetry for mu = nu = 0; otherwise it depends on the parameters. A bias, of variance
        1 / (3 d), is fixed, too.
        """
        of_bias = 0.0 if self.W_q.bias is None else self.W_q.in_features**-0.5
        fixed, drawn = math.hypot(moments.mu, moments.nu, of_bias), math.hypot(moments.s, moments.t)
        return None if fixed else 0.0, _variance_within(fixed / math.sqrt(3.0), drawn / math.sqrt(3.0)) / 3.0


@functools.cache
def _variance_within(fixed: float, drawn: float) -> float:
    """Return E[Var(tanh(c + z) | c)] for independent normal c and z of mean 0, given their standard deviations."""
    fixed, drawn = max(fixed, LEAST), max(drawn, LEAST)
    outer, shares = normal_rule(np.zeros(1), 1.0 / fixed, drawn / fixed)
    c = fixed * outer[:, None]
    inner, weights = normal_rule(-c / drawn, 1.0 / drawn)  # c z
    differences = np.tanh(c + drawn * inner) - np.tanh(c)  # tanh itself would lose the digits of a small variance
    variances = (weights * differences**2).sum(-1) - (weights * differences).sum(-1) ** 2
    return float(shares @ variances)
