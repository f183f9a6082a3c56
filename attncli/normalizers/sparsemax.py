from entmax import sparsemax
from torch import Tensor

from attncli.normalizers._base import Normalizer
from attncli.normalizers._entmax import norm_of_entmax, within_reach


class Sparsemax(Normalizer):
    """the point of the simplex that is nearest to s (Martins and Astudillo 2016, arXiv:1602.02068)

    Weights sum to 1, and a key that scores 1 or more below the largest has a weight of exactly 0.
    """

    def forward(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        return within_reach(sparsemax, scores, valid, 1.0)  # ... n m

    def steps(self, scores: Tensor, valid: Tensor | None = None) -> dict[str, Tensor]:
        """Return the threshold and the weights."""
        weights = self(scores, valid)
        support = weights > 0
        total = scores.where(support, 0.0).sum(-1, keepdim=True)
        threshold = (total - 1.0) / support.sum(-1, keepdim=True)  # the weights sum to 1
        return {"tau": threshold, "max(s - tau, 0)": weights}

    def jacobian_norm(self, weights: Tensor, valid: Tensor | None = None) -> Tensor:
        """Return the norm of diag(g) - g g^T / sum(g), where g is 1 for positive weights, else 0."""
        return norm_of_entmax(weights, 2.0)
