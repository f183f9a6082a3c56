"""Attention as people write it, and a slow oracle for the captured tensors."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

B, H, N, M, D, V = 2, 4, 5, 7, 8, 6
GENERATOR = torch.Generator().manual_seed(0)


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


def softmax(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return torch.softmax(queries @ keys.mT / math.sqrt(D), -1) @ values


def scaled_before(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return torch.matmul((queries * SCALE), keys.transpose(-2, -1)).softmax(-1).matmul(values)


def divided_before(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(queries / 2, keys / 4, values, scale=8 * SCALE)


def filled(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    scores: Tensor = queries @ keys.mT * SCALE
    return scores.masked_fill(~MASK, -1e9).softmax(-1) @ values


def added(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    mask = torch.zeros(MASK.shape).masked_fill(~MASK, torch.finfo(torch.float32).min)
    scores: Tensor = queries @ keys.mT * SCALE
    return (scores + BIAS + mask).softmax(-1) @ values


def subtracted(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    scores: Tensor = queries @ keys.mT * SCALE - -BIAS
    return scores.softmax(-1) @ values


def where(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    scores = queries @ keys.mT * SCALE
    masked: Tensor = torch.where(MASK, scores, torch.finfo(scores.dtype).min)
    return masked.softmax(-1) @ values


def in_place(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    scores = queries @ keys.mT
    scores.mul_(SCALE).add_(BIAS)
    scores[..., ~CAUSAL] = -torch.inf
    return scores.softmax(-1) @ values


def as_d2l(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Heads are part of the batch, and the mask is written into a view of the scores."""
    queries, keys, values = (each.reshape(B * H, -1, each.shape[-1]) for each in (queries, keys, values))
    scores = torch.bmm(queries, keys.transpose(1, 2)) / math.sqrt(D)
    flat = scores.reshape(-1, M)
    flat[~CAUSAL.repeat(B * H, 1)] = -1e6
    return torch.bmm(F.softmax(flat.reshape(B * H, N, M), dim=-1), values).reshape(B, H, N, V)


def einsums(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    scores = torch.einsum("bhnd,bhmd->bhnm", queries, keys) * SCALE
    return torch.einsum("bhnm,bhmv->bhnv", scores.softmax(-1), values)


def crossed_einsums(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Compute attention by einsum with the axis of heads after the queries, also in the scores."""
    queries, keys, values = (each.transpose(1, 2) for each in (queries, keys, values))
    weights = (torch.einsum("bnhd,bmhd->bnhm", queries, keys) * SCALE).softmax(-1)
    return torch.einsum("bnhm,bmhv->bnhv", weights, values).transpose(1, 2)


def fused(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(queries, keys, values)


def fused_boolean(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(queries, keys, values, attn_mask=MASK)


def fused_float(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(queries, keys, values, BIAS.masked_fill(~MASK, -torch.inf))


def fused_causal(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(queries, keys, values, is_causal=True)


Written = Callable[[Tensor, Tensor, Tensor], Tensor]
# Each implementation with its mask and bias.
CASES: dict[str, tuple[Written, Tensor | None, Tensor | None]] = {
    "softmax": (softmax, None, None),
    "scaled before": (scaled_before, None, None),
    "divided before": (divided_before, None, None),
    "masked_fill": (filled, MASK, None),
    "added bias and mask": (added, MASK, BIAS),
    "subtracted bias": (subtracted, None, BIAS),
    "where": (where, MASK, None),
    "in place": (in_place, CAUSAL, BIAS),
    "d2l": (as_d2l, CAUSAL, None),
    "einsum": (einsums, None, None),
    "crossed einsum": (crossed_einsums, None, None),
    "sdpa": (fused, None, None),
    "sdpa, boolean mask": (fused_boolean, MASK, None),
    "sdpa, float mask": (fused_float, MASK, BIAS),
    "sdpa, causal": (fused_causal, CAUSAL, None),
}
