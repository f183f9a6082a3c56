import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.normalizers._base import Normalizer

LINEAR = 40.0  # log(1 + exp(s)) is s from here on, in float64


class StickBreaking(Normalizer):
    """sigmoid(s_j) prod_{i > j} (1 - sigmoid(s_i)), the last key first (Tan et al. 2024, arXiv:2410.17980)

    The last valid key takes a share sigmoid(s_m) of a stick, the key before it a share of the rest, and so on. The
    weights sum to 1 minus the rest at the end. In the paper a query does not see its own key.
    """

    def forward(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """Return the weights (..., n, m) of scores (..., n, m), 0 where they are not valid."""
        visible, taken = _taken(scores, valid)
        weights = F.softplus(-visible, threshold=LINEAR).add_(taken).neg_().exp_()  # ... n m; in place: few tensors
        return weights if valid is None else weights.masked_fill(~valid, 0.0)

    def steps(self, scores: Tensor, valid: Tensor | None = None) -> dict[str, Tensor]:
        """Return the share of each key, the rest of the stick for it, and the weights."""
        visible, taken = _taken(scores, valid)
        share, left = "sigmoid(s)", "left = product of 1 - sigmoid(s) of later keys"
        return {share: visible.sigmoid(), left: (-taken).exp(), f"{share} * left": self(scores, valid)}

    def jacobian_norm(self, weights: Tensor, valid: Tensor | None = None) -> Tensor:
        """Return the norm of the matrix with p_j (1 - b_j) on its diagonal and -p_j b_i for i > j.

        The share of the stick that key j takes is b_j = p_j / (1 - sum_{i > j} p_i).
        """
        left = 1.0 - _after(weights)
        shares = (weights / left.where(left > 0, 1.0)).clamp(max=1.0)
        norms: Tensor = (weights.square() * ((1.0 - shares).square() + _after(shares.square()))).sum(-1).sqrt()
        return norms


def _taken(scores: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the scores, 0 at invalid keys, and minus the logarithm of the share that later keys leave, stably."""
    blocked = scores.new_zeros(1, 1, dtype=torch.bool) if valid is None else ~valid
    visible = scores.masked_fill(blocked, 0.0)
    return visible, _after(F.softplus(visible, threshold=LINEAR).masked_fill(blocked, 0.0))


def _after(terms: Tensor) -> Tensor:
    """Return the sum of the terms after each (..., m). Subtracting each from its own sum would lose digits."""
    return F.pad(terms[..., 1:], (0, 1)).flip(-1).cumsum_(-1).flip(-1)
