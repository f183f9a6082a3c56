"""Attention as people write it, and a slow oracle for the captured tensors."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

B, H, N, M, D, V = 2, 4, 5, 7, 8, 6
GENERATOR = torch.Generator().manual_seed(0)


class Computed(nn.Module):
    """A module that computes a function of itself and its inputs, with these modules, parameters or numbers."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, value in parts.items():
            setattr(self, name, value)

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=GENERATOR)


QUERIES, KEYS, VALUES = normal(B, H, N, D), normal(B, H, M, D), normal(B, H, M, V)
MASK = torch.rand(B, 1, N, M, generator=GENERATOR) > 0.4
MASK[..., 0] = True
CAUSAL = torch.ones(N, M, dtype=torch.bool).tril()  # from the top left
BIAS = normal(1, H, N, M)
SCALE = D**-0.5


def slow(
    queries: Tensor, keys: Tensor, values: Tensor, scale: float, valid: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    """Return the output (b, h, n, d), computed one query at a time in float64 over its valid keys only."""
    b, h, n, _ = queries.shape
    m, groups = keys.shape[-2], h // keys.shape[1]
    valid = torch.ones(b, h, n, m, dtype=torch.bool) if valid is None else valid.expand(b, h, n, m)
    bias = torch.zeros(b, h, n, m) if bias is None else bias.expand(b, h, n, m)
    output = torch.zeros(b, h, n, values.shape[-1], dtype=torch.float64)
    for i in range(b):
        for j in range(h):
            for row in range(n):
                seen = [key for key in range(m) if bool(valid[i, j, row, key])]
                products = [math.fsum(queries[i, j, row].double() * keys[i, j // groups, key].double()) for key in seen]
                scores = [scale * each + float(bias[i, j, row, key]) for each, key in zip(products, seen, strict=True)]
                exponentials = [math.exp(score - max(scores)) for score in scores]
                for exponential, key in zip(exponentials, seen, strict=True):
                    weight = exponential / math.fsum(exponentials)
                    output[i, j, row] += weight * values[i, j // groups, key].double()
    return output


def as_d2l(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Heads are part of the batch, and the mask is written into a view of the scores."""
    queries, keys, values = (each.reshape(B * H, -1, each.shape[-1]) for each in (queries, keys, values))
    scores = torch.bmm(queries, keys.transpose(1, 2)) / math.sqrt(D)
    flat = scores.reshape(-1, M)
    flat[~CAUSAL.repeat(B * H, 1)] = -1e6
    return torch.bmm(F.softmax(flat.reshape(B * H, N, M), dim=-1), values).reshape(B, H, N, V)


def crossed_einsums(queries: Tensor, keys: Tensor, values: Tensor, order: str = "bnhm") -> Tensor:
    """Compute attention by einsum with the axis of heads after the queries, and scores in this order of axes."""
    queries, keys, values = (each.transpose(1, 2) for each in (queries, keys, values))
    weights = (torch.einsum(f"bnhd,bmhd->{order}", queries, keys) * SCALE).softmax(-1)
    return torch.einsum(f"{order},bmhv->bnhv", weights, values).transpose(1, 2)


def in_place(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    scores = queries @ keys.mT
    scores.mul_(SCALE).add_(BIAS)
    scores[..., ~CAUSAL] = -torch.inf
    return scores.softmax(-1) @ values


def of_scores(change: Callable[[Tensor], Tensor]) -> "Written":
    """Return attention whose scores are changed before the softmax."""
    return lambda q, k, v: change(q @ k.mT * SCALE).softmax(-1) @ v


Written = Callable[[Tensor, Tensor, Tensor], Tensor]
LEAST, FLOAT_MASK = torch.finfo(torch.float32).min, BIAS.masked_fill(~MASK, -torch.inf)
fused = F.scaled_dot_product_attention
# Each implementation with its mask and bias.
CASES: dict[str, tuple[Written, Tensor | None, Tensor | None]] = {
    "softmax": (lambda q, k, v: torch.softmax(q @ k.mT / math.sqrt(D), -1) @ v, None, None),
    "scaled before": (lambda q, k, v: torch.matmul((q * SCALE), k.transpose(-2, -1)).softmax(-1) @ v, None, None),
    "divided before": (lambda q, k, v: fused(q / 2, k / 4, v, scale=8 * SCALE), None, None),
    "masked_fill": (of_scores(lambda scores: scores.masked_fill(~MASK, -1e9)), MASK, None),
    "added bias and mask": (of_scores(lambda scores: scores + BIAS + (~MASK).float() * LEAST), MASK, BIAS),
    "subtracted bias": (of_scores(lambda scores: scores - -BIAS), None, BIAS),
    "where": (of_scores(lambda scores: torch.where(MASK, scores, LEAST)), MASK, None),
    "in place": (in_place, CAUSAL, BIAS),
    "d2l": (as_d2l, CAUSAL, None),
    "crossed einsum": (crossed_einsums, None, None),
    "sdpa": (lambda q, k, v: fused(q, k, v), None, None),
    "sdpa, boolean mask": (lambda q, k, v: fused(q, k, v, attn_mask=MASK), MASK, None),
    "sdpa, float mask": (lambda q, k, v: fused(q, k, v, FLOAT_MASK), MASK, BIAS),
    "sdpa, causal": (lambda q, k, v: fused(q, k, v, is_causal=True), CAUSAL, None),
}
