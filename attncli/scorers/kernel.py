from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from attncli.attention import at_least_float32
from attncli.modes import outside_autocast
from attncli.scorers._base import Scorer
from attncli.scorers._sizes import require_equal_sizes
from attncli.scorers._steps import steps_of_dot


class Kernel(Scorer):
    """phi(q) . phi(k) (Katharopoulos et al. 2020, arXiv:2006.16236)

    With the normaliser `sum`, this is kernel attention, also known as linear attention. The feature map phi acts on
    each entry: `elu_plus_one` (x + 1 above 0, else exp(x)), `relu` or `exp`. So no score is negative. Queries and keys
    need the same size d.
    """

    stacks_over_seeds = True
    worth_compiling = False  # one matrix product, which is fast already
    linear_with = "sum"

    def __init__(
        self,
        query_size: int,
        key_size: int,
        *,
        phi: Annotated[
            Literal["elu_plus_one", "relu", "exp"], Field(description="feature map of queries and keys")
        ] = "elu_plus_one",
    ) -> None:
        super().__init__()
        require_equal_sizes(query_size, key_size)
        self.phi = {"elu_plus_one": _elu_plus_one, "relu": torch.relu, "exp": torch.exp}[phi]

    @outside_autocast
    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        queries, keys, _ = self.as_dot(queries, keys)
        return queries @ keys.mT  # ... n m

    def as_dot(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, float]:
        queries, keys = at_least_float32(queries, keys)
        return self.phi(queries), self.phi(keys), 1.0

    def steps(self, queries: Tensor, keys: Tensor) -> dict[str, Tensor]:
        """Return the features of queries and keys, their products, and the sum of these, which is the score."""
        queries, keys, _ = self.as_dot(queries, keys)
        products, scores = steps_of_dot(queries, keys).values()
        return {
            "phi(q)": queries[..., :, None, :],
            "phi(k)": keys[..., None, :, :],
            "phi(q)_i phi(k)_i": products,
            "phi(q) . phi(k)": scores,
        }

    def operations(self, n: int, m: int, query_size: int, key_size: int) -> int:
        """Count the formula's operations: phi of each entry, and a product and a sum for each entry of each pair."""
        return (n + m) * key_size + n * m * 2 * key_size


def _elu_plus_one(x: Tensor) -> Tensor:
    """Return ELU(x) + 1, without the cancellation of the 1 for x far below 0."""
    return torch.where(x > 0, x + 1.0, x.clamp(max=0.0).exp())
