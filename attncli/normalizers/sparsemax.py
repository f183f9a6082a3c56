import torch
from torch import Tensor

from attncli.normalizers._base import Normalizer
from attncli.normalizers._entmax import norm_of_entmax, within_reach


class Sparsemax(Normalizer):
    """the point of the simplex that is nearest to s (Martins and Astudillo 2016, arXiv:1602.02068)

    Weights sum to 1, and a key that scores 1 or more below the largest has a weight of exactly 0.
    """

    may_drop_keys = True

    def forward(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """Return the weights (..., n, m) of scores (..., n, m), 0 where they are not valid."""
        return within_reach(sparsemax, scores, valid, 1.0)  # ... n m

    def weigh_(self, scores: Tensor, counts: Tensor) -> Tensor:
        """Return the weights of scores, -inf where not valid; the scores are written over."""
        rows = scores.sub_(scores.amax(-1, keepdim=True)).clamp_(min=-1.0)  # lower ones have weights of 0, too
        return sparsemax(rows.flatten(0, -2)).view(scores.shape)

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


def sparsemax(scores: Tensor) -> Tensor:
    """Return the weights of rows of scores (n, m), max(s - tau, 0), with the threshold tau at which they sum to 1.

    Newton's method finds the threshold from below, in as many steps as the support shrinks (Michelot 1986). That is
    exact, and faster than sorting the scores.
    """
    with torch.no_grad():
        total, m = scores.sum(-1, keepdim=True), scores.shape[-1]
        tau, before = torch.maximum(scores.amax(-1, keepdim=True) - 1.0, (total - 1.0) / m), None
        while True:
            above = (scores - tau).relu_()
            excess, count = above.sum(-1, keepdim=True) - 1.0, above.sign_().sum(-1, keepdim=True)
            if before is not None and torch.equal(count, before):
                break
            tau, before = tau + (excess / count).clamp(min=0.0), count
    tau = ((scores * above).sum(-1, keepdim=True) - 1.0) / count  # with its gradient
    return (scores - tau).relu()
