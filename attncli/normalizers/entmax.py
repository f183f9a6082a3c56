from functools import partial
from typing import Annotated, ClassVar

import torch
from entmax import entmax15, entmax_bisect, sparsemax
from pydantic import Field
from torch import Tensor

from attncli.attention import softmax_over_valid
from attncli.normalizers._base import Normalizer, largest_score, steps_of_softmax
from attncli.normalizers._entmax import norm_of_entmax, within_reach

NEAR = 1e-8  # closer to alpha = 1, softmax is more exact than bisection
TINY = 1e-37  # float32 holds half of it, and its double


class Entmax(Normalizer):
    """argmax_p of p . s + H_alpha(p), with Tsallis entropy H_alpha (Peters et al. 2019, arXiv:1905.05702)

    Softmax at alpha = 1, sparsemax at alpha = 2. Above 1, a key that scores 1/(alpha - 1) or more below
    the largest has a weight of exactly 0.
    """

    may_drop_keys = True
    learnable: ClassVar = {"alpha": (1.0, 2.0)}

    def __init__(
        self,
        *,
        alpha: Annotated[float, Field(ge=1, description="degree of sparsity: softmax at 1, sparsemax at 2")] = 1.5,
    ) -> None:
        super().__init__()
        self.alpha: float | Tensor = float(alpha)
        exact = {1.5: entmax15, 2.0: sparsemax}
        self._entmax = exact.get(self.alpha, partial(_bisected, alpha=self.alpha))

    def forward(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """Return the weights (..., n, m) of scores (..., n, m), 0 where they are not valid."""
        if isinstance(self.alpha, Tensor):  # for each head
            reach = (1.0 / (self.alpha.detach() - 1.0)).to(scores)
            return within_reach(_bisected, scores, valid, reach, self.alpha)  # ... n m
        if self.alpha < 1.0 + NEAR:
            return softmax_over_valid(scores, valid)
        return within_reach(self._entmax, scores, valid, max(1.0 / (self.alpha - 1.0), TINY))  # ... n m

    def steps(self, scores: Tensor, valid: Tensor | None = None) -> dict[str, Tensor]:
        """Return the scaled scores, the threshold, the differences above 0, and the weights: their power."""
        if self.alpha < 1.0 + NEAR:
            return steps_of_softmax(scores, valid)
        weights, power = self(scores, valid), self.alpha - 1.0
        scaled = power * scores
        threshold = power * largest_score(scores, valid) - weights.amax(-1, keepdim=True) ** power
        above = (scaled - threshold).relu()
        return {
            "z = (alpha - 1) s": scaled,
            "tau": threshold,
            "max(z - tau, 0)": above,
            "max(z - tau, 0) ^ (1 / (alpha - 1))": weights,
        }

    def jacobian_norm(self, weights: Tensor, valid: Tensor | None = None) -> Tensor:
        """Return the norm of diag(g) - g g^T / sum(g), where g = p^(2 - alpha) for positive weights p, else 0."""
        return norm_of_entmax(weights, float(self.alpha))


def _bisected(scores: Tensor, alpha: float | Tensor) -> Tensor:
    """Return the weights of rows of scores (n, m), by bisection of the threshold; alpha may be (n, 1)."""
    # In float64: near alpha = 1 a weight is a large power of a number near 1. Apple's devices have no float64.
    wide = (scores.cpu() if scores.device.type == "mps" else scores).double()
    halvings = 50
    if isinstance(alpha, Tensor):  # with learning, which is slow: halved as often as float32 or float64 can tell
        alpha, halvings = alpha.to(wide), 30 if scores.dtype == torch.float32 else 50
    weights: Tensor = entmax_bisect(wide, alpha, n_iter=halvings).to(scores)
    return weights
