from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from attncli.precision import at_least_float32
from attncli.scorers._sizes import require_equal_sizes


class Gaussian(nn.Module):
    """-|q - k|^2 / (2 sigma^2) (Nadaraya 1964, Watson 1964)

    Its softmax is Nadaraya-Watson regression with a Gaussian kernel of width sigma. Needs queries and keys of one
    size d.
    """

    def __init__(
        self, query_size: int, key_size: int, *, sigma: Annotated[float, Field(ge=1e-9, le=1e9)] = 1.0
    ) -> None:
        super().__init__()
        require_equal_sizes(query_size, key_size)
        self.scale = 1.0 / (2.0 * sigma**2)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        queries, keys = at_least_float32(queries, keys)
        # Differences, not the expanded square: that loses all digits where keys are close together but far from 0.
        distances = torch.cdist(queries, keys, compute_mode="donot_use_mm_for_euclid_dist")  # ... n m
        return -self.scale * distances.square()
