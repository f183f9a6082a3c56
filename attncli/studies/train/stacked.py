"""Scorers of several seeds as parts of one model: scores (s, n, m) of queries (s, n, q) and keys (s, m, k).

`s` counts the seeds. Each scorer gives what those of the catalogue give one by one, up to rounding, with their
parameters stacked. All work in formulas whose gradients torch knows by itself.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, nn

from attncli import textbook
from attncli.errors import InputError
from attncli.inputs.seeding import seeded
from attncli.scorers import SCORERS
from attncli.scorers._custom import raised
from attncli.studies.memory import ran_out
from attncli.studies.scoring import raw_scores

AS_THEY_ARE = ("dot", "scaled_dot", "cosine", "vector_sum")  # formulas without parameters that take any leading axes


def stacked(name: str, scorers: Sequence[nn.Module], seeds: Sequence[int]) -> "Stacked":
    """The scorers of several seeds, made from the same entry, as one; `name` is that of the entry's scorer.

    `seeds` are for random numbers that scorers of the user's own draw.
    """
    if name not in SCORERS:
        return Own(scorers, seeds)
    if name in AS_THEY_ARE:
        return Alike(scorers)
    return {"additive": StackedAdditive, "general": StackedGeneral}.get(name, OneByOne)(scorers)


class Stacked(nn.Module):
    """What all have in common."""

    def gradient_norms(self) -> list[Tensor]:
        """Of every parameter the norm of its gradient, one number a seed (s,)."""
        return [norms_by_seed(parameter) for parameter in self.parameters()]


class Alike(Stacked):
    """A formula without parameters, the same for all seeds."""

    def __init__(self, scorers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.scorer = scorers[0]

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return cast(Tensor, self.scorer(queries, keys))  # s n m


class StackedAdditive(Stacked):
    """Additive scores as textbooks write them: few pairs are scored, and torch knows the gradients of a tanh."""

    def __init__(self, scorers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.W_q, self.W_k, self.w_v = (_parameter(scorers, f"{name}.weight") for name in ("W_q", "W_k", "w_v"))

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        w_v = self.w_v.mT.unsqueeze(-3)  # s 1 h 1
        return textbook.additive_scores(queries, keys, self.W_q, self.W_k, w_v).squeeze(-1)  # s n m


class StackedGeneral(Stacked):
    """A bilinear form for each seed."""

    def __init__(self, scorers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.W = _parameter(scorers, "W.weight")

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return (queries @ self.W) @ keys.mT  # s n m


class OneByOne(Stacked):
    """Any scorers, each of which sees its own seed alone, such as those that look at all they are given."""

    def __init__(self, scorers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.scorers = nn.ModuleList(scorers)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        triples = zip(self.scorers, queries, keys, strict=True)
        return torch.stack([self.score(index, *triple) for index, triple in enumerate(triples)])  # s n m

    def score(self, index: int, scorer: nn.Module, queries: Tensor, keys: Tensor) -> Tensor:
        """Scores (n, m) of the seed at this place."""
        return raw_scores(scorer, queries, keys)

    def gradient_norms(self) -> list[Tensor]:
        """As of every scorer; parameters may differ in shape."""
        learnable = [[each for each in scorer.parameters() if each.requires_grad] for scorer in self.scorers]
        norms = [_norm(parameters) for parameters in learnable if parameters]
        return [torch.stack(norms)] if norms else []


class Own(OneByOne):
    """Scorers of the user's own, which may draw from torch's global generators: each finds them seeded for itself.

    `seeds` has a number for each. What is drawn depends on it and on how often has been scored, and on nothing else.
    """

    def __init__(self, scorers: Sequence[nn.Module], seeds: Sequence[int]) -> None:
        super().__init__(scorers)
        self.seeds, self.calls = list(seeds), 0

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(queries, keys)

    def score(self, index: int, scorer: nn.Module, queries: Tensor, keys: Tensor) -> Tensor:
        with seeded(self.seeds[index], f"call.{self.calls}", queries.device):
            scores = super().score(index, scorer, queries, keys)
        if not scores.requires_grad:
            expected = "expected scores that depend on queries and keys in ways that torch can differentiate"
            cure = "without detach, no_grad, and whole numbers"
            raise InputError.of(
                f"the scorer gave scores without a gradient, so that nothing can be learnt; {expected}, {cure}"
            )
        return scores


@contextmanager
def gradient_of(scorer: Stacked) -> Iterator[None]:
    """What goes wrong in the gradient of a scorer of the user's own, such as numbers written over, is the user's.

    Raises:
        InputError: it went wrong, and not for want of memory.
    """
    try:
        yield
    except Exception as error:
        if not isinstance(scorer, Own) or ran_out(error):
            raise
        raise InputError.of(f"the gradient of the scorer gave {raised(error)}") from error


def norms_by_seed(parameter: nn.Parameter) -> Tensor:
    """The norm of the gradient of a parameter (s, ...), one number a seed (s,)."""
    gradient = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
    return length(gradient.flatten(1).mT)


def length(vectors: Tensor) -> Tensor:
    """Of vectors (n,), or of the columns of a matrix (n, s)."""
    norms: Tensor = torch.linalg.vector_norm(vectors, dim=0)
    return norms


def _norm(parameters: Sequence[nn.Parameter]) -> Tensor:
    """Of the gradient of all of them."""
    gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in parameters]
    return length(torch.cat([gradient.flatten() for gradient in gradients]))


def _parameter(scorers: Sequence[nn.Module], name: str) -> nn.Parameter:
    return nn.Parameter(torch.stack([scorer.get_parameter(name).detach() for scorer in scorers]))
