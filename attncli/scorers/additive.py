import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from attncli.precision import at_least_float32

TILE_BYTES = 16 * 2**20  # of hidden units held at a time, beside the scores


class Additive(nn.Module):
    """w_v . tanh(W_q q + W_k k) (Bahdanau et al. 2015, arXiv:1409.0473)

    A perceptron with one hidden layer of `num_hiddens` units on query and key together, without bias terms; query and
    key may differ in size. Queries (..., n, q) and keys (..., m, k) give scores (..., n, m).
    """

    def __init__(self, query_size: int, key_size: int, *, num_hiddens: PositiveInt = 8) -> None:
        super().__init__()
        self.W_q = nn.Linear(query_size, num_hiddens, bias=False)
        self.W_k = nn.Linear(key_size, num_hiddens, bias=False)
        self.w_v = nn.Linear(num_hiddens, 1, bias=False)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        queries, keys, w_q, w_k, w_v = at_least_float32(
            queries, keys, self.W_q.weight, self.W_k.weight, self.w_v.weight
        )
        return tiled_additive(queries @ w_q.mT, keys @ w_k.mT, w_v[0])


def tiled_additive(queries: Tensor, keys: Tensor, w_v: Tensor) -> Tensor:
    """w_v . tanh(queries_i + keys_j) for projections (..., n, h) and (..., m, h), in tiles of at most TILE_BYTES.

    The textbook form holds all n x m x h hidden units of a batch at once; a tile holds them for a few queries and keys
    of one batch element, or for a few small batch elements, so that memory beside the scores (..., n, m) does not grow
    with any size.
    """
    leading = (queries[..., 0, 0] + keys[..., 0, 0]).shape  # torch.broadcast_shapes would load sympy
    n, m, h = queries.shape[-2], keys.shape[-2], queries.shape[-1]
    queries = queries.expand(*leading, n, h).reshape(-1, n, h)  # b n h
    keys = keys.expand(*leading, m, h).reshape(-1, m, h)  # b m h
    room = max(TILE_BYTES // (h * queries.element_size()), 1)  # query-key pairs a tile may hold
    columns = min(m, room)
    rows = max(room // columns, 1)
    together = max(room // (n * m), 1)  # batch elements in one tile, where all their pairs fit
    tiles = []
    for some, some_keys in zip(torch.split(queries, together), torch.split(keys, together), strict=True):
        blocks = [[_pairs(q, k, w_v) for k in torch.split(some_keys, columns, 1)] for q in torch.split(some, rows, 1)]
        tiles.append(torch.cat([torch.cat(block, 2) for block in blocks], 1))
    return torch.cat(tiles).reshape(*leading, n, m)  # ... n m


def _pairs(queries: Tensor, keys: Tensor, w_v: Tensor) -> Tensor:
    return (queries[:, :, None, :] + keys[:, None, :, :]).tanh_() @ w_v  # b n m
