"""Watch every attention call of the models that run, from any library.

A torch function mode sees calls of `scaled_dot_product_attention` under any name. A dispatch mode below it sees the
fused kernels that other functions call, and the operations of attention that is computed without a kernel. The dispatch
mode is below autograd: with gradients, outputs are exchanged in the function mode, after the function that made them.
"""

import functools
import sys
import threading
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from types import FrameType, FunctionType
from typing import Any, ClassVar, Literal, NamedTuple, Self
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.functional import multi_head_attention_forward, scaled_dot_product_attention
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils.checkpoint import CheckpointFunction

from attncli.errors import InputError
from attncli.models.call import AttentionCall, best_candidate
from attncli.models.reading import Heads, UnreadableError, candidates, flexible, fused, scorable
from attncli.models.trail import VIEWS, Trail, UnfusedAttention
from attncli.modes import outside_autocast

HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "heads")
ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
COMPILERS = ("torch._dynamo", "torch.nn.attention.flex_attention")
DROPOUT = "it ran with dropout; call model.eval() before"
OUTSIDE = "it runs outside of functions of Python, as in TorchScript, where gradients cannot be followed"
APPLIED = torch.autograd.Function.apply.__func__.__code__  # type: ignore[attr-defined]
OWN_GRADIENTS = "it computes its gradients by itself, as a torch.autograd.Function"
# Functions of Python that call others: multi-head attention, and the backward pass, which may run a model again.
COMPOSED = (multi_head_attention_forward, Tensor.backward, torch.autograd.backward, torch.autograd.grad)
_THREAD = threading.local()
Read = Callable[[int | None], AttentionCall]


@dataclass(frozen=True)
class Missed:
    """A module or operation like attention that was not recognised: the layer, its class, and the reason."""

    layer: str
    kind: str
    problem: str


class Site(NamedTuple):
    """A chosen attention call: the name and the class of its layer, and the call's number among those of the layer."""

    layer: str
    kind: str
    call: int

    @property
    def name(self) -> str:
        """The layer's name, from its second call on with the number of the call: `layer#1`."""
        return f"{self.layer}#{self.call}" if self.call else self.layer


class Running(NamedTuple):
    """A module that runs: the frame of its call, and the backward pass and the grad mode in which it was called."""

    module: nn.Module
    frame: FrameType
    backward: int
    has_gradients: bool


