"""One implementation on its inputs, ready to be called again and again."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import cycle

import torch
from torch import Tensor, nn

from attncli.config.scorer_entries import ScorerEntry
from attncli.studies.bench.calls import MAKERS, Forward, NotAvailableError, own_copy
from attncli.studies.bench.inputs import Inputs
from attncli.studies.bench.plan import Contender

Made = tuple[tuple[Tensor, ...], Sequence[Tensor | None]]  # results, gradients


@dataclass
class Job:
    """An implementation of a scorer, what is asked of it, and the inputs that it is called with in turn."""

    contender: Contender
    entry: ScorerEntry  # that of the contender, with its hidden units
    measure: str
    forward: Forward
    parameters: Sequence[nn.Parameter]
    copies: Sequence[Inputs]
    backward: bool
    _turns: Iterator[Inputs] = field(init=False)
    _ones: Tensor | None = field(init=False, default=None)  # made by the first call, which checks the results

    def __post_init__(self) -> None:
        self.parameters = [each for each in self.parameters if each.requires_grad]  # not those that are frozen
        if self.backward:
            self.copies = [each.needing_gradients() for each in self.copies]
        self._turns = cycle(self.copies)

    def __call__(self) -> Made:
        """Once, on the copy whose turn it is; what flows back into the result is the same tensor every time."""
        return self.on(next(self._turns), lambda result: self._ones)

    def on(self, inputs: Inputs, flowing_back: Callable[[Tensor], Tensor | None]) -> Made:
        """Scores, output or both output and weights; and the gradients of `wanted`, none without `backward`.

        `flowing_back` gives the gradient of the first result, in its shape.
        """
        with nullcontext() if self.backward else torch.no_grad():
            made = self.forward(inputs.queries, inputs.keys, inputs.values)
        results = made if isinstance(made, tuple) else (made,)
        if not self.backward:
            return results, ()
        if self._ones is None:  # whoever flows back first, so that it is no memory of the call that is measured
            self._ones = torch.ones_like(results[0])
        if not results[0].requires_grad:
            message = f"its {self.measure} have no gradient (they are detached, or not made by torch)"
            raise NotAvailableError(f"{message}; measure it without backward")
        gradient = flowing_back(results[0])
        return results, torch.autograd.grad(results[0], self.wanted(inputs), gradient, allow_unused=True)

    def wanted(self, inputs: Inputs) -> list[Tensor]:
        """What has gradients: values only where they are used."""
        values = [] if self.measure == "scores" else [inputs.values]
        return [inputs.queries, inputs.keys, *values, *self.parameters]


def make_job(
    contender: Contender, entry: ScorerEntry, scorer: nn.Module, measure: str, copies: Sequence[Inputs], backward: bool
) -> Job:
    """The job with a copy of the scorer of its own.

    Raises:
        NotAvailableError: an implementation that this machine cannot have.
    """
    own = own_copy(scorer, contender.implementation, copies[0].queries)
    forward = MAKERS[contender.implementation](own, measure)
    return Job(contender, entry, measure, forward, list(own.parameters()), copies, backward)
