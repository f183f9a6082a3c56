"""Capture every attention call of the models that run, recompute it and compare it with the model's own output."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from attncli.core.numbers import several
from attncli.errors import InputError, below, got
from attncli.models.call import TENSORS, AttentionCall, Site
from attncli.models.following import FullWatch
from attncli.models.selection import Choice, Several, matching_calls, picks
from attncli.models.watching import Missed, is_part

Calls = Literal["first", "all"]
BLOCK = re.compile(r"((?:[^\W\d]\w*\.)*)\d+(?![^.])")  # a numbered module: the first number in a name


class Capture(FullWatch):
    """Context manager that records all attention calls of the models that run inside it, in the same thread.

    Inside a `Swap`, calls are recorded as the swap leaves them, with its output. Gradients of the model are unaffected.

    with attncli.Capture() as seen:
        model(inputs)
    seen.records  # one for each call, in order, re-scored and compared with the model's own output
    seen.missed   # modules and operations like attention that were not captured

    Args:
        layers: the layers to keep: numbers in the order of their first calls, ranges such as `0,5-7`, names, or
            patterns of names such as `decoder.*`: one of these, or a list. None keeps all.
        heads: the numbers of the heads to keep, and ranges such as `0-3`. None keeps all.
        calls: `all`, or `first` for the first call of each layer.
        model: record the attention of this module only.

    Raises:
        InputError: an argument cannot be read.
    """

    def __init__(
        self,
        layers: Several | None = None,
        heads: Several | None = None,
        calls: Calls = "all",
        *,
        model: nn.Module | None = None,
    ) -> None:
        super().__init__(model)
        chosen = Choice.of(layers=layers, heads=heads)
        self.records: list[AttentionCall] = []
        self._layers, self._heads = chosen.layers, chosen.heads
        self._is_first_only = calls == "first"
        self._num_heads = 0  # the most of a layer
        if calls not in get_args(Calls):
            raise InputError.of(got(calls, "expected first or all"), ["calls"])

    def __repr__(self) -> str:
        """Return the numbers of calls and of layers, as a notebook shows them."""
        layers = {call.layer for call in self.records}
        return f"<attncli.Capture: {several(len(self.records), 'call')} of {several(len(layers), 'layer')}>"

    def chooses(self, site: Site) -> bool:
        """Whether the call is selected."""
        if site.call and self._is_first_only:
            return False
        number = list(self._calls).index(site.layer)
        return self._layers is None or any(picks(layer, site.layer, number, self.prefix) for layer in self._layers)

    @torch.no_grad()
    def keep(self, call: AttentionCall, output: Tensor) -> None:
        """Keep a copy of the chosen heads of a call, with the output that the model continues with."""
        call, h = replace(call.with_mask(), output=output.to(call.output.dtype)), call.queries.shape[1]
        if self._heads is not None:
            self._num_heads = max(self._num_heads, h)
            chosen = [head for head in range(h) if head in self._heads]
            if not chosen:
                self.miss(f"it has {several(h, 'head')}, none of them chosen")
                return
            call = call.of_heads(chosen)
        # Copies: a model may overwrite its cache, and a view keeps its whole storage alive.
        dense: Any = {"copy": True, "memory_format": torch.contiguous_format}
        tensors = {name: tensor for name in TENSORS if (tensor := getattr(call, name)) is not None}
        copies = {name: tensor.detach().to("cpu", **dense) for name, tensor in tensors.items()}
        self.records.append(replace(call, **copies, scale_gradient=None))

    @property
    def without_weights(self) -> list[str]:
        """The names of blocks without attention weights, such as of linear attention, beside like blocks with them."""
        with_weights = {match[0] for name in self._seen if (match := BLOCK.match(name))}
        missed = tuple(missed.layer for missed in self.missed)
        kinds = {(BLOCK.sub(r"\1", name), self._ran.get(name)) for name in with_weights}
        others = [name for name in self._ran if BLOCK.fullmatch(name) and name not in with_weights]
        others = [name for name in others if not any(is_part(layer, name) for layer in missed)]
        return [name for name in others if (BLOCK.sub(r"\1", name), self._ran[name]) in kinds]

    def check(self) -> None:
        """Raise an InputError if no attention was captured, or if no layer is chosen."""
        if self._layers is not None and self._calls and (self.records or not self.missed):
            with below("layers"):
                for layer in self._layers:
                    matching_calls(layer, {name: number for number, name in enumerate(self._calls)}, self.prefix)
        largest = max(self._heads or [0])
        if 0 < self._num_heads <= largest:
            expected = f"expected 0 to {self._num_heads - 1}, as layers have {several(self._num_heads, 'head')}"
            raise InputError.of(got(largest, expected), ["heads"])
        if any(call.problem is None for call in self.records):
            return
        calls: list[AttentionCall | Missed] = [*self.records, *self.missed]
        reasons = [f"{call.layer} ({call.kind}): {call.problem}" for call in calls]
        if not reasons:
            raise InputError.of("no attention ran; expected a model with attention layers")
        rest = f"; and {len(reasons) - 1} more" if len(reasons) > 1 else ""
        raise InputError.of(f"no attention could be captured; {reasons[0]}{rest}")


def capture(model: nn.Module | Callable[..., Any], /, *args: Any, **kwargs: Any) -> Capture:
    """Run a model once, in evaluation mode and without gradients, and return its attention calls.

    `model` may also be a method of a model, such as `model.generate`, or any function that runs a model.

    Raises:
        InputError: `model` cannot be called, no attention ran, or none could be captured.
    """
    if not callable(model):
        expected = "expected a torch module, or a function that runs a model"
        raise InputError.of(got(model, expected), where="attncli.capture: model")
    owner = getattr(model, "__self__", model)
    with evaluating(owner), torch.no_grad(), Capture() as seen:
        seen.take_names(owner)
        model(*args, **kwargs)
    seen.check()
    return seen


@contextmanager
def evaluating(model: object) -> Iterator[None]:
    """Put a model into evaluation mode, and restore the mode of each of its modules at the end."""
    modes = [(module, module.training) for module in model.modules()] if isinstance(model, nn.Module) else []
    try:
        for module, _ in modes:
            module.training = False
        yield
    finally:
        for module, mode in modes:
            module.training = mode
