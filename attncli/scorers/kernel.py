from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attncli.attention import at_least_float32
from attncli.scorers._base import Scorer, require_equal_sizes, steps_of_dot

LEARNT = ("t2r", "hedgehog")  # feature maps with parameters
PARAMETERS = ("A_q", "a_q", "A_k", "a_k")
LARGEST = 30.0  # exponent of a feature: its square, summed, is far from float32's largest number


class Kernel(Scorer):
    """phi(q) . phi(k) (Katharopoulos et al. 2020, arXiv:2006.16236)

    With the normaliser `sum`, this is kernel attention, also known as linear attention. The feature map phi acts on
    each entry: `elu_plus_one` (x + 1 above 0, else exp(x)), `relu` or `exp`. Two maps have parameters to learn, a
    matrix A and a vector a for queries and others for keys: `t2r`, relu(A x + a) (Kasai et al. 2021, arXiv:2103.13076),
    and `hedgehog`, exp(A x + a) beside exp(-A x - a) (Zhang et al. 2024, arXiv:2402.04347). They start from a multiple
    of the identity. No score is negative. Queries and keys need the same size d.
    """

    stacks_over_heads = True
    worth_compiling = False  # one matrix product, which is fast already
    linear_with = "sum"
    short_names: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "linear": {"phi": "elu_plus_one", "normalizer": "sum"},
        "t2r": {"phi": "t2r", "normalizer": "sum"},
        "hedgehog": {"phi": "hedgehog", "normalizer": "sum"},
    }

    def __init__(
        self,
        query_size: int,
        key_size: int,
        *,
        phi: Annotated[
            Literal["elu_plus_one", "relu", "exp", "t2r", "hedgehog"],
            Field(description="feature map of queries and keys; t2r and hedgehog have parameters"),
        ] = "elu_plus_one",
    ) -> None:
        super().__init__()
        require_equal_sizes(query_size, key_size)
        self.phi = PHI[phi]
        for name in PARAMETERS:
            self.register_parameter(name, None)
        if phi in LEARNT:  # features of queries and keys multiply to a kernel of q . k / sqrt(d) at first
            self.A_q, self.A_k = (nn.Parameter(torch.eye(key_size) * key_size**-0.25) for _ in range(2))
            self.a_q, self.a_k = (nn.Parameter(torch.zeros(key_size)) for _ in range(2))

    def as_dot(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, float]:
        """Return the features of queries and of keys, (..., n, f) and (..., m, f), and the factor 1."""
        queries, keys = at_least_float32(queries, keys)
        if self.A_q is not None:
            A_q, a_q, A_k, a_k = (getattr(self, name).to(queries) for name in PARAMETERS)  # noqa: N806
            queries, keys = queries @ A_q.mT + a_q.unsqueeze(-2), keys @ A_k.mT + a_k.unsqueeze(-2)
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
        features = 2 * key_size if self.phi is _both_exponentials else key_size
        projections = 0 if self.A_q is None else 2 * key_size**2
        return (n + m) * (projections + features) + n * m * 2 * features


def _elu_plus_one(x: Tensor) -> Tensor:
    """Return ELU(x) + 1, without the cancellation of the 1 for x far below 0."""
    return torch.where(x > 0, x + 1.0, x.clamp(max=0.0).exp())


def _both_exponentials(x: Tensor) -> Tensor:
    """Return exp(x) and exp(-x), one after the other; larger exponents than 30 count as 30."""
    return torch.cat([x, -x], -1).clamp(max=LARGEST).exp()


PHI = {
    "elu_plus_one": _elu_plus_one,
    "relu": torch.relu,
    "exp": torch.exp,
    "t2r": torch.relu,
    "hedgehog": _both_exponentials,
}
