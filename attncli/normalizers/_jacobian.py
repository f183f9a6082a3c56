"""The norm of the Jacobian of softmax and related normalisers."""

from torch import Tensor


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
