"""Watch every attention call of the models that run, from any library.

A torch function mode sees calls of `scaled_dot_product_attention` under any name. A dispatch mode below it sees the
fused kernels that other functions call, and the operations of attention that is computed without a kernel.
"""

import sys
import threading
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Literal, Self
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.functional import multi_head_attention_forward, scaled_dot_product_attention
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from attncli.models.call import AttentionCall, best_candidate
from attncli.models.reading import Heads, candidates, flexible, fused
from attncli.models.trail import VIEWS, Trail, UnfusedAttention
from attncli.modes import outside_autocast

HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "heads")
ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
COMPILERS = ("torch._dynamo", "torch.nn.attention.flex_attention")
DROPOUT = "it ran with dropout; call model.eval() before"
Read = Callable[[int | None], AttentionCall]


class Watch(AbstractContextManager["Watch"]):
    """Context manager that watches the models that run inside it, in the same thread and without gradients.

    A subclass handles attention calls in `take` and problems in `miss`.
    """

    def __init__(self) -> None:
        self._trail = Trail(self.place)
        self._stack: list[nn.Module] = []
        self._names = WeakKeyDictionary[nn.Module, str]()
        self._ran: dict[str, str] = {}  # class of each module by name
        self._num_heads: int | None = None
        self._is_busy = False
        self._exits = ExitStack()

    @abstractmethod
    def take(self, read: Read, output: Tensor) -> Tensor:
        """Return the output that the model continues with after an attention call.

        Args:
            read: returns the record of the call, verified unless the number of the right reading is given.
            output: the model's own output.
        """

    @abstractmethod
    def miss(self, problem: str, place: tuple[str, str] | None = None) -> None:
        """Keep why attention cannot be followed; `place` is name and class of its module (default: the running one)."""

    def __enter__(self) -> Self:
        """Start watching."""
        enter, at_end = self._exits.enter_context, self._exits.callback
        self._thread = threading.get_ident()
        enter(torch.no_grad())
        self._is_eager = False
        self._stay_eager()
        enter(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message="Using `torch.compile")  # about hooks that run twice
        at_end(register_module_forward_pre_hook(self._enter_module).remove)
        at_end(register_module_forward_hook(self._leave_module, always_call=True).remove)
        enter(_Operations(self))
        enter(_Functions(self))  # also turns off the fast path of torch's modules
        return self

    def __exit__(self, *raised: Any) -> None:
        """Stop watching."""
        self._exits.close()
        for place, shape in self._trail.unused.values():
            self.miss(f"a softmax of a product, {list(shape)}, whose weights no product takes", place)
        self._trail = Trail(self.place)
        self._names.clear()  # the next `with` takes the names and parameters of its models again

    def take_names(self, model: object) -> None:
        """From now on, name layers as this model's `named_modules` does, even if only a part of it runs."""
        if isinstance(model, nn.Module):
            self._names |= {each: name for name, each in model.named_modules()}
            self._trail.parameters |= {each.untyped_storage().data_ptr() for each in model.parameters()}

    def place(self) -> tuple[str, str]:
        """Return name and class of the running module; a module outside the model is named after the nearest in it."""
        if not self._stack:
            return "function", "function"
        module = self._stack[-1]
        kind = type(module).__name__
        known = next(each for each in reversed(self._stack) if each in self._names)
        name = self._names[known].replace("_orig_mod.", "").removesuffix("_orig_mod") or type(known).__name__
        return name if known is module else f"{name}/{kind}", kind

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Turn off watching inside the `with` block."""
        before, self._is_busy = self._is_busy, True
        try:
            yield
        finally:
            self._is_busy = before

    def _stay_eager(self) -> None:
        """Turn compiling off if torch's compiler is loaded; loading it only to turn it off would take seconds."""
        if not self._is_eager and any(name in sys.modules for name in COMPILERS):
            self._is_eager = True
            self._exits.enter_context(torch.compiler.set_stance("force_eager"))

    def _enter_module(self, module: nn.Module, inputs: Any) -> None:
        kind = type(module).__name__
        if threading.get_ident() != self._thread:
            if "attention" in kind.lower():
                self.miss("it ran in another thread, which is not watched", (kind, kind))
            return
        self._stay_eager()
        if not self._stack and module not in self._names:
            self.take_names(module)
        self._stack.append(module)
        self._trail.enter()
        name, kind = self.place()
        self._ran[name] = kind

    def _leave_module(self, module: nn.Module, inputs: Any, output: Any) -> None:
        if threading.get_ident() == self._thread and self._stack and self._stack[-1] is module:
            self._stack.pop()
            self._trail.leave()

    @outside_autocast  # the model may run in it
    def _see(self, read: Read, output: Tensor) -> Tensor:
        with self.busy():
            return self.take(read, output)

    def _see_fused(self, call: dict[str, Any], output: Tensor, how: Literal["function", "kernel"]) -> Tensor:
        query, key = self._trail.of(call["query"]), self._trail.of(call["key"])

        def read(known: int | None) -> AttentionCall:
            record = best_candidate([replace(fused(call, output, query, key), how=how)], known=known)
            return replace(record, problem=DROPOUT) if call.get("dropout_p") else record

        return self._see(read, output)

    def _see_written(self, written: UnfusedAttention) -> Tensor:
        module = self._stack[-1] if self._stack else None
        likely = next((heads for name in HEADS if isinstance(heads := getattr(module, name, None), int)), None)

        def read(known: int | None) -> AttentionCall:
            record = best_candidate(candidates(written, Heads(self._num_heads, likely)), written.dtypes, known)
            changes = [step.op for step in written.after if step.op not in VIEWS]
            if record.problem is None or not changes:
                return record
            is_training = any(module.training for module in self._stack)
            changed = f"weights are changed after the softmax, by {', '.join(changes)}"
            return replace(record, problem=DROPOUT if is_training else changed)

        return self._see(read, written.output)


