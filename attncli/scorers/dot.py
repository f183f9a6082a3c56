from torch import Tensor

from attncli.attention import at_least_float32
from attncli.scorers._base import Scorer, require_equal_sizes, steps_of_dot
from attncli.scorers._theory import Moments, Theory


class Dot(Scorer):
    """q . k (Luong et al. 2015, arXiv:1508.04025)

    No scale: with independent entries of mean 0 and variance 1, the variance of the scores is d. Queries and keys need
    the same size d.
    """

    scales_dot_product = True
    stacks_over_heads = True
    worth_compiling = False  # one matrix product, which is fast already

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        require_equal_sizes(query_size, key_size)

    def as_dot(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, float]:
        """Return queries (..., n, d), keys (..., m, d) and the factor 1."""
        queries, keys = at_least_float32(queries, keys)
        return queries, keys, 1.0

    def steps(self, queries: Tensor, keys: Tensor) -> dict[str, Tensor]:
        """Return the products and their sum, which is the score."""
        return steps_of_dot(*at_least_float32(queries, keys))

    def operations(self, n: int, m: int, query_size: int, key_size: int) -> int:
        """Count the formula's operations: a product and a sum for each entry of each pair."""
        return n * m * 2 * key_size

    def theory(self, moments: Moments) -> Theory:
        """Return mean and variance of a score."""
        return moments.of_dot()
