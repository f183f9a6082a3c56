import torch.nn.functional as F
from torch import Tensor, nn

from attncli.normalizers._jacobian import norm_of_softmax


class SoftmaxPlusOne(nn.Module):
    """exp(s_j) / (1 + sum_i exp(s_i)) (Miller 2023, "Attention is off by one")

    A query may attend to nothing: weights sum to less than 1, and to next to nothing where all scores are far below 0.
    It is a softmax with one more key, whose score is 0 and whose value is a vector of zeros.
    """

    def forward(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        if valid is None:
            return F.pad(scores, (0, 1)).softmax(-1)[..., :-1]
        weights = F.pad(scores.masked_fill(~valid, -float("inf")), (0, 1)).softmax(-1)[..., :-1]
        return weights.masked_fill(~valid, 0.0)  # ... n m; NaN at a valid key would be NaN at masked ones, too

    def jacobian_norm(self, weights: Tensor, valid: Tensor | None = None) -> Tensor:
        """Of diag(p) - p p^T, where 1 - sum_i p_i is left to no key."""
        return norm_of_softmax(weights, (1.0 - weights.sum(-1)).clamp(min=0.0))
