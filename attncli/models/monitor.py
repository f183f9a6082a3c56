"""See every attention call of the models that run in a thread, from any library.

A torch function mode sees calls of `scaled_dot_product_attention` under any name. A dispatch mode below it sees the
fused kernels that other functions call, and the operations of attention that is computed without a kernel. The dispatch
mode is below autograd: with gradients, outputs are exchanged in the function mode, after the function that made them.
"""

import functools
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch._C import _push_on_torch_dispatch_stack, _push_on_torch_function_stack
from torch.nn.functional import multi_head_attention_forward, scaled_dot_product_attention
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes, _get_current_dispatch_mode_stack
from torch.utils.checkpoint import CheckpointFunction

from attncli.core.modes import outside_autocast
from attncli.errors import InputError
from attncli.models.call import AttentionCall, best_candidate
from attncli.models.reading import Heads, UnreadableError, candidates, flexible, fused, scorable
from attncli.models.trail import VIEWS, Trail, UnfusedAttention

if TYPE_CHECKING:
    from attncli.models.watching import Watch

HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "heads")
ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
COMPILERS = ("torch._dynamo", "torch.nn.attention.flex_attention")
DROPOUT = "it ran with dropout; call model.eval() before"
OUTSIDE = "it runs outside of functions of Python, as in TorchScript, where gradients cannot be followed"
APPLIED = torch.autograd.Function.apply.__func__.__code__  # type: ignore[attr-defined]
OWN_GRADIENTS = "it computes its gradients by itself, as a torch.autograd.Function"
# Functions of Python that call others: multi-head attention, and the backward pass, which may run a model again.
COMPOSED = {multi_head_attention_forward, Tensor.backward, torch.autograd.backward, torch.autograd.grad}
_THREAD = threading.local()
Read = Callable[[int | None], AttentionCall]


class Running(NamedTuple):
    """A module that runs: the frame of its call, and the backward pass and the grad mode in which it was called."""

    module: nn.Module
    frame: FrameType
    backward: int
    has_gradients: bool


