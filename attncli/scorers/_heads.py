"""A scorer whose parameters and options differ from head to head, as `attncli fit` learns them."""

from collections.abc import Callable, Mapping
from typing import Self

import torch
from torch import Tensor
from torch.func import functional_call

from attncli.attention import at_least_float32
from attncli.scorers._base import Scorer

QUERIES, KEYS = "P_q", "P_k"  # names of the matrices that queries and keys are multiplied with


class HeadScorer(Scorer):
    """The scores of `scorer` for queries (b, heads, n, q) and keys (b, heads, m, k), with `learnt` in place of its own.

    `learnt` has parameters of the scorer by their names in its state_dict, options by name, and matrices `P_q` (q, q)
    and `P_k` (k, k) for queries and keys. Each has a first axis with an entry for each head, or one for all heads.
    """

    def __init__(self, scorer: Scorer, learnt: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.scorer, self.learnt = scorer, dict(learnt)

    def _apply(self, function: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        self.learnt = {name: function(tensor) for name, tensor in self.learnt.items()}  # for another dtype or device
        return super()._apply(function, recurse)  # type: ignore[no-untyped-call, no-any-return]

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scores (b, heads, n, m)."""
        queries, keys, *learnt = at_least_float32(queries, keys, *self.learnt.values())
        values = dict(zip(self.learnt, learnt, strict=True))
        if QUERIES in values:
            queries, keys = queries @ values[QUERIES].mT, keys @ values[KEYS].mT
        own = dict(self.scorer.named_parameters())
        state = {name: tensor for name, tensor in values.items() if name in own}
        options = {name: tensor for name, tensor in values.items() if name in self.scorer.learnable}
        if self.scorer.stacks_over_heads:
            for name, tensor in options.items():
                setattr(self.scorer, name, tensor[:, None, None])
            scores: Tensor = functional_call(self.scorer, state, (queries, keys))
            return scores
        of_heads = list[Tensor]()
        for head in range(queries.shape[1]):
            for name, tensor in options.items():
                setattr(self.scorer, name, tensor[head % len(tensor)])
            some = {name: tensor[head % len(tensor)] for name, tensor in state.items()}
            of_heads.append(functional_call(self.scorer, some, (queries[:, head], keys[:, head])))
        return torch.stack(of_heads, 1)
