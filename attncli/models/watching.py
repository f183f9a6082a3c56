"""See the calls of torch's `scaled_dot_product_attention` by the models that run in a thread.

Nine models of ten call it; transformers does so through its attention interface. A torch function mode sees the
calls under any name, hooks see the modules that make them. A `Monitor` for each thread hands each call to the watches:
a `Watch` chooses calls, names them by their modules, and handles them or replaces their outputs.

`following.py` adds attention that models compute by other means.
"""

import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from attncli.core.modes import outside_autocast
from attncli.errors import InputError
from attncli.models.call import AttentionCall, Site, UnreadableError, best_candidate, fused, scorable

ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
DROPOUT = "it ran with dropout; call model.eval() before"
_THREAD = threading.local()
Read = Callable[[AttentionCall | None], AttentionCall]  # given the reading of the call in an earlier run, if any


@dataclass(frozen=True)
class Missed:
    """A module or operation like attention that was not recognised: the layer, its class, and the reason."""

    layer: str
    kind: str
    problem: str


class Watch(AbstractContextManager["Watch"]):
    """Context manager that watches the models that run inside it, in the same thread.

    A subclass chooses attention calls in `chooses` and handles them in `keep`; one that `replaces` their outputs does
    so in `replaced`. Several can be active at a time.

    Args:
        model: watch this module only, and name layers as in it; by default all modules.
    """

    monitor_class: "ClassVar[type[Monitor]]"
    follows: bool = True  # all operations; else calls of torch's function are enough
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

    def reading(self, site: Site) -> AttentionCall | None:
        """Return the reading of a call in an earlier run on the same inputs, if there was one."""
        return None

    def needs_own(self, site: Site) -> bool:
        """Whether the model's own output of a chosen call matters."""
        return True

    def begins(self, module: nn.Module, *, is_recomputed: bool) -> None:
        """Note that a top-level module is called; `is_recomputed` if the backward pass calls it again."""
        if self.model is None and module not in self._names:
            names = dict(self._names)
            self.take_names(module)
            self._names |= names  # parts that ran before keep their names

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
        self.monitor = _THREAD.monitor = getattr(_THREAD, "monitor", None) or self.monitor_class()
        if self.model is not None:
            self.take_names(self.model)
        self.monitor.add(self)
        return self

    def __exit__(self, *raised: Any) -> None:
        """Stop watching, and add to `missed` the modules with `attention` in the class name and no call."""
        assert self.monitor is not None
        recognised = self._seen | {missed.layer for missed in self.missed}
        candidates = [name for name, kind in self._ran.items() if "attention" in kind.lower()]
        candidates = [name for name in candidates if not (recognised and name == self._ran[name])]  # a model as a whole
        seen = {name for name in candidates if any(is_part(name, other) for other in recognised)}
        unseen = [name for name in candidates if not any(is_part(name, other) for other in recognised | seen)]
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
            wrapped, prefix = "_orig_mod", head_prefix(model)  # by torch.compile
            modules = [(n.replace(f"{wrapped}.", "").removesuffix(wrapped), each) for n, each in model.named_modules()]
            self.prefix, names = prefix or self.prefix, {name for name, _ in modules}
            for name, module in modules:
                short = name.removeprefix(f"{prefix}.")
                self._names[module] = (name if short in names else short, self._models)

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
        nearest = self._nearest(modules)
        if nearest is None:
            return kind, kind
        name = self._names[nearest][0] or type(nearest).__name__
        return name if nearest is module else f"{name}/{kind}", kind

    @property
    def owner(self) -> int:
        """The number of the model that the running module is a part of; 0 outside of modules."""
        assert self.monitor is not None
        nearest = self._nearest(self.monitor.modules)
        return 0 if nearest is None else self._names[nearest][1]

    def _nearest(self, modules: Sequence[nn.Module]) -> nn.Module | None:
        return next((module for module in reversed(modules) if module in self._names), None)


