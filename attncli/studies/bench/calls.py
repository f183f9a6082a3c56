"""What is called: every implementation of a scorer as a function of queries, keys and values."""

import copy
from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from attncli import textbook
from attncli.attention import attend

Result = Tensor | tuple[Tensor, Tensor]
Forward = Callable[[Tensor, Tensor, Tensor], Result]  # queries, keys, values -> scores, (output, weights) or output


class NotAvailableError(Exception):
    """An implementation that this machine cannot have, and why."""


def ours(scorer: nn.Module, measure: str) -> Forward:
    """The way of this package."""
    if measure == "scores":
        return lambda queries, keys, values: scorer(queries, keys)
    if measure == "weights":
        return lambda queries, keys, values: attend(scorer(queries, keys), values)
    from attncli.pooling import pool

    return lambda queries, keys, values: pool(scorer, queries, keys, values)


def compiled(scorer: nn.Module, measure: str) -> Forward:
    """The way of this package after torch.compile, which compiles `scorer` in place.

    Raises:
        NotAvailableError: no compiler.
    """
    from attncli.studies.compiling import compile_scorer

    reason = compile_scorer(scorer)
    if reason is not None:
        raise NotAvailableError(reason)
    return ours(scorer, measure)


def from_textbook(scorer: nn.Module, measure: str) -> Forward:
    """As textbooks write it, with the scorer's parameters."""
    return pooled(textbook_scores(scorer), measure)


def pooled(scores: Callable[[Tensor, Tensor], Tensor], measure: str) -> Forward:
    """Scores, and the textbook's softmax and sum of values after them where they are asked for."""
    if measure == "scores":
        return lambda queries, keys, values: scores(queries, keys)
    if measure == "weights":
        return lambda queries, keys, values: textbook.attention(scores(queries, keys), values)
    return lambda queries, keys, values: textbook.attention(scores(queries, keys), values)[0]


def textbook_scores(scorer: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """Additive and scaled dot-product scores; the parameters are the scorer's own tensors."""
    if not hasattr(scorer, "w_v"):
        return textbook.scaled_dot_scores
    w_q, w_k, w_v = (getattr(scorer, name).weight for name in ("W_q", "W_k", "w_v"))
    return lambda queries, keys: textbook.additive_scores(queries, keys, w_q, w_k, w_v[0])


def fused(scorer: nn.Module, measure: str) -> Forward:
    """The kernel of torch, which takes (batch, heads, n, d) only, and no less."""
    scale = float(scorer.scale)  # type: ignore[arg-type]

    def output(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        if queries.ndim == 4:
            return F.scaled_dot_product_attention(queries, keys, values, scale=scale)
        queries, keys, values = (each.unsqueeze(-3) for each in (queries, keys, values))  # b 1 n d
        return F.scaled_dot_product_attention(queries, keys, values, scale=scale).squeeze(-3)

    return output


MAKERS = {"attncli": ours, "compiled": compiled, "textbook": from_textbook, "fused": fused}


def own_copy(scorer: nn.Module, implementation: str, like: Tensor) -> nn.Module:
    """The scorer for one implementation, since compiling changes it; textbook code computes in the inputs' dtype."""
    own = copy.deepcopy(scorer)
    return own.to(like.dtype) if implementation == "textbook" else own
