import math
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from attncli.normalizers._base import Normalizer, number_of_keys


class Sigmoid(Normalizer):
    """1 / (1 + exp(-s_j - b)) (Ramapuram et al. 2024, arXiv:2409.04431)

    Keys do not compete: a weight depends on the score of its key only, and weights need not sum to 1. With the
    bias b = -ln(m), for m valid keys, scores of 0 give weights that sum to about 1.
    """

    learnable: ClassVar = {"bias": (-math.inf, math.inf)}

    def __init__(
        self, *, bias: Annotated[Literal["-ln(m)"] | float, Field(description="added to each score")] = "-ln(m)"
    ) -> None:
        super().__init__()
        self.bias = bias

    def forward(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """Return the weights (..., n, m) of scores (..., n, m), 0 where they are not valid."""
        bias = self._added(number_of_keys(scores, valid))
        if valid is None:
            return (scores + bias).sigmoid()
        return (scores.masked_fill(~valid, 0.0) + bias).sigmoid().masked_fill(~valid, 0.0)  # ... n m

    def weigh_(self, scores: Tensor, counts: Tensor) -> Tensor:
        """Turn scores, -inf where not valid, into weights in place, for the number of valid keys of each query."""
        return scores.add_(self._added(counts.to(scores.dtype))).sigmoid_()

    def steps(self, scores: Tensor, valid: Tensor | None = None) -> dict[str, Tensor]:
        """Return the bias, the sum of scores and bias, and the weights."""
        bias = torch.as_tensor(self._added(number_of_keys(scores, valid))).to(scores).reshape(-1, 1)  # n|1 1
        return {"b": bias, "s + b": scores + bias, "1 / (1 + exp(-(s + b)))": self(scores, valid)}

    def jacobian_norm(self, weights: Tensor, valid: Tensor | None = None) -> Tensor:
        """Return the norm of diag(p (1 - p))."""
        norms: Tensor = (weights * (1.0 - weights)).norm(dim=-1)
        return norms

    def _added(self, counts: Tensor) -> Tensor | float:
        """Return the number that is added to scores, for the numbers of valid keys (..., n or 1, 1)."""
        return -counts.log() if isinstance(self.bias, str) else self.bias
