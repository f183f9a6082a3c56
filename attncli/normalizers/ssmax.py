import math
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from attncli.attention import softmax_over_valid
from attncli.normalizers._base import Normalizer, largest_score, norm_of_softmax, number_of_keys, steps_of_softmax


class Ssmax(Normalizer):
    """exp(c ln(m) s_j) / sum_i exp(c ln(m) s_i) for m valid keys (Nakanishi 2025, arXiv:2501.19399)

    Scalable softmax: the largest weight does not fade as the number of keys grows.
    """

    learnable: ClassVar = {"c": (0.0, math.inf)}

    def __init__(self, *, c: Annotated[float, Field(gt=0, description="factor beside ln(m)")] = 1.0) -> None:
        super().__init__()
        self.c = float(c)

    def forward(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """Return the weights (..., n, m) of scores (..., n, m), 0 where they are not valid."""
        # Softmax depends on differences only. After subtracting the largest score no product overflows to +inf.
        top, factor = largest_score(scores, valid), self._factor(scores, valid)
        below = scores - top
        if valid is not None:  # otherwise the gradient of c would be NaN in rows without a valid key
            below = below.masked_fill(~valid, 0.0)
        return softmax_over_valid(below * factor, valid)  # ... n m

    def jacobian_norm(self, weights: Tensor, valid: Tensor | None = None) -> Tensor:
        """Return the norm of c ln(m) (diag(p) - p p^T)."""
        return self._factor(weights, valid)[..., 0] * norm_of_softmax(weights)

    def steps(self, scores: Tensor, valid: Tensor | None = None) -> dict[str, Tensor]:
        """Return the factor, the scores times the factor, and the steps of their softmax."""
        factor = self._factor(scores, valid)
        return {"c ln(m)": factor, "z = c ln(m) s": factor * scores, **steps_of_softmax(factor * scores, valid, "z")}

    def _factor(self, scores: Tensor, valid: Tensor | None) -> Tensor:
        factor = self.c * number_of_keys(scores, valid).log()  # ... n|1 1
        return factor.clamp(max=torch.finfo(scores.dtype).max)
