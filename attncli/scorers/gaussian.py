import math
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from attncli.attention import at_least_float32
from attncli.core.modes import outside_autocast
from attncli.scorers._base import POSITIVE, Scorer, require_equal_sizes
from attncli.scorers._theory import Moments, Theory

WORTHWHILE = 16  # a matrix product is faster than differences for this size or more
LOST = 8  # the largest factor of rounding errors that the expanded square may add


class Gaussian(Scorer):
    """-|q - k|^2 / (2 sigma^2) (Nadaraya 1964, Watson 1964)

    With softmax, attention is Nadaraya-Watson regression with a Gaussian kernel of width sigma. Queries and keys need
    the same size d.
    """

    squares_entries = True
    stacks_over_heads = True
    learnable: ClassVar = {"sigma": POSITIVE}
    worth_compiling = False  # a matrix product and sums

    def __init__(
        self,
        query_size: int,
        key_size: int,
        *,
        sigma: Annotated[float, Field(ge=1e-9, le=1e9, description="width of the kernel")] = 1.0,
    ) -> None:
        super().__init__()
        require_equal_sizes(query_size, key_size)
        self.sigma = sigma

    @property
    def scale(self) -> float:
        """The factor of the negative squared distance."""
        return 1.0 / (2.0 * self.sigma**2)

    @outside_autocast
    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scores (..., n, m) of queries (..., n, d) and keys (..., m, d)."""
        queries, keys = at_least_float32(queries, keys)
        if queries.shape[-1] < WORTHWHILE:
            return self._direct(queries, keys)
        scores, keeps_digits = self._expanded(queries, keys)
        return scores if bool(keeps_digits.all()) else scores.where(keeps_digits, self._direct(queries, keys))

    def _direct(self, queries: Tensor, keys: Tensor) -> Tensor:
        distances = torch.cdist(queries, keys, compute_mode="donot_use_mm_for_euclid_dist")  # ... n m
        return -self.scale * distances.square()

    def _expanded(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores (..., n, m) from |q - k|^2 = |q|^2 - 2 q . k + |k|^2, and which keys (..., 1, m) keep digits.

        Scores lose digits if q and k, relative to the mean query, are much closer together than they are long. The mean
        is of queries only, and each key is judged alone, so padding among the keys cannot change the others.
        """
        centre = queries.mean(-2, keepdim=True)  # ... 1 d
        queries, keys = queries - centre, keys - centre
        of_queries, of_keys = (
            vectors.square().sum(-1, keepdim=True) * self.scale for vectors in (queries, keys)
        )  # ... 1
        scores = (queries * (2 * self.scale)) @ keys.mT  # ... n m
        scores = scores.sub_(of_queries).sub_(of_keys.mT)
        longest = of_queries.amax(-2, keepdim=True) + of_keys.mT  # ... 1 m
        return scores, scores.amax(-2, keepdim=True) <= longest / -LOST  # False for NaN

    def steps(self, queries: Tensor, keys: Tensor) -> dict[str, Tensor]:
        """Return the differences, the squared distance, its divisor and the score."""
        queries, keys = at_least_float32(queries, keys)
        differences = queries[..., :, None, :] - keys[..., None, :, :]  # ... n m d
        distances = differences.square().sum(-1)
        divisor = queries.new_tensor(1.0 / self.scale)
        return {
            "q_i - k_i": differences,
            "|q - k|^2": distances,
            "2 sigma^2": divisor,
            "-|q - k|^2 / (2 sigma^2)": -self.scale * distances,
        }

    def operations(self, n: int, m: int, query_size: int, key_size: int) -> int:
        """Count the formula's operations: for each pair differences, squares, their sum and a factor."""
        return n * m * (3 * key_size + 1)

    def theory(self, moments: Moments) -> Theory:
        """Return mean and variance of a score.

        With the symbols of `Moments`, q_i - k_i = delta + a u_i - b w_i, where delta = mu - nu, a = s - t rho and
        b = t sqrt(1 - rho^2). The variance of (a u_i - b w_i)^2 is (kurtosis - 1) (a^4 + b^4) + 4 a^2 b^2.
        """
        delta, t = moments.mu - moments.nu, moments.t
        a, b = moments.s - t * moments.rho, t * math.sqrt(1.0 - moments.rho**2)
        second = a**2 + b**2
        variance = (moments.kurtosis - 1.0) * (a**4 + b**4) + 4.0 * (a * b) ** 2 + 4.0 * delta**2 * second
        return -self.scale * (moments.d * (second + delta**2)), self.scale * self.scale * (moments.d * variance)
