"""The base class of normalisers, with the defaults of the facts that each may state, and functions for several."""

import math
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn


class Normalizer(nn.Module):
    """A function from scores to weights; a subclass overrides the facts that differ for it.

    A normaliser is made with its options. Its `forward` takes scores (..., n, m) and `valid`, which is broadcast to
    them, or None, and returns weights (..., n, m) that are exactly 0 at invalid keys.
    """

    lowest_score = -math.inf  # a lower score at a valid key is an `InputError` with its place
    label = ""  # of the entry, for messages
    may_drop_keys = False  # the weight of a valid key can be exactly 0, not by rounding alone
    learnable: ClassVar[Mapping[str, tuple[float, float]]] = {}  # options that `attncli fit` learns, with their ranges
    learnt_from_outputs: ClassVar[Collection[str]] = ()  # of these: options that no divergence from a softmax can tell

    @property
    def formula(self) -> Any:
        """The module with the options: this one, or the user's inside of one with checks."""
        return self

    def jacobian_norm(self, weights: Tensor, valid: Tensor | None = None) -> Tensor | None:
        """Return the Frobenius norm (..., n) of the Jacobian of each query's weights with respect to its scores.

        None if it has no closed form.
        """
        return None

    def steps(self, scores: Tensor, valid: Tensor | None = None) -> dict[str, Tensor] | None:
        """Return the steps of the formula by name, in their order, for `attncli explain`; None without steps.

        The last are the weights. For scores (n, m) each broadcasts to (n, m); a number of a whole query is (n, 1) or
        (1, 1). `sum of X` is the sum of the step `X`. Each query has a valid key.
        """
        return None


def number_of_keys(scores: Tensor, valid: Tensor | None) -> Tensor:
    """Return the number of valid keys of each query, at least 1: (..., n or 1, 1) in the dtype of the scores."""
    m = scores.shape[-1]
    if valid is None:
        return scores.new_full((1, 1), m)
    return valid.expand(*valid.shape[:-1], m).sum(-1, keepdim=True).clamp(min=1).to(scores.dtype)


def largest_score(scores: Tensor, valid: Tensor | None) -> Tensor:
    """Return the largest valid score of each query, (..., n, 1), without a gradient; -inf if no key is valid."""
    scores = scores.detach()
    return (scores if valid is None else scores.masked_fill(~valid, -torch.inf)).amax(-1, keepdim=True)


def steps_of_softmax(scores: Tensor, valid: Tensor | None, name: str = "s") -> dict[str, Tensor]:
    """Return the steps of softmax: the largest score, the exponentials of scores minus it, their sum, the weights.

    Keys that are not `valid` have a weight of 0. `name` stands for the scores in the names of the steps.
    """
    top = largest_score(scores, valid)  # ... n 1
    powers = exponentials(scores - top, valid)
    total = powers.sum(-1, keepdim=True)
    term = f"exp({name} - max)"
    weights = powers / total.where(total > 0, 1.0)
    return {f"max = largest {name}": top, term: powers, f"sum of {term}": total, f"{term} / sum": weights}


def exponentials(scores: Tensor, valid: Tensor | None) -> Tensor:
    """Return exp(scores), and 0 at invalid keys."""
    return scores.exp() if valid is None else scores.masked_fill(~valid, -torch.inf).exp()


def norm_of_softmax(weights: Tensor, left: Tensor | float = 0.0) -> Tensor:
    """Return the Frobenius norm (..., n) of diag(p) - p p^T for weights p (..., n, m) that sum to 1 - left.

    Needs no m x m matrix. The square of the norm is sum_i p_i^2 - 2 sum_i p_i^3 + (sum_i p_i^2)^2, which loses all
    digits if a weight is nearly 1. So the largest weight p_a is separated: with r = sum_{i != a} p_i^2 the square is
    (p_a (1 - p_a))^2 + 2 p_a^2 r + sum_{i != a} (p_i (1 - p_i))^2 + r^2 - sum_{i != a} p_i^4,
    where 1 - p_a is the sum of the others and `left`.
    """
    largest, index = weights.max(-1, keepdim=True)
    others = weights.scatter(-1, index, 0.0)
    squares = others.square()
    r = squares.sum(-1)
    alone = (largest[..., 0] * (others.sum(-1) + left)).square() + 2.0 * largest[..., 0].square() * r
    among = (others * (1.0 - others)).square().sum(-1) + (r.square() - squares.square().sum(-1)).clamp(min=0.0)
    return (alone + among).sqrt()
