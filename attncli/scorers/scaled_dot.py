from typing import Literal

from pydantic import PositiveFloat
from torch import Tensor, nn

from attncli.attention import at_least_float32
from attncli.scorers._sizes import require_equal_sizes


class ScaledDot(nn.Module):
    """scale * q . k (Vaswani et al. 2017, arXiv:1706.03762)

    The scale is a factor, as in torch's `scaled_dot_product_attention`; 1/sqrt(d) keeps the variance at 1 where the
    entries of q and k are independent with mean 0 and variance 1. Needs queries and keys of one size d.
    """

    def __init__(
        self,
        query_size: int,
        key_size: int,
        *,
        scale: Literal["1/sqrt(d)", "1/d"] | PositiveFloat = "1/sqrt(d)",
    ) -> None:
        super().__init__()
        require_equal_sizes(query_size, key_size)
        named = {"1/sqrt(d)": key_size**-0.5, "1/d": 1.0 / key_size}
        self.scale = named[scale] if isinstance(scale, str) else float(scale)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        queries, keys, scale = self.as_dot(queries, keys)
        return (queries * scale) @ keys.mT  # ... n m

    def as_dot(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, float]:
        """Queries, keys and factor of the dot product that the scores are."""
        queries, keys = at_least_float32(queries, keys)
        return queries, keys, self.scale
