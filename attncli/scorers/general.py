from torch import Tensor, nn

from attncli.attention import at_least_float32
from attncli.scorers._base import Scorer
from attncli.scorers._theory import Moments, Theory


class General(Scorer):
    """q . W k (Luong et al. 2015, arXiv:1508.04025)

    A bilinear form with one matrix W (q, k). Queries and keys may differ in size.
    """

    sizes_may_differ = True
    stacks_over_heads = True
    worth_compiling = False  # one matrix product, which is fast already

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        self.W = nn.Linear(key_size, query_size, bias=False)

    def as_dot(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, float]:
        """Return queries times W, (..., n, k), keys (..., m, k) and the factor 1."""
        queries, keys, weight = at_least_float32(queries, keys, self.W.weight)
        return queries @ weight, keys, 1.0  # ... n k

    def steps(self, queries: Tensor, keys: Tensor) -> dict[str, Tensor]:
        """Return W k, its products with the entries of q, and their sum, which is the score."""
        queries, keys, weight = at_least_float32(queries, keys, self.W.weight)
        turned = keys @ weight.mT  # ... m q
        products = queries[..., :, None, :] * turned[..., None, :, :]  # ... n m q
        return {"W k": turned[..., None, :, :], "q_i (W k)_i": products, "q . W k": products.sum(-1)}

    def operations(self, n: int, m: int, query_size: int, key_size: int) -> int:
        """Count the formula's operations: a product with W for each query, and a dot product for each pair."""
        return 2 * n * query_size * key_size + n * m * 2 * key_size

    def theory(self, moments: Moments) -> Theory:
        """Return mean and variance of a score with W as it is; for mu = nu = rho = 0 the variance is s^2 t^2 |W|_F^2.

        `Moments` defines the symbols. With W drawn from U(-1/sqrt(d), 1/sqrt(d)), as torch does, that variance is
        about s^2 t^2 d / 3. The other terms come from the linear parts, mu t 1'W v and nu s u'W 1, and from the
        variance of u'W u, sum_{i<j} (W_ij + W_ji)^2 + (kurtosis - 1) sum_i W_ii^2 (Seber and Lee 2003, theorem 1.6).
        """
        mu, s, nu, t, rho = moments.mu, moments.s, moments.nu, moments.t, moments.rho
        w = self.W.weight.detach().double()  # q k
        columns, rows, diagonal = w.sum(0), w.sum(1), w.diagonal()
        form = float(w.square().sum())
        if rho:
            pairs = float((w + w.mT).triu(1).square().sum())
            form = (1.0 - rho**2) * form + rho**2 * (pairs + (moments.kurtosis - 1.0) * float(diagonal.square().sum()))
        of_u = nu * s * rows + (rho * mu * t * columns if rho else 0.0)
        linear = float(of_u.square().sum()) + (1.0 - rho**2) * (mu * t) ** 2 * float(columns.square().sum())
        return mu * nu * float(w.sum()) + rho * s * t * float(diagonal.sum()), linear + (s * t) ** 2 * form
