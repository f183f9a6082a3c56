from collections.abc import Callable

from pydantic import PositiveInt
from torch import Tensor, nn

from attncli import textbook
from attncli.scorers._additive import WORKSPACE_BYTES, additive_scores


class Additive(nn.Module):
    """w_v . tanh(W_q q + W_k k) (Bahdanau et al. 2015, arXiv:1409.0473)

    A perceptron with one hidden layer of `num_hiddens` units and no bias. Its input is query and key together. Queries
    and keys may differ in size. Queries (..., n, q) and keys (..., m, k) give scores (..., n, m). Working memory is at
    most `workspace_bytes`, besides scores, gradients and float32 copies of half-precision parameters.
    """

    sizes_may_differ = True
    stacks_over_seeds = True
    workspace_bytes = WORKSPACE_BYTES

    def __init__(self, query_size: int, key_size: int, *, num_hiddens: PositiveInt = 8) -> None:
        super().__init__()
        self.W_q = nn.Linear(query_size, num_hiddens, bias=False)
        self.W_k = nn.Linear(key_size, num_hiddens, bias=False)
        self.w_v = nn.Linear(num_hiddens, 1, bias=False)
        self._fused = False

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        weights = (self.W_q.weight, self.W_k.weight, self.w_v.weight[0])
        return additive_scores(queries, keys, *weights, workspace=self.workspace_bytes, fused=self._fused)

    def compile(self, *args: object, **kwargs: object) -> None:
        """Let `torch.compile` fuse the work on each pair from now on; of the whole forward it could make nothing."""
        self._fused = True

    @property
    def as_in_textbooks(self) -> Callable[[Tensor, Tensor], Tensor]:
        """The textbook's code for these scores, with the same parameters."""
        weights = (self.W_q.weight, self.W_k.weight, self.w_v.weight[0])
        return lambda queries, keys: textbook.additive_scores(queries, keys, *weights)

    def operations(self, n: int, m: int, query_size: int, key_size: int) -> int:
        """Of the formula for n queries and m keys: projections; for each pair and unit 2 sums, a tanh, a product."""
        h = self.w_v.in_features
        return 2 * (n * query_size + m * key_size) * h + n * m * 4 * h