class Watch(AbstractContextManager["Watch"]):
    """Context manager that watches the models that run inside it, in the same thread.

    A subclass chooses attention calls in `chooses` and handles them in `keep`; one that `replaces` their outputs does
    so in `replaced`. Several can be active at a time.

    Args:
        model: watch this module only, and name layers as its `named_modules` does; by default all modules.
    """

    replaces: ClassVar = False

    def __init__(self, model: nn.Module | None = None) -> None:
        if not isinstance(model, nn.Module | None):
            raise InputError.of(f"got {type(model).__name__}; expected a torch module", ["model"])
        self.model = model
        self.missed: list[Missed] = []  # modules and operations like attention that were not recognised
        self.monitor: Monitor | None = None
        self._names = WeakKeyDictionary[nn.Module, tuple[str, int]]()  # name, and number of the model
        self._models = 0  # with names
        self._ran: dict[str, str] = {}  # class of each module by name
        self._seen: set[str] = set()  # layers with attention calls

    @abstractmethod
    def chooses(self, layer: str, kind: str) -> Site | None:
        """Return the next attention call of a layer if it is to be handled, else None. Called once for each call."""

    @abstractmethod
    def keep(self, call: AttentionCall, output: Tensor) -> None:
        """Handle a chosen call; the model continues with `output` (b, h, n, v)."""

    def replaced(self, call: AttentionCall) -> Tensor:
        """Return the new output (b, h, n, v) of a chosen call."""
        raise NotImplementedError

    def candidate(self, site: Site) -> int | None:
        """Return the number of the candidate that is right for a call, if known from an earlier run."""
        return None

    def begins(self, module: nn.Module, *, is_recomputed: bool) -> None:
        """Note that a top-level module is called; `is_recomputed` if the backward pass calls it again."""
        if self.model is None and module not in self._names:
            known = dict(self._names)
            self.take_names(module)
            self._names |= known  # parts that ran before keep their names

    def choose(self) -> Site | None:
        """Return the running attention call if it is to be handled, else None."""
        layer, kind = self.place()
        self._seen.add(layer)
        return self.chooses(layer, kind)

    def fail(self, site: Site, problem: str) -> None:
        """Handle a chosen call that cannot be read."""
        self.miss(problem)

    def miss(self, problem: str, modules: Sequence[nn.Module] | None = None) -> None:
        """Add attention that is not recognised to `missed`, with the stack of its modules (default: the running)."""
        if modules is None or self.sees(modules):
            self._miss(Missed(*self.place(modules), problem))

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
        known = self._seen | {each.layer for each in self.missed}
        named = [name for name, kind in self._ran.items() if "attention" in kind.lower()]
        named = [name for name in named if not (known and name == self._ran[name])]  # a model as a whole
        seen = {name for name in named if any(_is_part(name, other) for other in known)}
        unseen = [name for name in named if not any(_is_part(name, other) for other in known | seen)]
        for name in unseen:
            if not any(other.startswith(f"{name}.") for other in unseen):  # the innermost
                self._miss(Missed(name, self._ran[name], "it ran, and no attention was recognised in it"))
        self.monitor.remove(self)
        self.monitor = None
        self._names.clear()  # the next `with` takes the names and parameters of its models again

    def take_names(self, model: object) -> None:
        """From now on, name layers as this model's `named_modules` does, even if only a part of it runs."""
        if isinstance(model, nn.Module):
            self._models += 1
            self._names |= {module: (name, self._models) for name, module in model.named_modules()}
            if self.monitor is not None:
                self.monitor.trail.parameters |= _addresses(model)

    def knows(self, module: nn.Module) -> bool:
        """Whether the module is a part of a model with names."""
        return module in self._names

    def sees(self, modules: Sequence[nn.Module]) -> bool:
        """Whether a stack of running modules is inside of `model`."""
        return self.model is None or any(module in self._names for module in modules)

    def place(self, modules: Sequence[nn.Module] | None = None) -> tuple[str, str]:
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
        name = self._names[known][0].replace("_orig_mod.", "").removesuffix("_orig_mod") or type(known).__name__
        return name if known is module else f"{name}/{kind}", kind

    @property
    def owner(self) -> int:
        """The number of the model that the running module is a part of; 0 outside of modules."""
        assert self.monitor is not None
        known = self._nearest(self.monitor.modules)
        return 0 if known is None else self._names[known][1]

    def _nearest(self, modules: Sequence[nn.Module]) -> nn.Module | None:
        return next((module for module in reversed(modules) if module in self._names), None)


