"""Replace the outputs of a model's attention calls while the model runs."""

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Self
from weakref import WeakSet

import torch
from torch import Tensor, nn

from attncli.errors import InputError, did_you_mean, got
from attncli.models.call import AttentionCall
from attncli.models.selection import calls_of, choice_of, picks
from attncli.models.watching import Site, Watch

MOST_NAMED = 3  # calls in a message


class Replacing(Watch):
    """Context manager that replaces the outputs of attention calls by the outputs of `compute`.

    A call has the name of its layer. Further calls of a layer in one run of the model have a number, as `layer#1`. A
    run ends when a top-level module that ran in it is called again. Each layer must be called in the same way in every
    run. Of several that are active, the innermost decides.

    Args:
        layers: numbers of calls in the order of the first run, ranges such as `5-7`, names of calls, or patterns of
            names such as `decoder.*`; None for all.
        heads: numbers of the heads to replace; None for all.
        known: `AttentionCall.candidate` of calls in an earlier run on the same inputs, by name; they are not verified
            again.
        model: replace the attention of this module only; None for all that runs in this thread.
    """

    replaces: ClassVar = True

    def __init__(
        self,
        layers: Collection[str | int] | None = None,
        heads: Collection[int] | None = None,
        known: Mapping[str, int] | None = None,
        model: nn.Module | None = None,
    ) -> None:
        super().__init__(model)
        self.layers, self.heads, self._known = layers, heads, known or {}
        self.swapped = dict[str, int]()  # how often each call was replaced
        self.problems = dict[str, str]()  # by call
        self._handled = set[str]()  # calls that were replaced, by this one or by one inside of it
        self._numbers = dict[str, int]()  # of calls, in the order of their first runs
        self._calls = dict[str, int]()  # of each layer in this run
        self._owners = dict[str, int]()  # number of the model of each layer
        self._called = WeakSet[nn.Module]()  # top-level modules of this run
        self._run = WeakSet[nn.Module]()  # these and their parts

    @abstractmethod
    def compute(self, call: AttentionCall) -> Tensor:
        """Return the new output (b, h, n, v) of a call."""

    def __enter__(self) -> Self:
        """Start watching, without the counts and problems of earlier uses."""
        for kept in (self.swapped, self.problems, self._handled, self._numbers, self._calls, self._owners):
            kept.clear()
        self._begin_run()
        return super().__enter__()

    def __exit__(self, *raised: Any) -> None:
        """Stop watching; raise an InputError if a chosen call was not replaced, unless the `with` block failed."""
        super().__exit__(*raised)
        if raised[0] is None:
            self.check()

    def check(self) -> None:
        """Raise an InputError if no call was replaced, or if a chosen call was not."""
        names, problems = list(self._numbers), {each.layer: each.problem for each in self.missed} | self.problems
        for key, layer in ((key, layer) for key, layers in self.places.items() for layer in layers):
            choice = choice_of(layer)
            known = dict.fromkeys([*names, *problems]) if isinstance(choice, str) else names
            if not (chosen := calls_of(choice, list(known))):
                cure = did_you_mean(layer, names) if isinstance(choice, str) else f"expected 0 to {len(names) - 1}"
                cure = cure if names else "none was recognised"
                raise InputError.of(got(layer, f"no attention call of the model; {cure}"), [key])
            for name in chosen:
                if name not in self._handled and self.wants(name, self._numbers.get(name, -1)):
                    why = problems.get(name, "it did not run")
                    raise InputError.of(f"{name}: its attention was not replaced: {why}")
        if self.layers is None and (not self._handled or self.problems):
            reasons = [f"{name}: {problem}" for name, problem in (self.problems or problems).items()]
            raise InputError.of(f"attention was not replaced: {'; '.join(reasons[:MOST_NAMED]) or 'none ran'}")

    @property
    def places(self) -> Mapping[str, Collection[str | int]]:
        """The chosen layers by the name of the argument that has them."""
        return {"layers": self.layers or ()}

    def begins(self, module: nn.Module, *, is_recomputed: bool) -> None:
        """Start a new run if the top-level module, or a part of it, ran in this one."""
        super().begins(module, is_recomputed=is_recomputed)
        parts = set(module.modules())
        if self.model is not None and not any(part in self._names for part in parts):
            return
        if is_recomputed or module in self._run or not parts.isdisjoint(self._called):
            self._begin_run()
        self._called.add(module)
        self._run |= parts

    def _begin_run(self) -> None:
        for kept in (self._calls, self._called, self._run):
            kept.clear()

    def wants(self, name: str, number: int) -> bool:
        """Whether the call with this name and number is chosen."""
        return self.layers is None or any(picks(choice_of(layer), name, number) for layer in self.layers)

    def chooses(self, layer: str, kind: str) -> Site | None:
        """Return the next call of a layer if it is chosen, else None.

        Raises:
            InputError: another model has a layer with the same name.
        """
        owner = self.owner
        if self._owners.setdefault(layer, owner) != owner:
            message = f"got two modules with attention of the name {layer}; name the one to replace, or the whole model"
            raise InputError.of(f"{message}, as model=")
        call = self._calls[layer] = self._calls.get(layer, -1) + 1
        site = Site(layer, kind, call)
        number = self._numbers.setdefault(site.name, len(self._numbers))
        return site if self.wants(site.name, number) else None

    def candidate(self, site: Site) -> int | None:
        """Return the number of the candidate that is right for a call, if known from an earlier run."""
        return self._known.get(site.name)

    def replaced(self, call: AttentionCall) -> Tensor:
        """Return the new output (b, h, n, v) of the chosen heads, and the model's own of all others."""
        new = with_heads(self.compute(call), call.output, self.heads, call.name)
        self.swapped[call.name] = self.swapped.get(call.name, 0) + 1
        return new

    def keep(self, call: AttentionCall, output: Tensor) -> None:
        """Note the problem of a call that was not replaced, or that it was, by this one or by one inside of it."""
        if call.problem is None:
            self._handled.add(call.name)
        else:
            self.problems[call.name] = call.problem


def with_heads(
    new: Tensor, own: Tensor, heads: Collection[int] | None, name: str, plan: Sequence[str | int] = ()
) -> Tensor:
    """Return the output `new` (b, h, n, v) of the chosen heads, and the output `own` of all other heads.

    Raises:
        InputError: the call with this name has no such head. For heads of a plan, `plan` is the path of the layer.
    """
    if heads is None:
        return new
    count = new.shape[1]
    for head in heads:
        if not 0 <= head < count:
            path = (*plan, "heads", head) if plan else ("heads",)
            raise InputError.of(got(head, f"expected 0 to {count - 1}, of the {count} heads of {name}"), path)
    chosen = torch.zeros(count, dtype=torch.bool, device=new.device)
    chosen[list(heads)] = True
    return torch.where(chosen[:, None, None], new, own.to(new.dtype))  # b h n v
