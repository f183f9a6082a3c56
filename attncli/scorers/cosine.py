from typing import Annotated, ClassVar

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor

from attncli.attention import at_least_float32
from attncli.scorers._base import POSITIVE, Scorer, require_equal_sizes, steps_of_dot
from attncli.scorers._theory import Moments, Theory


class Cosine(Scorer):
    """scale * q . k / (|q| |k|) (Graves et al. 2014, arXiv:1410.5401)

    The norms of queries and keys do not matter. Scores lie between -scale and scale; a zero vector scores 0. Queries
    and keys need the same size d.
    """

    stacks_over_heads = True
    learnable: ClassVar = {"scale": POSITIVE}
    worth_compiling = False  # one matrix product, which is fast already

    def __init__(
        self,
        query_size: int,
        key_size: int,
        *,
        scale: Annotated[PositiveFloat, Field(description="factor of the cosine, and largest score")] = 1.0,
    ) -> None:
        super().__init__()
        require_equal_sizes(query_size, key_size)
        self.scale = float(scale)

    def as_dot(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, float]:
        """Return queries (..., n, d) and keys (..., m, d) of norm 1, and the scale."""
        queries, keys = at_least_float32(queries, keys)
        return unit(queries), unit(keys), self.scale

    def steps(self, queries: Tensor, keys: Tensor) -> dict[str, Tensor]:
        """Return the products, their sum, the norms, the scale and the score."""
        queries, keys = at_least_float32(queries, keys)
        return {
            **steps_of_dot(queries, keys),
            "|q|": queries.norm(dim=-1)[..., :, None],  # ... n 1
            "|k|": keys.norm(dim=-1)[..., None, :],  # ... 1 m
            "scale": queries.new_tensor(self.scale),
            "scale * q . k / (|q| |k|)": self(queries, keys),
        }

    def operations(self, n: int, m: int, query_size: int, key_size: int) -> int:
        """Count the formula's operations: norms, and for each pair a dot product, a product and a quotient."""
        return (n + m) * (2 * key_size + 1) + n * m * (2 * key_size + 2)

    def theory(self, moments: Moments) -> Theory:
        """Return mean 0 and variance scale^2 / d, exact for any distribution if one side has mean 0 and rho is 0.

        Let a = q / |q| and b = k / |k|. Signs are symmetric and independent, so the mixed terms of E (sum_i a_i b_i)^2
        vanish. E a_i^2 = 1/d on the side of mean 0, and sum_i E b_i^2 = 1 on the other. Zero vectors have no b_i.
        """
        varies = moments.s and moments.t and not moments.zero_vectors
        if moments.rho or (moments.mu and moments.nu) or not varies:
            return None, None
        return 0.0, self.scale * self.scale * (1.0 / moments.d)


def unit(vectors: Tensor) -> Tensor:
    """Return vectors (..., d) scaled to norm 1, and zero vectors as zeros, without overflow or underflow."""
    largest = vectors.abs().amax(-1, keepdim=True)
    vectors = vectors / torch.where(largest == 0, 1.0, largest)
    length = vectors.norm(dim=-1, keepdim=True)
    return vectors / torch.where(length == 0, 1.0, length)
