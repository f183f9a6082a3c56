"""Replace the outputs of a model's attention calls while the model runs."""

from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from attncli.errors import InputError, did_you_mean, got
from attncli.models.call import AttentionCall
from attncli.models.capture import scorable
from attncli.models.reading import UnreadableError
from attncli.models.selection import calls_of, choice_of, picks
from attncli.models.watching import Read, Watch

GRADIENTS = "got a model that runs with gradients; swapped outputs have none; run it inside of torch.no_grad()"
MOST_NAMED = 3  # calls in a message


class Replacing(Watch):
    """Context manager that replaces the outputs of attention calls by the outputs of `compute`.

    A call has the name of its layer. Further calls of a layer in one run of the model have a number, as `layer#1`. Each
    layer must be called in the same way in every run.

    Args:
        layers: numbers of calls in the order of the first run, ranges such as `5-7`, names of calls, or patterns of
            names such as `decoder.*`; None for all.
        heads: numbers of the heads to replace; None for all.
        known: `AttentionCall.candidate` of calls in an earlier run on the same inputs, by name; they are not verified
            again.
    """

    def __init__(
        self,
        layers: Collection[str | int] | None = None,
        heads: Collection[int] | None = None,
        known: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__()
        self.layers, self.heads, self.known = layers, heads, known or {}
        self.swapped = dict[str, int]()  # how often each call was replaced
        self.problems = dict[str, str]()  # by call
        self._numbers = dict[str, int]()  # of calls, in the order of their first runs
        self._calls = dict[str, int]()  # of each layer in this run

    @abstractmethod
    def compute(self, record: AttentionCall) -> Tensor:
        """Return the new output (b, h, n, v) of a call."""

    def __enter__(self) -> Self:
        """Start watching, without the counts and problems of earlier uses."""
        for kept in (self.swapped, self.problems, self._numbers, self._calls):
            kept.clear()
        return super().__enter__()

    def __exit__(self, *raised: Any) -> None:
        """Stop watching; raise an InputError if a chosen call was not replaced, unless the `with` block failed."""
        super().__exit__(*raised)
        if raised[0] is None:
            self.check()

    def check(self) -> None:
        """Raise an InputError if no call was replaced, or if a chosen call was not."""
        names = list(self._numbers)
        for layer in self.layers or ():
            choice = choice_of(layer)
            known = dict.fromkeys([*names, *self.problems]) if isinstance(choice, str) else names
            if not (chosen := calls_of(choice, list(known))):
                cure = did_you_mean(layer, names) if isinstance(choice, str) else f"expected 0 to {len(names) - 1}"
                raise InputError.of(got(layer, f"no attention call of the model; {cure}"), ["layers"])
            for name in chosen:
                if name not in self.swapped:
                    why = self.problems.get(name, "it did not run")
                    raise InputError.of(f"{name}: its attention was not replaced: {why}")
        if self.layers is None and (not self.swapped or self.problems):
            reasons = [f"{name}: {problem}" for name, problem in self.problems.items()]
            raise InputError.of(f"attention was not replaced: {'; '.join(reasons[:MOST_NAMED]) or 'none ran'}")

    def take(self, read: Read, output: Tensor) -> Tensor:
        """Return the new output of a chosen call, or `output`, the model's own, for any other call."""
        layer, kind = self.place()
        call = self._calls[layer] = self._calls.get(layer, -1) + 1
        name = f"{layer}#{call}" if call else layer
        number = self._numbers.setdefault(name, len(self._numbers))
        if self.layers is not None and not any(picks(choice_of(each), name, number) for each in self.layers):
            return output
        if torch.is_grad_enabled() and output.requires_grad:
            raise InputError.of(GRADIENTS)
        try:
            record = scorable(replace(read(self.known.get(name)), layer=layer, call=call, kind=kind))
        except UnreadableError as reason:
            self.problems[name] = str(reason)
            return output
        if record.problem is not None:
            self.problems[name] = record.problem
            return output
        new = self.compute(record).to(output.dtype)
        if self.heads is not None:
            new = self._of_heads(new, record)
        self.swapped[name] = self.swapped.get(name, 0) + 1
        return placed(new, record.output, output)

    def miss(self, problem: str, place: tuple[str, str] | None = None) -> None:
        """Keep the reason why attention cannot be followed."""
        self.problems.setdefault((place or self.place())[0], problem)

    def _enter_module(self, module: nn.Module, inputs: Any) -> None:
        if not self._stack:
            self._calls.clear()  # a new run of the model
        super()._enter_module(module, inputs)

    def _of_heads(self, new: Tensor, record: AttentionCall) -> Tensor:
        """Return the new output of the chosen heads, and the model's own output of all other heads."""
        count = new.shape[1]
        for head in self.heads or ():
            if not 0 <= head < count:
                expected = f"expected 0 to {count - 1}, of the {count} heads of {record.name}"
                raise InputError.of(got(head, expected), ["heads"])
        chosen = torch.zeros(count, dtype=torch.bool, device=new.device)
        chosen[list(self.heads or ())] = True
        return torch.where(chosen[:, None, None], new, record.output.to(new.dtype))  # b h n v


def placed(new: Tensor, own: Tensor, output: Tensor) -> Tensor:
    """Return a tensor with the values of `new` and the shape, dtype and strides of `output`.

    `own` is `output` as read into a record, (b, h, n, v), often as a view. The strides matter, since a model may `view`
    its output in a way that only they allow.
    """
    result = torch.empty_like(output)
    shared = own.untyped_storage().data_ptr() == output.untyped_storage().data_ptr()
    if shared and own.dtype == output.dtype and result.stride() == output.stride():
        offset = own.storage_offset() - output.storage_offset()
        result.as_strided(own.shape, own.stride(), offset).copy_(new)
        return result
    return result.copy_(new.reshape(output.shape))
