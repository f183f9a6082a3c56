from torch import Tensor

from attncli.normalizers._base import Normalizer


class Softpick(Normalizer):
    """max(exp(s_j) - 1, 0) / (1e-8 + sum_i |exp(s_i) - 1|) (Zuhri et al. 2025, arXiv:2504.20966)

    A key with a score of at most 0 has a weight of exactly 0. Scores below 0 still take from the others, so weights sum
    to at most 1: a query needs no sink to attend to nothing.
    """

    may_drop_keys = True

    def forward(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """Return the weights (..., n, m) of scores (..., n, m), 0 where they are not valid."""
        below, sizes = self._sizes(scores, valid)
        weights = (sizes * (scores > 0)) / (sizes.sum(-1, keepdim=True) - 1e-8 * below)  # ... n m
        return weights if valid is None else weights.masked_fill(~valid, 0.0)  # also beside NaN

    def steps(self, scores: Tensor, valid: Tensor | None = None) -> dict[str, Tensor]:
        """Return |exp(s) - 1| and its sum, both relative to the largest power, and the weights."""
        below, sizes = self._sizes(scores, valid)
        term = "|exp(s) - 1| exp(-max)"
        return {
            "exp(-max), max = largest of s and 0": below,
            term: -sizes,
            f"sum of {term}": -sizes.sum(-1, keepdim=True),
            f"{term} / (1e-8 exp(-max) + sum) where s > 0": self(scores, valid),
        }

    def _sizes(self, scores: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return exp(-t), with the largest score t or 0 if all are below, and -|exp(s) - 1| exp(-t), 0 at other keys.

        As (exp(-|s|) - 1) exp(max(s, 0) - t) no exponential overflows, and no digits of scores near 0 are lost.
        """
        scores = scores if valid is None else scores.masked_fill(~valid, 0.0)
        positive = scores.clamp(min=0.0)
        top = positive.detach().amax(-1, keepdim=True)
        return (-top).exp(), scores.abs().neg_().expm1_() * positive.sub_(top).exp_()  # in place: few tensors at once