class Monitor(ABC):
    """Sees the attention calls of a thread, and passes each to the watches, the innermost first."""

    def __init__(self) -> None:
        self._watches: list[Watch] = []
        self._stack: list[nn.Module] = []
        self._thread = threading.get_ident()
        self._is_busy = False
        self._exits = ExitStack()
        self._functions = _Functions(self)

    @property
    def modules(self) -> list[nn.Module]:
        """The running modules, the innermost last."""
        return [*self._stack]

    def add(self, watch: Watch) -> None:
        """Add a watch inside of all others; the first turns the mode and the hooks of torch on."""
        if not self._watches:
            enter, at_end = self._exits.enter_context, self._exits.callback
            enter(warnings.catch_warnings())
            warnings.filterwarnings("ignore", message="Using `torch.compile")  # about hooks that run twice
            at_end(register_module_forward_pre_hook(self._enter_module).remove)
            at_end(register_module_forward_hook(self._leave_module, always_call=True).remove)
            enter(self._functions)  # also turns off the fast path of torch's modules
        self._watches.append(watch)

    def remove(self, watch: Watch) -> None:
        """Remove a watch; the last turns the mode and the hooks of torch off."""
        self._watches.remove(watch)
        if not self._watches:
            _THREAD.monitor = None
            self._exits.close()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Turn off watching inside the `with` block."""
        before, self._is_busy = self._is_busy, True
        try:
            yield
        finally:
            self._is_busy = before

    def _enter_module(self, module: nn.Module, inputs: Any) -> None:
        if threading.get_ident() == self._thread:
            self.enter(module)
        elif getattr(_THREAD, "monitor", None) is None:
            for watch in self._watches:
                name, _ = watch.name_and_class([module])
                if watch.knows(module) and not any(is_part(name, missed.layer) for missed in watch.missed):
                    watch.miss("it ran in another thread, which is not watched", [module])

    def enter(self, module: nn.Module, *, is_recomputed: bool = False) -> None:
        """Note that a module begins; `is_recomputed` if the backward pass calls it again."""
        if self._is_busy:
            return
        if not self._stack:
            for watch in self._watches:
                watch.begins(module, is_recomputed=is_recomputed)
        self._stack.append(module)
        for watch in self._watches:
            if watch.sees(self._stack):
                watch.ran()

    def _leave_module(self, module: nn.Module, inputs: Any, output: Any) -> None:
        if threading.get_ident() == self._thread and self._stack and self._stack[-1] is module:
            self.leave()

    def leave(self) -> None:
        """Note that the innermost module ends."""
        self._stack.pop()

    def miss(self, problem: str) -> None:
        """Pass a problem of the running module to all watches."""
        for watch in self._watches:
            watch.miss(problem, self.modules)

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run a function of torch; return its result, for attention the output that the model continues with."""
        if func is not scaled_dot_product_attention or self._is_busy:
            return func(*args, **kwargs)
        arguments, chosen = dict(zip(ARGUMENTS, args, strict=False)) | kwargs, self.choose()
        if len(chosen) == 1 and not chosen[0][0].needs_own(chosen[0][1]) and not torch.is_grad_enabled():
            reading = chosen[0][0].reading(chosen[0][1])
            if reading is not None and reading.is_repeatable and not arguments.get("dropout_p"):
                # The model's own kernel would run for nothing. NaN shows where its output is used all the same.
                output = torch.full_like(reading.output, torch.nan, device=arguments["query"].device)
                return self.handle(lambda _: reading.refilled(arguments, output), output, chosen)
        with self.busy():
            output = func(*args, **kwargs)
        return self.handle(self.reader(arguments, output, "function"), output, chosen)

    def reader(self, arguments: Mapping[str, Any], output: Tensor, how: Literal["function", "kernel"]) -> Read:
        """Return the function that reads a call of torch's function or kernel, with its arguments by name."""
        traced = self.tracing(arguments)

        def read(reading: AttentionCall | None) -> AttentionCall:
            is_repeatable = how == "function" and arguments["query"].ndim == output.ndim == 4
            call = traced(replace(fused(arguments, output), how=how, is_repeatable=is_repeatable))
            call = best_candidate([call], reading=reading, is_kernels=True)
            return replace(call, problem=DROPOUT) if arguments.get("dropout_p") else call

        return read

    def choose(self) -> list[tuple[Watch, Site]]:
        """Return the watches that handle the running attention call, the innermost first."""
        watches = [watch for watch in reversed(self._watches) if watch.sees(self._stack)]
        return [(watch, site) for watch in watches if (site := watch.choose()) is not None]

    @outside_autocast  # the model may run in it
    def handle(
        self, read: Read, output: Tensor, chosen: Sequence[tuple[Watch, Site]], *, is_below: bool = False
    ) -> Tensor:
        """Pass an attention call to the chosen watches, and return the output that the model continues with.

        `is_below` if the call is seen below autograd.
        """
        if not chosen:
            return output
        swap = next(((watch, site) for watch, site in chosen if watch.replaces), None)
        with self.busy():
            try:
                call = scorable(read(None if swap is None else swap[0].reading(swap[1])))
            except Exception as error:  # also shapes and kinds of tensors that `read` does not expect
                is_explained = isinstance(error, UnreadableError | InputError)
                reason = (
                    str(error) if is_explained else f"its tensors cannot be read ({str(error).partition(chr(10))[0]})"
                )
                for watch, _ in chosen:
                    watch.miss(reason)
                return output
            new = call.output
            if swap is not None and call.problem is None:
                call = replace(call, problem=self.obstacle(call, is_below))
                new = call.output if call.problem else swap[0].replaced(replace(call, **swap[1]._asdict()))
            for watch, site in chosen:
                watch.keep(replace(call, **site._asdict()), new)
            return output if new is call.output else self.placed(new, call.output, output)

    @abstractmethod
    def tracing(self, arguments: Mapping[str, Any]) -> Callable[[AttentionCall], AttentionCall]:
        """Return the function that adds to a call the earlier operations on its arguments."""

    @abstractmethod
    def obstacle(self, call: AttentionCall, is_below: bool) -> str | None:
        """Return why a new output would not have the right gradients; None if it has."""

    @abstractmethod
    def placed(self, new: Tensor, own: Tensor, output: Tensor) -> Tensor:
        """Return a tensor with the values of `new` and the shape, dtype and strides of `output`, the model's own.

        `own` is `output` as read into a call, (b, h, n, v). The strides matter, since a model may `view` its output in
        a way that only they allow.
        """


class _Functions(TorchFunctionMode):
    """Torch function mode that runs the functions of torch through a `Monitor`. It is off inside of them."""

    def __init__(self, monitor: Monitor) -> None:
        super().__init__()
        self._monitor = monitor

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._monitor.run(func, args, kwargs or {})


def check_unwatched(where: str) -> None:
    """Raise an InputError, located at `where`, if this thread is inside of a `with Swap` or `with Capture`."""
    if getattr(_THREAD, "monitor", None) is not None:
        message = "got a call inside of `with Swap` or `with Capture`, which would see or replace what it computes"
        raise InputError.of(f"{message}; call it outside", where=where)


def is_part(name: str, other: str) -> bool:
    """Whether two modules, given by their names, are the same or one is a part of the other."""
    first, second = (path.replace("/", ".") + "." for path in (name, other))
    return first.startswith(second) or second.startswith(first)


def head_prefix(model: object) -> str:
    """Return the first part of layers' names in a model of transformers with a head; "" for other libraries."""
    prefix = getattr(model, "base_model_prefix", "")
    return prefix if isinstance(prefix, str) else ""
