import torch
from torch import Tensor

from attncli.normalizers._base import Normalizer, number_of_keys


class Uniform(Normalizer):
    """1 / m for m valid keys, whatever the scores s are (D2L, "Attention pooling": average pooling)

    The weights without any scores: a baseline for every scorer. A score of -inf masks its key.
    """

    def forward(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """Return the weights (..., n, m) of scores (..., n, m), 0 where they are not valid."""
        attended = scores != -torch.inf
        attended = attended if valid is None else attended & valid
        weights = attended / number_of_keys(scores, attended)  # ... n m
        return scores.masked_fill(torch.ones_like(attended), 0.0) + weights  # training needs a gradient, which is 0

    def pooled(self, values: Tensor, counts: Tensor) -> Tensor:
        """Return the mean (..., n or 1, v) of the first values of each query, for the numbers of its valid keys."""
        sums = values.double().cumsum(-2)  # in float64, as differences of its rounding add up
        index = (counts - 1).expand(*values.shape[:-2], -1, 1)  # ... n 1
        return (sums.take_along_dim(index, -2) / counts).to(values.dtype)

    def steps(self, scores: Tensor, valid: Tensor | None = None) -> dict[str, Tensor]:
        """Return the number of valid keys, and the weights."""
        weights = self(scores, valid)
        return {"m": 1.0 / weights.amax(-1, keepdim=True), "1 / m": weights}

    def jacobian_norm(self, weights: Tensor, valid: Tensor | None = None) -> Tensor:
        """Return 0, since no score has an effect."""
        return torch.zeros_like(weights[..., 0])
