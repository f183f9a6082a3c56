"""Follow the attention that models compute by other means than calls of `scaled_dot_product_attention`.

Hand-written attention is a matrix product, a softmax and a product with values; fused kernels are also called by other
functions of torch. A dispatch mode sees their operations. It is below autograd: with gradients, outputs are exchanged
in the function mode, after the function that made them. Interrupts, backward passes that run a model again, and torch's
own functions in Python that call attention are followed here, too.
"""

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import FrameType, FunctionType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import multi_head_attention_forward, scaled_dot_product_attention

from attncli.errors import InputError
from attncli.models import internals
from attncli.models.call import AttentionCall, Site, best_candidate
from attncli.models.reading import candidates, flexible, traced
from attncli.models.trail import VIEWS, Trail, UnfusedAttention
from attncli.models.watching import DROPOUT, Monitor, Read, Watch

HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "heads")
OUTSIDE = "it runs outside of Python, as in TorchScript, where gradients cannot be followed; use torch.no_grad()"
OWN_GRADIENTS = "it computes its gradients by itself, as a torch.autograd.Function"
# Functions of Python that call others: multi-head attention, and the backward pass, which may run a model again.
COMPOSED = {multi_head_attention_forward, Tensor.backward, torch.autograd.backward, torch.autograd.grad}


class Running(NamedTuple):
    """The frame of a call of a module, and the backward pass and the grad mode in which it was called."""

    frame: FrameType
    backward: int
    has_gradients: bool


