from torch import Tensor

from attncli.normalizers._base import Normalizer, number_of_keys


class Relu(Normalizer):
    """max(s_j, 0) / m for m valid keys (Wortsman et al. 2023, arXiv:2309.08586)

    Keys do not compete, and weights need not sum to 1. If all its scores are negative, a query attends to nothing.
    """

    may_drop_keys = True

    def forward(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """Return the weights (..., n, m) of scores (..., n, m), 0 where they are not valid."""
        positive = scores.relu() if valid is None else scores.masked_fill(~valid, 0.0).relu()
        return positive / number_of_keys(scores, valid)  # ... n m

    def steps(self, scores: Tensor, valid: Tensor | None = None) -> dict[str, Tensor]:
        """Return the number of valid keys, the positive scores, and the weights."""
        return {"m": number_of_keys(scores, valid), "max(s, 0)": scores.relu(), "max(s, 0) / m": self(scores, valid)}

    def jacobian_norm(self, weights: Tensor, valid: Tensor | None = None) -> Tensor:
        """Return the norm of a diagonal matrix with 1/m for positive scores, else 0."""
        return (weights > 0).sum(-1).to(weights.dtype).sqrt() / number_of_keys(weights, valid)[..., 0]
