"""Watch the attention calls of the models that run: their modules, and attention that is not recognised."""

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from attncli.errors import InputError
from attncli.models.call import AttentionCall
from attncli.models.monitor import Monitor, is_part


@dataclass(frozen=True)
class Missed:
    """A module or operation like attention that was not recognised: the layer, its class, and the reason."""

    layer: str
    kind: str
    problem: str


class Site(NamedTuple):
    """An attention call: the name and the class of its layer, and its number among the calls of the layer."""

    layer: str
    kind: str
    call: int

    @property
    def name(self) -> str:
        """The layer's name, from its second call on with the number of the call: `layer#1`."""
        return f"{self.layer}#{self.call}" if self.call else self.layer


class Watch(AbstractContextManager["Watch"]):
    """Context manager that watches the models that run inside it, in the same thread.

    A subclass chooses attention calls in `chooses` and handles them in `keep`; one that `replaces` their outputs does
    so in `replaced`. Several can be active at a time.

    Args:
        model: watch this module only, and name layers as in it; by default all modules.
    """

    replaces: ClassVar = False

    def __init__(self, model: nn.Module | None = None) -> None:
        if not isinstance(model, nn.Module | None):
            raise InputError.of(f"got {type(model).__name__}; expected a torch module", ["model"])
        self.model = model
        self.missed: list[Missed] = []  # modules and operations like attention that were not recognised
        self.monitor: Monitor | None = None
        self.prefix = ""  # of a model with a head, without which its layers are named
        self._names = WeakKeyDictionary[nn.Module, tuple[str, int]]()  # name, and number of the model
        self._models = 0  # with names
        self._ran: dict[str, str] = {}  # class of each module by name
        self._seen: set[str] = set()  # layers with attention calls
        self._calls: dict[str, int] = {}  # number of the last call of each layer

    @abstractmethod
    def chooses(self, site: Site) -> bool:
        """Whether to handle an attention call. Called once for each call."""

    @abstractmethod
    def keep(self, call: AttentionCall, output: Tensor) -> None:
        """Handle a chosen call; the model continues with `output` (b, h, n, v)."""

    def replaced(self, call: AttentionCall) -> Tensor:
        """Return the new output (b, h, n, v) of a chosen call; by default the model's own."""
        return call.output

    def candidate(self, site: Site) -> int | None:
        """Return the number of the candidate that is right for a call, if known from an earlier run."""
        return None

    def begins(self, module: nn.Module, *, is_recomputed: bool) -> None:
        """Note that a top-level module is called; `is_recomputed` if the backward pass calls it again."""
        if self.model is None and module not in self._names:
            known = dict(self._names)
            self.take_names(module)
            self._names |= known  # parts that ran before keep their names

    def ran(self) -> None:
        """Note that the running module was called."""
        name, kind = self.name_and_class()
        self._ran[name] = kind

    def choose(self) -> Site | None:
        """Return the running attention call if it is to be handled, else None."""
        layer, kind = self.name_and_class()
        self._seen.add(layer)
        number = self._calls[layer] = self._calls.get(layer, -1) + 1
        site = Site(layer, kind, number)
        return site if self.chooses(site) else None

    def miss(self, problem: str, modules: Sequence[nn.Module] | None = None) -> None:
        """Add attention that is not recognised to `missed`, with the stack of its modules (default: the running)."""
        if modules is None or self.sees(modules):
            self._miss(Missed(*self.name_and_class(modules), problem))

    def _miss(self, missed: Missed) -> None:
        if missed not in self.missed:
            self.missed.append(missed)

    def __enter__(self) -> Self:
        """Start watching."""
        if self.monitor is not None:
            raise InputError.of(f"this {type(self).__name__} is active already; make another one")
        self._ran, self._seen = {}, set()
        self.missed.clear()
        self.monitor = Monitor.of_thread()
        if self.model is not None:
            self.take_names(self.model)
        self.monitor.add(self)
        return self

    def __exit__(self, *raised: Any) -> None:
        """Stop watching, and add to `missed` the modules with `attention` in the class name and no call."""
        assert self.monitor is not None
        for modules, shape in self.monitor.trail.unused.values():
            self.miss(f"a softmax of a product, {list(shape)}, whose weights no product takes", modules)
        known = self._seen | {missed.layer for missed in self.missed}
        named = [name for name, kind in self._ran.items() if "attention" in kind.lower()]
        named = [name for name in named if not (known and name == self._ran[name])]  # a model as a whole
        seen = {name for name in named if any(is_part(name, other) for other in known)}
        unseen = [name for name in named if not any(is_part(name, other) for other in known | seen)]
        for name in unseen:
            if not any(other.startswith(f"{name}.") for other in unseen):  # the innermost
                self._miss(Missed(name, self._ran[name], "it ran, and no attention was recognised in it"))
        self.monitor.remove(self)
        self.monitor = None
        self._names.clear()  # the next `with` takes the names and parameters of its models again

    def take_names(self, model: object) -> None:
        """From now on, name layers as in this model, even if only a part of it runs.

        A layer has its name in `named_modules`, but without the prefix of a model with a head, so that it has the same
        name in the model without the head.
        """
        if isinstance(model, nn.Module):
            self._models += 1
            prefix, named = prefix_of(model), [(_uncompiled(name), each) for name, each in model.named_modules()]
            self.prefix, names = prefix or self.prefix, {name for name, _ in named}
            for name, module in named:
                short = name.removeprefix(f"{prefix}.")
                self._names[module] = (name if short in names else short, self._models)
            if self.monitor is not None:
                self.monitor.trail.parameters |= _addresses(model)

    def knows(self, module: nn.Module) -> bool:
        """Whether the module is a part of a model with names."""
        return module in self._names

    def sees(self, modules: Sequence[nn.Module]) -> bool:
        """Whether a stack of running modules is inside of `model`."""
        return self.model is None or any(module in self._names for module in modules)

    def name_and_class(self, modules: Sequence[nn.Module] | None = None) -> tuple[str, str]:
        """Return name and class of the last of a stack of modules, by default of the running ones.

        A module outside the model is named after the nearest in it.
        """
        if modules is None:
            assert self.monitor is not None
            modules = self.monitor.modules
        if not modules:
            return "function", "function"
        module, kind = modules[-1], type(modules[-1]).__name__
        known = self._nearest(modules)
        if known is None:
            return kind, kind
        name = self._names[known][0] or type(known).__name__
        return name if known is module else f"{name}/{kind}", kind

    @property
    def owner(self) -> int:
        """The number of the model that the running module is a part of; 0 outside of modules."""
        assert self.monitor is not None
        known = self._nearest(self.monitor.modules)
        return 0 if known is None else self._names[known][1]

    def _nearest(self, modules: Sequence[nn.Module]) -> nn.Module | None:
        return next((module for module in reversed(modules) if module in self._names), None)


def prefix_of(model: object) -> str:
    """Return the first part of layers' names in a model of transformers with a head; "" for other libraries."""
    prefix = getattr(model, "base_model_prefix", "")
    return prefix if isinstance(prefix, str) else ""


def _uncompiled(name: str) -> str:
    """Return the name of a module without the wrappers of `torch.compile`."""
    return name.replace("_orig_mod.", "").removesuffix("_orig_mod")


def _addresses(model: nn.Module) -> set[int]:
    """Return the addresses of a model's parameters; none for tensors that `torch.func` puts in their place."""
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    return {parameter.untyped_storage().data_ptr() for parameter in model.parameters() if not wrapped(parameter)}