class Follower(Monitor):
    """A monitor that follows all attention of a thread."""

    def __init__(self) -> None:
        super().__init__()
        self.trail = Trail(lambda: self.modules)
        self._running: list[Running] = []  # of the modules in `_stack`
        self._busy_in: FrameType | None = None  # the function that turned watching off
        self._operations, self._following = _Operations(self), ExitStack()
        self._follows = False
        self._pending: list[tuple[Read, Tensor]] | None = None  # calls inside of the function that runs
        self._is_eager = False

    def add(self, watch: Watch) -> None:
        """Add a watch inside of all others; the first turns the modes and hooks of torch on."""
        super().add(watch)
        self._stay_eager()
        if watch.follows and not self._follows:
            self._follows = True
            self._following.enter_context(self._operations)

    def remove(self, watch: Watch) -> None:
        """Remove a watch; the last that follows operations turns their mode off."""
        others = [other for other in self._watches if other is not watch]
        follows = any(other.follows for other in others)
        if not others or (self._follows and not follows):
            self.restore()
        if self._follows and not follows:
            self._follows = False
            self._following.close()
        super().remove(watch)

    def restore(self) -> None:
        """Restore the state that a KeyboardInterrupt, which can come between any two steps, may have left behind."""
        self._busy_in = self._pending = None
        internals.push_missing(self._operations if self._follows else None, self._functions)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Turn off watching inside the `with` block."""
        before, self._busy_in = self._busy_in, internals.frame(2)
        try:
            with internals.without_modes():
                yield
        finally:
            self._busy_in = before

    @property
    def is_off(self) -> bool:
        """Whether operations belong to a scorer or to the backward pass, and not to the model."""
        # Both a scorer and the backward pass run operations like a model's. A scorer runs inside of `busy`. The
        # backward pass runs a model again under checkpointing: then torch's number of the pass is that in which the
        # running module was called. In any other pass operations compute gradients, of a model or of a scorer.
        # Outside of modules and passes both numbers are -1.
        backward = self._running[-1].backward if self._running else -1
        return self._busy_in is not None or internals.backward_pass() != backward

    def _stay_eager(self) -> None:
        """Turn compiling off if torch's compiler is loaded; loading it only to turn it off would take seconds."""
        if not self._is_eager and not sys.modules.keys().isdisjoint(internals.COMPILERS):
            self._is_eager = True
            self._exits.enter_context(torch.compiler.set_stance("force_eager"))

    def enter(self, module: nn.Module, *, is_recomputed: bool = False) -> None:
        """Note that a module begins, unless it is a scorer's."""
        frame = internals.frame(2)  # of torch's call of the module
        if self._busy_in is not None and internals.is_within(frame, self._busy_in):
            return
        self._stay_eager()
        if self._leave_finished(frame) or self._busy_in is not None:
            self.restore()
        backward = internals.backward_pass()
        if not self._stack and backward >= 0 and not any(watch.knows(module) for watch in self._watches):
            return  # a scorer's, run again by the backward pass
        self.trail.enter(is_first=not self._stack)
        super().enter(module, is_recomputed=backward >= 0)
        self._running.append(Running(frame, backward, torch.is_grad_enabled()))

    def leave(self) -> None:
        """Note that the innermost module ends."""
        super().leave()
        self._running.pop()
        self.trail.leave()

    def _leave_finished(self, frame: FrameType) -> bool:
        """Leave the modules that an interrupt ended, for which torch calls no hook; return whether there are any."""
        before = len(self._stack)
        both = min(before, len(self._running))  # an interrupt can come between their changes
        del self._stack[both:], self._running[both:]
        while self._stack and not internals.is_within(frame, self._running[-1].frame):
            self.leave()
        return len(self._stack) < before

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run a function of torch; return its result, with the outputs of attention inside of it replaced."""
        if self._busy_in is not None:
            return func(*args, **kwargs)
        if func is scaled_dot_product_attention and not self.is_off:
            return super().run(func, args, kwargs)
        if func in COMPOSED:
            if func is multi_head_attention_forward and not torch.is_grad_enabled():
                return func(*args, **kwargs)  # its operations are seen
            with self._functions:
                return _unguarded(func)(*args, **kwargs)
        return self.exchanged(func, args, kwargs) if torch.is_grad_enabled() else func(*args, **kwargs)

    def tracing(self, arguments: Mapping[str, Any]) -> Callable[[AttentionCall], AttentionCall]:
        """Return the function that adds to a call the earlier operations on its queries and keys."""
        query, key = self.trail.last_step(arguments["query"]), self.trail.last_step(arguments["key"])
        return lambda call: traced(call, query, key)

    def see(self, read: Read, output: Tensor) -> Tensor:
        """Handle an attention call below autograd; return the output that the model continues with."""
        if torch.is_grad_enabled() and self._pending is not None:
            self._pending.append((read, output))
            return output
        return self.handle(read, output, self.choose(), is_below=True)

    def choose(self) -> list[tuple[Watch, Site]]:
        """Return the watches that handle the running attention call, the innermost first."""
        self._leave_finished(internals.frame(1))
        return super().choose()

    def obstacle(self, call: AttentionCall, is_below: bool) -> str | None:
        """Return why a new output would have the gradients of the model's own output; None if it has the right ones."""
        if torch.is_grad_enabled():
            return OUTSIDE if is_below else None
        is_below_module = bool(self._running) and self._running[-1].has_gradients
        return OWN_GRADIENTS if is_below_module and internals.is_in_function_with_gradients() else None

    def placed(self, new: Tensor, own: Tensor, output: Tensor) -> Tensor:
        """Return a tensor with the values of `new` and the layout of `output`, of which `own` is often another view."""
        result, new = torch.empty_like(output, requires_grad=False), new.to(output.dtype)
        is_view = internals.storage_number(own) == internals.storage_number(output)
        if not is_view or own.dtype != output.dtype or result.stride() != output.stride():
            return result.copy_(new.reshape(output.shape))
        offset = own.storage_offset() - output.storage_offset()
        result.as_strided(own.shape, own.stride(), offset).copy_(new)
        return result

    def exchanged(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return the result of a function with the attention outputs inside of it exchanged, with their gradients."""
        # Operations are seen below autograd, where a new output would have no graph. So `see` only notes the calls
        # inside of the function, and here, above autograd, the new output with the graph of the scorer is put into the
        # result. The function may return its attention as a view (as `matmul` does) or among other tensors: what shares
        # memory with the model's own output is exchanged by the same view of the new one, moved to its offset. A result
        # that shares none was computed from the model's own output already, which is an error.
        before, self._pending = self._pending, []
        try:
            result, pending = func(*args, **kwargs), self._pending
        finally:
            self._pending = before
        for read, output in pending:
            new = self.handle(read, output, self.choose())
            if new is not output:
                outputs = result if isinstance(result, tuple | list) else [result]
                storages = [
                    internals.storage_number(tensor) if isinstance(tensor, Tensor) else None for tensor in outputs
                ]
                if internals.storage_number(output) not in storages:
                    name = getattr(func, "__name__", "a function")
                    message = f"got attention inside of {name}, through which gradients cannot be followed"
                    raise InputError.of(f"{message}; run the model inside of torch.no_grad()")
                index = storages.index(internals.storage_number(output))
                own = outputs[index]
                shift = own.storage_offset() - output.storage_offset() + new.storage_offset()
                exchanged = new.as_strided(own.shape, own.stride(), shift)
                result = (
                    exchanged if result is own else type(result)([*outputs[:index], exchanged, *outputs[index + 1 :]])
                )
        return result

    def see_written(self, written: UnfusedAttention) -> Tensor:
        """Handle attention that is computed step by step."""
        module = self._stack[-1] if self._stack else None
        heads = next((number for name in HEADS if isinstance(number := getattr(module, name, None), int)), None)
        is_training = any(module.training for module in self.modules)

        def read(reading: AttentionCall | None) -> AttentionCall:
            """Return the call in a known reading, else in the best one."""
            call = best_candidate(candidates(written, heads), written.dtypes, reading)
            changes = [step.op for step in written.after if step.op not in VIEWS]
            if call.problem is None or not changes:
                return call
            changed = f"weights are changed after the softmax, by {', '.join(changes)}"
            return replace(call, problem=DROPOUT if is_training else changed)

        return self.see(read, written.output)


class FullWatch(Watch):
    """A watch that sees all attention: also of other kernels than torch's function, and computed step by step.

    One for which torch's function is enough, in `follows`, spares the model the time of following its operations.
    """

    monitor_class = Follower

    def __exit__(self, *raised: Any) -> None:
        """Stop watching, and add to `missed` weights of attention that nothing used."""
        assert isinstance(self.monitor, Follower), "no other kind of watch is active"
        for modules, shape in self.monitor.trail.unused.values():
            self.miss(f"a softmax of a product, {list(shape)}, whose weights no product takes", modules)
        super().__exit__(*raised)

    def take_names(self, model: object) -> None:
        """From now on, name layers as this model's `named_modules` does, and know its parameters."""
        super().take_names(model)
        if isinstance(model, nn.Module) and isinstance(self.monitor, Follower):
            own = (parameter for parameter in model.parameters() if not internals.is_wrapped(parameter))
            self.monitor.trail.parameters |= {parameter.untyped_storage().data_ptr() for parameter in own}


@functools.cache
def _unguarded(func: Any) -> Any:
    """Return a function of torch without its first step, which passes it to function modes as a whole."""
    # Torch's functions in Python begin with `if has_torch_function(...): return handle_torch_function(...)`. While a
    # mode handles such a function it is off, and the attention inside is not seen; turned on again, the first step of
    # the function hands it to the mode once more, without end. A copy with globals that deny the mode runs its
    # body, and the mode sees the calls in it. `Follower.run` does so for multi-head attention and for backward passes.
    never = dict.fromkeys(("has_torch_function", "has_torch_function_unary"), lambda *_: False)
    copied = FunctionType(func.__code__, {**func.__globals__, **never}, func.__name__, func.__defaults__)
    copied.__kwdefaults__ = func.__kwdefaults__
    return copied


@functools.cache
def _operation(func: Any) -> tuple[str, bool, bool, bool]:
    """Return the name of an operation of torch, without `_` at its end, and whether it is of certain kinds.

    These are: in place; a kernel of attention; and of higher order, with functions as arguments, as `flex_attention`.
    """
    is_higher = not hasattr(func, internals.SCHEMA)
    name = func.name() if is_higher else getattr(func, internals.SCHEMA).name.partition("::")[2]
    is_kernel = any(word in name for word in ("attention", "attn", "_scaled_dot_product")) and "backward" not in name
    return name.removesuffix("_"), name.endswith("_"), is_kernel, is_higher


class _Operations(internals.DispatchMode):
    """Torch dispatch mode that passes the operations inside of all functions to a `Follower`."""

    def __init__(self, monitor: Follower) -> None:
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
        op, is_in_place, is_kernel, is_higher = _operation(func)
        if op == "flex_attention":
            own, *others = output
            return monitor.see(lambda reading: best_candidate([flexible(args, own)], reading=reading), own), *others
        if is_higher:
            return output
        if is_kernel:
            if op.startswith("_scaled_dot_product"):
                names = (argument.name for argument in getattr(func, internals.SCHEMA).arguments)
                names = ("attn_mask" if name == "attn_bias" else name for name in names)
                call = dict(zip(names, args, strict=False)) | kwargs
                return monitor.see(monitor.reader(call, output[0], "kernel"), output[0]), *output[1:]
            monitor.miss(f"the kernel {getattr(func, internals.SCHEMA).name}, which is not known")
        attention = monitor.trail.see(op, args, kwargs, output, is_in_place=is_in_place)
        if isinstance(attention, UnfusedAttention):
            return monitor.see_written(attention)
        if attention is not None:
            monitor.miss(attention)
        return output
