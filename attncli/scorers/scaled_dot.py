from collections.abc import Callable
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveFloat
from torch import Tensor

from attncli import textbook
from attncli.attention import at_least_float32
from attncli.errors import InputError, got
from attncli.scorers._base import POSITIVE, Scorer, require_equal_sizes, steps_of_dot
from attncli.scorers._theory import Moments, Theory


class ScaledDot(Scorer):
    """scale * q . k (Vaswani et al. 2017, arXiv:1706.03762)

    The scale is a factor, as in torch's `scaled_dot_product_attention`. With independent entries of mean 0 and
    variance 1, the scale 1/sqrt(d) gives scores of variance 1. Queries and keys need the same size d. For a
    captured model, the scale `model` is its own scale.
    """

    scales_dot_product = True
    stacks_over_heads = True
    learnable: ClassVar = {"scale": POSITIVE}
    worth_compiling = False  # one matrix product, which is fast already
    has_fused_kernel = True

    def __init__(
        self,
        query_size: int,
        key_size: int,
        *,
        scale: Annotated[
            Literal["1/sqrt(d)", "1/d", "model"] | PositiveFloat,
            Field(description="factor of q . k; model: the scale of the captured model"),
        ] = "1/sqrt(d)",
    ) -> None:
        super().__init__()
        require_equal_sizes(query_size, key_size)
        if scale == "model":  # for a captured model the number replaces it before
            cure = "use a file of `attncli capture`, or 1/sqrt(d), 1/d or a number"
            raise InputError.of(got(scale, "no model was captured here", cure), ["scale"])
        factors = {"1/sqrt(d)": key_size**-0.5, "1/d": 1.0 / key_size}
        self.scale = factors[scale] if isinstance(scale, str) else float(scale)
        self._standard = scale == "1/sqrt(d)"

    def as_dot(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, float]:
        """Return queries (..., n, d), keys (..., m, d) and the scale."""
        queries, keys = at_least_float32(queries, keys)
        return queries, keys, self.scale

    def steps(self, queries: Tensor, keys: Tensor) -> dict[str, Tensor]:
        """Return the products, their sum, the scale and the score."""
        queries, keys = at_least_float32(queries, keys)
        steps = steps_of_dot(queries, keys)
        return {**steps, "scale": queries.new_tensor(self.scale), "scale * q . k": self.scale * steps["q . k"]}

    @property
    def as_in_textbooks(self) -> Callable[[Tensor, Tensor], Tensor] | None:
        """Return the textbook function of queries and keys for these scores; None if the scale is not 1/sqrt(d)."""
        return textbook.scaled_dot_scores if self._standard else None

    def operations(self, n: int, m: int, query_size: int, key_size: int) -> int:
        """Count the formula's operations: a product and a sum for each entry of each pair, and a factor."""
        return n * m * (2 * key_size + 1)

    def theory(self, moments: Moments) -> Theory:
        """Return mean and variance of a score."""
        return moments.of_dot(self.scale)