class Monitor:
    """Sees the attention calls of a thread, and passes each to the watches, the innermost first."""

    def __init__(self) -> None:
        self.trail = Trail(lambda: self.modules)
        self.num_heads: int | None = None
        self._watches: list[Watch] = []
        self._stack: list[Running] = []
        self._thread = threading.get_ident()
        self._busy_in: FrameType | None = None  # the function that turned watching off
        self._modes = _Operations(self), _Functions(self)
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

    def add(self, watch: "Watch") -> None:
        """Add a watch inside of all others; the first turns the modes and hooks of torch on."""
        if not self._watches:
            enter, at_end = self._exits.enter_context, self._exits.callback
            self._stay_eager()
            enter(warnings.catch_warnings())
            warnings.filterwarnings("ignore", message="Using `torch.compile")  # about hooks that run twice
            at_end(register_module_forward_pre_hook(self._enter_module).remove)
            at_end(register_module_forward_hook(self._leave_module, always_call=True).remove)
            for mode in self._modes:  # the mode of functions also turns off the fast path of torch's modules
                enter(mode)
        self._watches.append(watch)

    def remove(self, watch: "Watch") -> None:
        """Remove a watch; the last turns the modes and hooks of torch off."""
        self._watches.remove(watch)
        if not self._watches:
            _THREAD.monitor = None
            self._restore()
            self._exits.close()

    def _restore(self) -> None:
        """Restore the state that a KeyboardInterrupt, which can come between any two steps, may have left behind."""
        self._busy_in = self._pending = self.num_heads = None
        operations, functions = self._modes
        if not any(mode is operations for mode in _get_current_dispatch_mode_stack()):
            _push_on_torch_dispatch_stack(operations)
        stack = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
        if not any(mode is functions for mode in stack):
            _push_on_torch_function_stack(functions)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Turn off watching inside the `with` block."""
        before, self._busy_in = self._busy_in, sys._getframe(2)
        try:
            with _disable_current_modes():  # faster than to let each operation pass
                yield
        finally:
            self._busy_in = before

    @property
    def is_off(self) -> bool:
        """Whether operations belong to a scorer or to the backward pass, and not to the model."""
        # The backward pass runs a model again under checkpointing: then the task of autograd is that in which the
        # running module was called. Any other task computes gradients.
        return self._busy_in is not None or torch._C._current_graph_task_id() != (
            self._stack[-1].backward if self._stack else -1
        )

    def _stay_eager(self) -> None:
        """Turn compiling off if torch's compiler is loaded; loading it only to turn it off would take seconds."""
        if not self._is_eager and any(name in sys.modules for name in COMPILERS):
            self._is_eager = True
            self._exits.enter_context(torch.compiler.set_stance("force_eager"))

    def _enter_module(self, module: nn.Module, inputs: Any) -> None:
        if threading.get_ident() != self._thread:
            is_attention = "attention" in type(module).__name__.lower()
            for watch in self._watches if getattr(_THREAD, "monitor", None) is None else ():
                name, _ = watch.name_and_class([module])
                if (is_attention or watch.knows(module)) and not any(
                    is_part(name, missed.layer) for missed in watch.missed
                ):
                    watch.miss("it ran in another thread, which is not watched", [module])
            return
        frame = sys._getframe(1)
        if self._busy_in is not None and _is_within(frame, self._busy_in):
            return
        self._stay_eager()
        if self._leave_finished(frame) or self._busy_in is not None:
            self._restore()
        backward = torch._C._current_graph_task_id()
        if not self._stack:
            if backward >= 0 and not any(watch.knows(module) for watch in self._watches):
                return  # a scorer's, run again by the backward pass
            for watch in self._watches:
                watch.begins(module, is_recomputed=backward >= 0)
        self.trail.enter(is_first=not self._stack)
        self._stack.append(Running(module, frame, backward, torch.is_grad_enabled()))
        for watch in self._watches:
            if watch.sees(self.modules):
                watch.ran()

    def _leave_module(self, module: nn.Module, inputs: Any, output: Any) -> None:
        if threading.get_ident() == self._thread and self._stack and self._stack[-1].module is module:
            self._stack.pop()
            self.trail.leave()

    def _leave_finished(self, frame: FrameType) -> bool:
        """Leave the modules that an interrupt ended, for which torch calls no hook; return whether there are any."""
        is_interrupted = False
        while self._stack and not _is_within(frame, self._stack[-1].frame):
            self._stack.pop()
            self.trail.leave()
            is_interrupted = True
        return is_interrupted

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
                is_explained = isinstance(error, UnreadableError | InputError)
                reason = (
                    str(error) if is_explained else f"its tensors cannot be read ({str(error).partition(chr(10))[0]})"
                )
                for watch, _ in chosen:
                    watch.miss(reason)
                return output
            new = call.output
            if swap is not None and call.problem is None:
                call = replace(call, problem=self._obstacle(call, is_below))
                new = call.output if call.problem else swap[0].replaced(replace(call, **swap[1]._asdict()))
            for watch, site in chosen:
                watch.keep(replace(call, **site._asdict()), new)
            return output if new is call.output else placed(new, call.output, output)

    def _obstacle(self, call: AttentionCall, is_below: bool) -> str | None:
        """Return why a new output would have the gradients of the model's own output; None if it has the right ones."""
        if torch.is_grad_enabled():
            has_graph = any(tensor.requires_grad for tensor in (call.queries, call.keys, call.values))
            return OUTSIDE if is_below and has_graph else None
        is_below_module = bool(self._stack) and self._stack[-1].has_gradients
        return OWN_GRADIENTS if is_below_module and _is_in_function_with_gradients(sys._getframe(1)) else None

    def exchanged(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return the result of a function with the attention outputs inside of it exchanged, with their gradients."""
        # Operations are seen below autograd, where a new output would have no graph. So `see` only notes the calls
        # inside of the function, and here, above autograd, a view of the new output with the graph of the scorer takes
        # the place of the part of the result that shares memory with the model's own output.
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


def _is_within(frame: FrameType | None, outer: FrameType) -> bool:
    """Whether a frame is `outer`, or a frame of a function that `outer` called."""
    while frame is not None and frame is not outer:
        frame = frame.f_back
    return frame is not None


def _is_in_function_with_gradients(frame: FrameType | None) -> bool:
    """Whether a torch.autograd.Function, but for checkpoints, is applied to tensors with gradients in this frame."""
    while frame is not None:
        if frame.f_code is APPLIED and frame.f_locals["cls"] is not CheckpointFunction:
            return any(isinstance(argument, Tensor) and argument.requires_grad for argument in frame.f_locals["args"])
        frame = frame.f_back
    return False


def _storage(tensor: Tensor) -> int:
    """Return the address of a tensor's storage; -1 for a tensor of `torch.func`, which has none."""
    return -1 if torch._C._functorch.is_functorch_wrapped_tensor(tensor) else int(tensor.untyped_storage()._cdata)


def is_part(name: str, other: str) -> bool:
    """Whether two modules, given by their names, are the same or one is a part of the other."""
    first, second = (path.replace("/", ".") + "." for path in (name, other))
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
    # Torch's functions in Python begin with `if has_torch_function(...): return handle_torch_function(...)`, which ends
    # in this mode again. A copy whose globals say that there is no mode runs its body, whose calls the mode then sees.
    never = dict.fromkeys(("has_torch_function", "has_torch_function_unary"), lambda *_: False)
    made = FunctionType(func.__code__, {**func.__globals__, **never}, func.__name__, func.__defaults__)
    made.__kwdefaults__ = func.__kwdefaults__
    return made


class Operation(NamedTuple):
    """An operation of torch: its name without `_` at the end, and its kind."""

    name: str
    is_in_place: bool
    is_kernel: bool  # of attention
    is_higher: bool  # its arguments include functions, as in `flex_attention`


@functools.cache
def _named(func: Any) -> Operation:
    """Return the properties of an operation of torch by its name."""
    is_higher = not hasattr(func, "_schema")
    name = func.name() if is_higher else func._schema.name.partition("::")[2]
    is_kernel = any(part in name for part in ("attention", "attn", "_scaled_dot_product")) and "backward" not in name
    return Operation(name.removesuffix("_"), name.endswith("_"), is_kernel, is_higher)


class _Functions(TorchFunctionMode):
    """Torch function mode that passes calls of attention functions of torch to a `Monitor`."""

    def __init__(self, monitor: Monitor) -> None:
        super().__init__()
        self._monitor = monitor

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        monitor, kwargs = self._monitor, kwargs or {}
        if monitor._busy_in is not None:
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
        if is_off or any(argument.is_nested for argument in (output, *args) if isinstance(argument, Tensor)):
            return output
        op, is_in_place, is_kernel, is_higher = _named(func)
        if is_higher:
            if op == "flex_attention":
                first = monitor.see(lambda known: best_candidate([flexible(args, output[0])], known=known), output[0])
                return first, *output[1:]
            return output
        if is_kernel:
            if op.startswith("_scaled_dot_product"):
                names = (
                    "attn_mask" if argument.name == "attn_bias" else argument.name
                    for argument in func._schema.arguments
                )
                call = dict(zip(names, args, strict=False)) | kwargs
                return monitor.see_fused(call, output[0], "kernel"), *output[1:]
            monitor.miss(f"the kernel {func._schema.name}, which is not known")
        attention = monitor.trail.see(op, args, kwargs, output, is_in_place=is_in_place)
        if isinstance(attention, UnfusedAttention):
            return monitor.see_written(attention)
        if attention is not None:
            monitor.miss(attention)
        return output
