"""Capture every attention call of the models that run, recompute it and compare it with the model's own output."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from attncli.errors import InputError, got
from attncli.models.call import TENSORS, AttentionCall
from attncli.models.reading import UnreadableError
from attncli.models.selection import Calls, Selection
from attncli.models.watching import Read, Watch


@dataclass(frozen=True)
class Missed:
    """A module or operation like attention that was not captured: the layer, its class, and the reason."""

    layer: str
    kind: str
    problem: str


class Capture(Watch):
    """Context manager that records all attention calls of the models that run inside it, in the same thread.

    Models run without gradients.

    with attncli.Capture() as seen:
        model(inputs)
    seen.records  # one for each call, in order, re-scored and compared with the model's own output
    seen.missed   # modules and operations like attention that were not captured

    Args:
        layers: the layers to keep: numbers in the order of their first calls, such as `0,5-7`, or a glob of names, such
            as `decoder.*`. None keeps all.
        heads: the numbers of the heads to keep, such as `0-3`. None keeps all.
        calls: `all`, or `first` for the first call of each layer.

    Raises:
        InputError: an argument cannot be read.
    """

    def __init__(self, layers: str | None = None, heads: str | None = None, calls: Calls = "all") -> None:
        super().__init__()
        self.records: list[AttentionCall] = []
        self.missed: list[Missed] = []
        self._chosen = Selection(layers, heads, calls)
        self._calls: dict[str, int] = {}  # number of the last call of each layer

    def __exit__(self, *raised: Any) -> None:
        """Stop watching, and add to `missed` the modules with `attention` in the class name and no call."""
        super().__exit__(*raised)
        known = {record.layer for record in self.records} | {each.layer for each in self.missed} | set(self._calls)
        named = [name for name, kind in self._ran.items() if "attention" in kind.lower()]
        named = [name for name in named if not (known and name == self._ran[name])]  # a model as a whole
        seen = {name for name in named if any(_is_part(name, other) for other in known)}
        unseen = [name for name in named if not any(_is_part(name, other) for other in known | seen)]
        for name in unseen:
            if not any(other.startswith(f"{name}.") for other in unseen):  # the innermost
                self.miss("it ran, and no attention was recognised in it", (name, self._ran[name]))

    def take(self, read: Read, output: Tensor) -> Tensor:
        """Read and keep an attention call if it is selected; return `output`, the model's own."""
        layer, kind = self.place()
        call = self._calls[layer] = self._calls.get(layer, -1) + 1
        if not self._chosen.takes(layer, list(self._calls).index(layer), call):
            return output
        try:
            record = scorable(replace(read(None), layer=layer, call=call, kind=kind))
            self.records.append(_copied(self._chosen.of_heads(record)))
        except (UnreadableError, InputError) as reason:
            self.miss(str(reason))
        except Exception as error:  # shapes and kinds of tensors that `read` does not expect
            self.miss(f"its tensors cannot be read ({str(error).partition(chr(10))[0]})")
        return output

    def miss(self, problem: str, place: tuple[str, str] | None = None) -> None:
        """Add to `missed` why attention was not captured; `place` is name and class of a module (default: running)."""
        missed = Missed(*(place or self.place()), problem)
        if missed not in self.missed:
            self.missed.append(missed)

    def check(self) -> None:
        """Raise an InputError if no attention was captured, or if a layer chosen by number does not exist."""
        if self._calls:
            self._chosen.check(list(self._calls))
        if any(record.problem is None for record in self.records):
            return
        found: list[AttentionCall | Missed] = [*self.records, *self.missed]
        reasons = [f"{each.layer} ({each.kind}): {each.problem}" for each in found]
        if reasons:
            more = f"; and {len(reasons) - 1} more" if len(reasons) > 1 else ""
            raise InputError.of(f"no attention could be captured; {reasons[0]}{more}")
        if self._calls:
            names = list(self._calls)
            known = f"{names[0]} to {names[-1]}" if len(names) > 1 else names[0]
            raise InputError.of(f"no layer was chosen; expected some of the {len(names)} with attention, {known}")
        raise InputError.of("no attention ran; expected a model with attention layers")


def scorable(record: AttentionCall) -> AttentionCall:
    """Return the record, or raise an UnreadableError if it is empty, or its scale or softcap is not finite."""
    if not (record.queries.numel() and record.keys.numel() and record.values.numel()):
        raise UnreadableError("it has no queries, no keys or no values")
    if not all(math.isfinite(each) for each in (record.scale, record.softcap or 0.0)):
        raise UnreadableError("its scale or its softcap is not finite")
    return record


def _copied(record: AttentionCall) -> AttentionCall:
    """Return the record with CPU copies: a model may overwrite its cache, and a view keeps its whole storage alive."""
    tensors = {name: tensor for name in TENSORS if (tensor := getattr(record, name)) is not None}
    dense = torch.contiguous_format
    return replace(
        record, **{name: each.detach().to("cpu", copy=True, memory_format=dense) for name, each in tensors.items()}
    )


def _is_part(name: str, other: str) -> bool:
    """Whether two modules, given by their names, are the same or one is a part of the other."""
    first, second = (each.replace("/", ".") + "." for each in (name, other))
    return first.startswith(second) or second.startswith(first)


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
    with evaluating(owner), Capture() as seen:
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
