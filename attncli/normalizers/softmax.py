from typing import Any

from torch import Tensor

from attncli.attention import softmax_over_valid
from attncli.normalizers._base import Normalizer, norm_of_softmax, steps_of_softmax


class Softmax(Normalizer):
    """exp(s_j) / sum_i exp(s_i) (Bridle 1990)

    The default: weights are positive, sum to 1, and depend only on the differences of scores.
    """

    def forward(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """Return the weights (..., n, m) of scores (..., n, m), 0 where they are not valid."""
        return softmax_over_valid(scores, valid)

    def steps(self, scores: Tensor, valid: Tensor | None = None) -> dict[str, Tensor]:
        """Return the largest score, the exponentials, their sum, and the weights."""
        return steps_of_softmax(scores, valid)

    def jacobian_norm(self, weights: Tensor, valid: Tensor | None = None) -> Tensor:
        """Return the norm of diag(p) - p p^T."""
        return norm_of_softmax(weights)


def is_softmax(normalizer: Any) -> bool:
    """Whether a normaliser, or its class, is softmax. Fused kernels and closed forms exist for softmax.

    False for subclasses, because they may compute other weights.
    """
    return normalizer is softmax_over_valid or Softmax in (normalizer, type(normalizer))
