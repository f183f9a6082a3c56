import torch.nn.functional as F
from torch import Tensor

from attncli.normalizers._base import Normalizer, exponentials, largest_score, norm_of_softmax


class SoftmaxPlusOne(Normalizer):
    """exp(s_j) / (1 + sum_i exp(s_i)) (Miller 2023, "Attention is off by one")

    A query may attend to nothing: weights sum to less than 1, and nearly to 0 if all scores are far below 0. It is a
    softmax with an additional key of score 0 and a value of zeros.
    """

    def forward(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        if valid is None:
            return F.pad(scores, (0, 1)).softmax(-1)[..., :-1]
        weights = F.pad(scores.masked_fill(~valid, -float("inf")), (0, 1)).softmax(-1)[..., :-1]
        return weights.masked_fill(~valid, 0.0)  # ... n m; otherwise NaN at a valid key would reach masked keys

    def steps(self, scores: Tensor, valid: Tensor | None = None) -> dict[str, Tensor]:
        """Return the exponentials relative to the largest score or 0, the denominator, and the weights."""
        top = largest_score(scores, valid).clamp(min=0.0)
        powers = exponentials(scores - top, valid)
        one, total = (-top).exp(), powers.sum(-1, keepdim=True)
        return {
            "max = largest of s and 0": top,
            "exp(s - max)": powers,
            "sum of exp(s - max)": total,
            "exp(0 - max)": one,
            "exp(s - max) / (exp(0 - max) + sum)": powers / (one + total),
        }

    def jacobian_norm(self, weights: Tensor, valid: Tensor | None = None) -> Tensor:
        """Return the norm of diag(p) - p p^T for weights that sum to less than 1."""
        return norm_of_softmax(weights, (1.0 - weights.sum(-1)).clamp(min=0.0))
