"""A scorer whose parameters and options differ from head to head, as `attncli fit` learns them."""

import copy
from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.func import functional_call

from attncli.attention import at_least_float32
from attncli.scorers._base import Scorer

QUERIES, KEYS = "P_q", "P_k"  # names of the matrices that queries and keys are multiplied with


def by_head(learnt: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return learnt numbers, which have a first axis of heads, with two more axes, to broadcast to scores (h, n, m)."""
    return {name: tensor[:, None, None] for name, tensor in learnt.items()}


def put_options(module: nn.Module, values: Mapping[str, Any]) -> None:
    """Set the learnable options of a scorer or a normaliser that are among the values."""
    for name in {*getattr(module, "learnable", ())} & values.keys():
        setattr(module, name, values[name])


def head_normalizer(normalizer: Any, head: int) -> Any:
    """Return the normaliser with the options of one head, if it has a number for each."""
    copied = copy.deepcopy(normalizer)
    for name in getattr(copied.formula, "learnable", ()):
        if isinstance(numbers := getattr(copied.formula, name), Tensor):
            setattr(copied.formula, name, numbers.flatten()[head])
    return copied


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
        parameters = values.keys() & dict(self.scorer.named_parameters()).keys()
        if self.scorer.stacks_over_heads:
            put_options(self.scorer, by_head(values))
            scores: Tensor = functional_call(self.scorer, {name: values[name] for name in parameters}, (queries, keys))
            return scores
        of_heads = list[Tensor]()
        for head in range(queries.shape[1]):
            of_head = {name: tensor[head % len(tensor)] for name, tensor in values.items()}
            put_options(self.scorer, of_head)
            state = {name: of_head[name] for name in parameters}
            of_heads.append(functional_call(self.scorer, state, (queries[:, head], keys[:, head])))
        return torch.stack(of_heads, 1)