class Monitor:
    """Sees the attention calls of a thread, and passes each to the watches, the innermost first."""

    def __init__(self) -> None:
        self.trail = Trail(lambda: self.modules)
        self.num_heads: int | None = None
        self._watches: list[Watch] = []
        self._stack: list[Running] = []
        self._thread = threading.get_ident()
        self._is_busy = False
        self._pending: list[tuple[Read, Tensor]] | None = None  # calls inside of the function that runs
        self._exits = ExitStack()
        self._is_eager = False

    @classmethod
    def of_thread(cls) -> "Monitor":
        """Return the monitor of this thread, the same one for all watches that are active."""
        if getattr(_THREAD, "monitor", None) is None:
            _THREAD.monitor = cls()
        monitor: Monitor = _THREAD.monitor
        return monitor

    @property
    def modules(self) -> list[nn.Module]:
        """The running modules, the innermost last."""
        return [running.module for running in self._stack]

    def add(self, watch: Watch) -> None:
        """Add a watch inside of all others; the first turns the modes and hooks of torch on."""
        if not self._watches:
            enter, at_end = self._exits.enter_context, self._exits.callback
            self._stay_eager()
            enter(warnings.catch_warnings())
            warnings.filterwarnings("ignore", message="Using `torch.compile")  # about hooks that run twice
            at_end(register_module_forward_pre_hook(self._enter_module).remove)
            at_end(register_module_forward_hook(self._leave_module, always_call=True).remove)
            enter(_Operations(self))
            enter(_Functions(self))  # also turns off the fast path of torch's modules
        self._watches.append(watch)

    def remove(self, watch: Watch) -> None:
        """Remove a watch; the last turns the modes and hooks of torch off."""
        self._watches.remove(watch)
        if not self._watches:
            _THREAD.monitor = None
            self._exits.close()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Turn off watching inside the `with` block."""
        before, self._is_busy = self._is_busy, True
        try:
            with _disable_current_modes():  # faster than to let each operation pass
                yield
        finally:
            self._is_busy = before

    @property
    def is_off(self) -> bool:
        """Whether operations are not the model's: those of a scorer, or of the backward pass."""
        return self._is_busy or torch._C._current_graph_task_id() != (self._stack[-1].backward if self._stack else -1)

    def _stay_eager(self) -> None:
        """Turn compiling off if torch's compiler is loaded; loading it only to turn it off would take seconds."""
        if not self._is_eager and any(name in sys.modules for name in COMPILERS):
            self._is_eager = True
            self._exits.enter_context(torch.compiler.set_stance("force_eager"))

    def _enter_module(self, module: nn.Module, inputs: Any) -> None:
        if threading.get_ident() != self._thread:
            is_attention = "attention" in type(module).__name__.lower()
            for watch in self._watches if getattr(_THREAD, "monitor", None) is None else ():
                name, _ = watch.place([module])
                if (is_attention or watch.knows(module)) and not any(
                    _is_part(name, each.layer) for each in watch.missed
                ):
                    watch.miss("it ran in another thread, which is not watched", [module])
            return
        if self._is_busy:
            return
        self._stay_eager()
        frame = sys._getframe(1)
        self._leave_finished(frame)
        backward = torch._C._current_graph_task_id()
        if not self._stack:
            if backward >= 0 and not any(watch.knows(module) for watch in self._watches):
                return  # a scorer's, run again by the backward pass
            for watch in self._watches:
                watch.begins(module, is_recomputed=backward >= 0)
        self._stack.append(Running(module, frame, backward, torch.is_grad_enabled()))
        self.trail.enter()
        for watch in self._watches:
            if watch.sees(self.modules):
                name, kind = watch.place()
                watch._ran[name] = kind

    def _leave_module(self, module: nn.Module, inputs: Any, output: Any) -> None:
        if threading.get_ident() == self._thread and self._stack and self._stack[-1].module is module:
            self._stack.pop()
            self.trail.leave()

    def _leave_finished(self, frame: FrameType) -> None:
        """Leave the modules that an interrupt ended, for which torch calls no hook."""
        while self._stack:
            caller: FrameType | None = frame
            while caller is not None and caller is not self._stack[-1].frame:
                caller = caller.f_back
            if caller is not None:
                return
            self._stack.pop()
            self.trail.leave()

    def miss(self, problem: str) -> None:
        """Pass a problem of the running module to all watches."""
        for watch in self._watches:
            watch.miss(problem, self.modules)

    def see(self, read: Read, output: Tensor) -> Tensor:
        """Handle an attention call below autograd; return the output that the model continues with."""
        if torch.is_grad_enabled() and self._pending is not None:
            self._pending.append((read, output))
            return output
        return self.handle(read, output, is_below=True)

    @outside_autocast  # the model may run in it
    def handle(self, read: Read, output: Tensor, *, is_below: bool = False) -> Tensor:
        """Pass an attention call to the watches, and return the output that the model continues with."""
        self._leave_finished(sys._getframe(1))
        watches = [watch for watch in reversed(self._watches) if watch.sees(self.modules)]
        chosen = [(watch, site) for watch in watches if (site := watch.choose()) is not None]
        if not chosen:
            return output
        swap = next(((watch, site) for watch, site in chosen if watch.replaces), None)
        with self.busy():
            try:
                call = scorable(read(None if swap is None else swap[0].candidate(swap[1])))
            except Exception as error:  # also shapes and kinds of tensors that `read` does not expect
                is_told = isinstance(error, UnreadableError | InputError)
                reason = str(error) if is_told else f"its tensors cannot be read ({str(error).partition(chr(10))[0]})"
                for watch, site in chosen:
                    watch.fail(site, reason)
                return output
            new = call.output
            if swap is not None and call.problem is None:
                call = replace(call, problem=self._obstacle(call, is_below))
                new = call.output if call.problem else swap[0].replaced(replace(call, **swap[1]._asdict()))
            for watch, site in chosen:
                watch.keep(replace(call, **site._asdict()), new)
            return output if new is call.output else placed(new, call.output, output)

    def _obstacle(self, call: AttentionCall, is_below: bool) -> str | None:
        """Return why the gradients of a new output would be those of the model's own; None if they are right."""
        if torch.is_grad_enabled():
            has_graph = any(tensor.requires_grad for tensor in (call.queries, call.keys, call.values))
            return OUTSIDE if is_below and has_graph else None
        is_below_module = bool(self._stack) and self._stack[-1].has_gradients
        return OWN_GRADIENTS if is_below_module and _is_in_function_with_gradients(sys._getframe(1)) else None

    def exchanged(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return the result of a function with the attention outputs inside of it exchanged, with their gradients."""
        before, self._pending = self._pending, []
        try:
            result, pending = func(*args, **kwargs), self._pending
        finally:
            self._pending = before
        for read, output in pending:
            new = self.handle(read, output)
            if new is not output:
                parts = result if isinstance(result, tuple | list) else [result]
                storages = [_storage(part) if isinstance(part, Tensor) else None for part in parts]
                if _storage(output) not in storages:
                    name = getattr(func, "__name__", "a function")
                    message = f"got attention inside of {name}, through which gradients cannot be followed"
                    raise InputError.of(f"{message}; run the model inside of torch.no_grad()")
                index = storages.index(_storage(output))
                own = parts[index]
                shift = own.storage_offset() - output.storage_offset() + new.storage_offset()
                exchanged = new.as_strided(own.shape, own.stride(), shift)
                result = exchanged if result is own else type(result)([*parts[:index], exchanged, *parts[index + 1 :]])
        return result

    def see_fused(self, call: dict[str, Any], output: Tensor, how: Literal["function", "kernel"]) -> Tensor:
        """Handle a call of torch's `scaled_dot_product_attention` or of its kernel."""
        query, key = self.trail.of(call["query"]), self.trail.of(call["key"])

        def read(known: int | None) -> AttentionCall:
            seen = best_candidate([replace(fused(call, output, query, key), how=how)], known=known, is_kernels=True)
            return replace(seen, problem=DROPOUT) if call.get("dropout_p") else seen

        return self.handle(read, output) if how == "function" else self.see(read, output)

    def see_written(self, written: UnfusedAttention) -> Tensor:
        """Handle attention that is computed step by step."""
        module = self._stack[-1].module if self._stack else None
        likely = next((heads for name in HEADS if isinstance(heads := getattr(module, name, None), int)), None)
        heads = Heads(self.num_heads, likely)
        is_training = any(module.training for module in self.modules)

        def read(known: int | None) -> AttentionCall:
            call = best_candidate(candidates(written, heads), written.dtypes, known)
            changes = [step.op for step in written.after if step.op not in VIEWS]
            if call.problem is None or not changes:
                return call
            changed = f"weights are changed after the softmax, by {', '.join(changes)}"
            return replace(call, problem=DROPOUT if is_training else changed)

        return self.see(read, written.output)


def _is_in_function_with_gradients(frame: FrameType | None) -> bool:
    """Whether a torch.autograd.Function, but for checkpoints, is applied to tensors with gradients in this frame."""
    while frame is not None:
        if frame.f_code is APPLIED and frame.f_locals["cls"] is not CheckpointFunction:
            return any(isinstance(each, Tensor) and each.requires_grad for each in frame.f_locals["args"])
        frame = frame.f_back
    return False


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _addresses(model: nn.Module) -> set[int]:
    return {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}


def _is_part(name: str, other: str) -> bool:
    """Whether two modules, given by their names, are the same or one is a part of the other."""
    first, second = (each.replace("/", ".") + "." for each in (name, other))
    return first.startswith(second) or second.startswith(first)


def placed(new: Tensor, own: Tensor, output: Tensor) -> Tensor:
    """Return a tensor with the values of `new` and the shape, dtype and strides of `output`.

    `own` is `output` as read into a call, (b, h, n, v), often as a view. The strides matter, since a model may `view`
    its output in a way that only they allow.
    """
    result = torch.empty_like(output, requires_grad=False)
    new = new.to(output.dtype)
    if _storage(own) == _storage(output) and own.dtype == output.dtype and result.stride() == output.stride():
        offset = own.storage_offset() - output.storage_offset()
        result.as_strided(own.shape, own.stride(), offset).copy_(new)
        return result
    return result.copy_(new.reshape(output.shape))


@functools.cache
def _unguarded(func: Any) -> Any:
    """Return a function of torch without its first step, which passes it to function modes as a whole."""
    never = dict.fromkeys(("has_torch_function", "has_torch_function_unary"), lambda *_: False)
    made = FunctionType(func.__code__, {**func.__globals__, **never}, func.__name__, func.__defaults__)
    made.__kwdefaults__ = func.__kwdefaults__
    return made


class _Functions(TorchFunctionMode):
    """Torch function mode that passes calls of attention functions of torch to a `Monitor`."""

    def __init__(self, monitor: Monitor) -> None:
        super().__init__()
        self._monitor = monitor

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        monitor, kwargs = self._monitor, kwargs or {}
        if monitor._is_busy:
            return func(*args, **kwargs)
        if func is scaled_dot_product_attention and not monitor.is_off:
            with monitor.busy():
                output = func(*args, **kwargs)
            return monitor.see_fused(dict(zip(ARGUMENTS, args, strict=False)) | kwargs, output, "function")
        if func in COMPOSED:
            before = monitor.num_heads
            if func is multi_head_attention_forward:  # without gradients, this mode is off inside
                monitor.num_heads = args[4] if len(args) > 4 else kwargs.get("num_heads")
            try:
                if func is multi_head_attention_forward and not torch.is_grad_enabled():
                    return func(*args, **kwargs)
                with self:
                    return _unguarded(func)(*args, **kwargs)
            finally:
                monitor.num_heads = before
        return monitor.exchanged(func, args, kwargs) if torch.is_grad_enabled() else func(*args, **kwargs)


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Torch dispatch mode that passes the operations inside of all functions to a `Monitor`."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled inside; telling torch to skip the compiler would load it for seconds

    def __init__(self, monitor: Monitor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._monitor = monitor

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        monitor, kwargs = self._monitor, kwargs or {}
        is_off = monitor.is_off
        if torch.is_inference_mode_enabled() and not is_off and hasattr(func, "decompose"):
            with self:  # in inference mode, functions such as matmul arrive whole: watch their parts
                output = func.decompose(*args, **kwargs)
            if output is not NotImplemented:
                return output
        output = func(*args, **kwargs)
        if is_off or any(isinstance(each, Tensor) and each.is_nested for each in (output, *args)):
            return output
        if not hasattr(func, "_schema"):
            if func.name() == "flex_attention":
                first = monitor.see(lambda known: best_candidate([flexible(args, output[0])], known=known), output[0])
                return first, *output[1:]
            return output
        op = func._schema.name.partition("::")[2]
        if op.startswith("_scaled_dot_product") and "backward" not in op:
            names = ("attn_mask" if each.name == "attn_bias" else each.name for each in func._schema.arguments)
            call = dict(zip(names, args, strict=False)) | kwargs
            return monitor.see_fused(call, output[0], "kernel"), *output[1:]
        if ("attention" in op or "attn" in op) and "backward" not in op:
            monitor.miss(f"the kernel {func._schema.name}, which is not known")
        found = monitor.trail.see(op, args, kwargs, output)
        if isinstance(found, UnfusedAttention):
            return monitor.see_written(found)
        if found is not None:
            monitor.miss(found)
        return output
