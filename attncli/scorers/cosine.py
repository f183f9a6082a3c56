import torch
from pydantic import PositiveFloat
from torch import Tensor, nn

from attncli.attention import at_least_float32
from attncli.scorers._sizes import require_equal_sizes


class Cosine(nn.Module):
    """scale * q . k / (|q| |k|) (Graves et al. 2014, arXiv:1410.5401)

    The lengths of queries and keys do not matter. Scores lie between -scale and scale; a zero vector scores 0. Queries
    and keys need the same size d.
    """

    stacks_over_seeds = True
    worth_compiling = False  # one matrix product, which is fast already

    def __init__(self, query_size: int, key_size: int, *, scale: PositiveFloat = 1.0) -> None:
        super().__init__()
        require_equal_sizes(query_size, key_size)
        self.scale = float(scale)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        queries, keys, scale = self.as_dot(queries, keys)
        return (queries * scale) @ keys.mT  # ... n m

    def as_dot(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, float]:
        """Queries, keys and factor of the dot product that the scores are."""
        queries, keys = at_least_float32(queries, keys)
        return unit(queries), unit(keys), self.scale

    def operations(self, n: int, m: int, query_size: int, key_size: int) -> int:
        """Of the formula for n queries and m keys: lengths; for each pair q . k, a product and a quotient."""
        return (n + m) * (2 * key_size + 1) + n * m * (2 * key_size + 2)


def unit(vectors: Tensor) -> Tensor:
    """Vectors (..., d) at length 1, a zero vector left at zero; no overflow or underflow whatever their length."""
    largest = vectors.abs().amax(-1, keepdim=True)
    vectors = vectors / torch.where(largest == 0, 1.0, largest)
    length = vectors.norm(dim=-1, keepdim=True)
    return vectors / torch.where(length == 0, 1.0, length)
