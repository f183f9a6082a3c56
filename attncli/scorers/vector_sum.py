from torch import Tensor

from attncli.attention import at_least_float32
from attncli.core.modes import outside_autocast
from attncli.scorers._base import Scorer, require_equal_sizes
from attncli.scorers._theory import Moments, Theory


class VectorSum(Scorer):
    """sum_i (q_i + k_i) (D2L, exercise on a vector sum)

    The query adds the same amount to every key's score, so it cancels in the softmax: all rows of weights are equal.
    Queries and keys need the same size d.
    """

    stacks_over_heads = True
    worth_compiling = False  # sums

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        require_equal_sizes(query_size, key_size)

    @outside_autocast
    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scores (..., n, m) of queries (..., n, d) and keys (..., m, d)."""
        queries, keys = at_least_float32(queries, keys)
        return queries.sum(-1)[..., :, None] + keys.sum(-1)[..., None, :]  # ... n m

    def steps(self, queries: Tensor, keys: Tensor) -> dict[str, Tensor]:
        """Return the sums of the query's and the key's entries, and their sum, which is the score."""
        queries, keys = at_least_float32(queries, keys)
        of_query, of_key = queries.sum(-1)[..., :, None], keys.sum(-1)[..., None, :]
        return {"sum_i q_i": of_query, "sum_i k_i": of_key, "sum_i q_i + sum_i k_i": of_query + of_key}

    def operations(self, n: int, m: int, query_size: int, key_size: int) -> int:
        """Count the formula's operations: the sum of each query and key, and an addition for each pair."""
        return (n + m) * key_size + n * m

    def theory(self, moments: Moments) -> Theory:
        """Return mean and variance of a score, a sum of d independent q_i + k_i."""
        d, s, t, rho = moments.d, moments.s, moments.t, moments.rho
        return d * (moments.mu + moments.nu), d * ((s + rho * t) ** 2 + (1.0 - rho**2) * t**2)
