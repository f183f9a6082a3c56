import math
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from attncli.normalizers._base import Normalizer, exponentials, largest_score, norm_of_softmax


class SoftmaxPlusOne(Normalizer):
    """exp(s_j) / (exp(sink) + sum_i exp(s_i)) (Miller 2023, "Attention is off by one")

    A query may attend to nothing: weights sum to less than 1, and nearly to 0 if all scores are far below the sink. It
    is a softmax with an additional key, whose score is the sink (0, or learnt as by gpt-oss) and whose value is zeros.
    """

    learnable: ClassVar = {"sink": (-math.inf, math.inf)}
    learnt_from_outputs: ClassVar = ("sink",)

    def __init__(
        self, *, sink: Annotated[float | list[float], Field(description="of the additional key; or one per head")] = 0.0
    ) -> None:
        super().__init__()
        self.sink = torch.tensor(sink, dtype=torch.float64)[:, None, None] if isinstance(sink, list) else float(sink)

    def forward(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """Return the weights (..., n, m) of scores (..., n, m), 0 where they are not valid."""
        sink = self._sink(scores)
        visible = scores if valid is None else scores.masked_fill(~valid, -torch.inf)
        visible = torch.cat([visible, sink.expand(*visible.shape[:-1], 1)], -1)
        weights = visible.softmax(-1)[..., :-1]  # ... n m
        return weights if valid is None else weights.masked_fill(~valid, 0.0)  # or NaN would reach masked keys

    def steps(self, scores: Tensor, valid: Tensor | None = None) -> dict[str, Tensor]:
        """Return the exponentials relative to the largest score or the sink, the denominator, and the weights."""
        sink = self._sink(scores)
        top = torch.maximum(largest_score(scores, valid), sink)
        powers = exponentials(scores - top, valid)
        one, total = (sink - top).exp(), powers.sum(-1, keepdim=True)
        return {
            "max = largest of s and sink": top,
            "exp(s - max)": powers,
            "sum of exp(s - max)": total,
            "exp(sink - max)": one,
            "exp(s - max) / (exp(sink - max) + sum)": powers / (one + total),
        }

    def jacobian_norm(self, weights: Tensor, valid: Tensor | None = None) -> Tensor:
        """Return the norm of diag(p) - p p^T for weights that sum to less than 1."""
        return norm_of_softmax(weights, (1.0 - weights.sum(-1)).clamp(min=0.0))

    def _sink(self, scores: Tensor) -> Tensor:
        return torch.as_tensor(self.sink, dtype=scores.dtype, device=scores.device)  # with its gradient, if learnt