class _Functions(TorchFunctionMode):
    """Torch function mode that passes calls of attention functions of torch to a `Watch`."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        watch, kwargs = self._watch, kwargs or {}
        if func is scaled_dot_product_attention and not watch._is_busy:
            with watch.busy():
                output = func(*args, **kwargs)
            return watch._see_fused(dict(zip(ARGUMENTS, args, strict=False)) | kwargs, output, "function")
        if func is multi_head_attention_forward:  # this mode is off inside: `_Operations` sees the rest
            before, watch._num_heads = watch._num_heads, args[4] if len(args) > 4 else kwargs.get("num_heads")
            try:
                return func(*args, **kwargs)
            finally:
                watch._num_heads = before
        return func(*args, **kwargs)


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Torch dispatch mode that passes the operations inside of all functions to a `Watch`."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled inside; telling torch to skip the compiler would load it for seconds

    def __init__(self, watch: Watch) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._watch = watch

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        watch, kwargs = self._watch, kwargs or {}
        if torch.is_inference_mode_enabled() and not watch._is_busy and hasattr(func, "decompose"):
            with self:  # in inference mode, functions such as matmul arrive whole: watch their parts
                output = func.decompose(*args, **kwargs)
            if output is not NotImplemented:
                return output
        output = func(*args, **kwargs)
        if watch._is_busy or any(isinstance(each, Tensor) and each.is_nested for each in (output, *args)):
            return output
        if not hasattr(func, "_schema"):
            if func.name() == "flex_attention":
                first = watch._see(lambda known: best_candidate([flexible(args, output[0])], known=known), output[0])
                return first, *output[1:]
            return output
        op = func._schema.name.partition("::")[2]
        if op.startswith("_scaled_dot_product") and "backward" not in op:
            names = ("attn_mask" if each.name == "attn_bias" else each.name for each in func._schema.arguments)
            call = dict(zip(names, args, strict=False)) | kwargs
            return watch._see_fused(call, output[0], "kernel"), *output[1:]
        found = watch._trail.see(op, args, kwargs, output)
        if isinstance(found, UnfusedAttention):
            return watch._see_written(found)
        if found is not None:
            watch.miss(found)
        return output
