from torch import Tensor, nn

from attncli.attention import at_least_float32


class General(nn.Module):
    """q . W k (Luong et al. 2015, arXiv:1508.04025)

    A bilinear form with one matrix W (q, k). Queries and keys may differ in size.
    """

    sizes_may_differ = True
    stacks_over_seeds = True
    worth_compiling = False  # one matrix product, which is fast already

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        self.W = nn.Linear(key_size, query_size, bias=False)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        queries, keys, _ = self.as_dot(queries, keys)
        return queries @ keys.mT  # ... n m

    def as_dot(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, float]:
        """Queries, keys and factor of the dot product that the scores are."""
        queries, keys, weight = at_least_float32(queries, keys, self.W.weight)
        return queries @ weight, keys, 1.0  # ... n k

    def operations(self, n: int, m: int, query_size: int, key_size: int) -> int:
        """Of the formula for n queries and m keys: W for each query, then a dot product for each pair."""
        return 2 * n * query_size * key_size + n * m * 2 * key_size
