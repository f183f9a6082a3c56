"""The steps of a dot product, which several scorers share."""

from torch import Tensor


def steps_of_dot(queries: Tensor, keys: Tensor) -> dict[str, Tensor]:
    """Return the products q_i k_i of the entries of each pair, (..., n, m, d), and their sum q . k, (..., n, m)."""
    products = queries[..., :, None, :] * keys[..., None, :, :]  # ... n m d
    return {"q_i k_i": products, "q . k": products.sum(-1)}
