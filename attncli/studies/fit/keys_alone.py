"""The reference `keys_alone`: how far scores get that do not depend on the query."""

import torch
from torch import Tensor, nn

from attncli.scorers import Scorer


class KeysAlone(Scorer):
    """w . k"""

    sizes_may_differ = True
    stacks_over_heads = True

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(key_size))

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scores (..., n, m), the same for each query."""
        scores = keys @ self.w[..., None]  # ... m 1
        return scores.mT.expand(*queries.shape[:-1], keys.shape[-2])
