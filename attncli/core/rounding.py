"""Attention in low precision, simulated in float32: inputs are rounded, or more as in a fused kernel, or each step.

Rounding has the gradient of the identity.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Way = Literal["inputs", "flash", "steps"]
DTYPES = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float8_e4m3": torch.float8_e4m3fn,
    "float8_e5m2": torch.float8_e5m2,
}
# The relative L2 by which two right computations of an output may differ, in the order of their operations alone.
LIMITS = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@dataclass(frozen=True)
class Rounding:
    """The way an entry rounds in low precision; without a dtype, it rounds nothing.

    With `inputs` queries, keys and values are rounded to the dtype. With `flash` weights and output are rounded too, as
    in FlashAttention: weights relative to the largest, before they are divided by their sum, and the output as it is
    stored (Dao et al. 2022, arXiv:2205.14135). With `steps` every intermediate result is rounded.
    """

    dtype: torch.dtype | None = None
    way: Way = "inputs"

    def values(self, values: Tensor) -> Tensor:
        """Return the values, rounded unless in float8, in which kernels quantise queries and keys alone."""
        return values if self.dtype is None or self.dtype.itemsize == 1 else self._rounded(values)

    def vectors(self, vectors: Tensor) -> Tensor:
        """Return rounded queries or keys (..., d); in float8 each is scaled first, so that no number is too large."""
        if self.dtype is None or self.dtype.itemsize > 1:
            return vectors if self.dtype is None else self._rounded(vectors)
        largest = vectors.detach().abs().amax(-1, keepdim=True)
        factor = torch.finfo(self.dtype).max / largest.where(largest > 0, 1.0)
        return self._rounded(vectors * factor) / factor

    def step(self, result: Tensor) -> Tensor:
        """Return scores, rounded if every step is (`steps`)."""
        return self._rounded(result) if self.way == "steps" else result

    def output(self, output: Tensor) -> Tensor:
        """Return the output (..., n, v), rounded with `flash` or `steps`."""
        return output if self.way == "inputs" else self._rounded(output)

    def weights(self, weights: Tensor) -> Tensor:
        """Return weights (..., n, m), rounded with `flash` or `steps`."""
        if self.way != "flash":
            return self.step(weights)
        largest = weights.detach().amax(-1, keepdim=True)
        largest = largest.where(largest > 0, 1.0)
        return self._rounded(weights / largest) * largest

    def _rounded(self, numbers: Tensor) -> Tensor:
        rounded = numbers.detach().to(self.dtype).to(numbers.dtype)  # ties to even
        return numbers + (rounded - numbers.detach()) if numbers.requires_grad else rounded
