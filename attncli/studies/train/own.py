"""Scorers of several seeds that are asked one after the other, those of the user's own among them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from attncli.errors import InputError
from attncli.inputs.seeding import seeded
from attncli.scorers._custom import raised
from attncli.studies.memory import ran_out
from attncli.studies.scoring import raw_scores
from attncli.studies.train.stacked import Stacked, length


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
        norms = [_norm(learnable) for learnable in map(_learnable, self.scorers) if learnable]
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


def _learnable(scorer: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in scorer.parameters() if parameter.requires_grad]


def _norm(parameters: Sequence[nn.Parameter]) -> Tensor:
    """Of the gradient of all of them."""
    gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in parameters]
    return length(torch.cat([gradient.flatten() for gradient in gradients]))
