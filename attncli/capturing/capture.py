"""Sees every attention call of the models that run, whatever library they are from, and keeps what entered it.

Three nets; the outer one wins. A function mode sees calls of torch's `scaled_dot_product_attention` under any name. A
dispatch mode sees its fused kernels where something else calls them, and follows attention that is written out.
"""

import math
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, Self
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.functional import multi_head_attention_forward, scaled_dot_product_attention
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from attncli.capturing.reading import Heads, UnreadableError, flexible, fused, readings
from attncli.capturing.record import TENSORS, Record, settled
from attncli.capturing.selection import Calls, Selection
from attncli.capturing.trail import VIEWS, Trail, Written
from attncli.errors import InputError
from attncli.modes import outside_autocast

HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "heads")
ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
COMPILERS = ("torch._dynamo", "torch.nn.attention.flex_attention")
DROPOUT = "it ran with dropout; call model.eval() before"


@dataclass(frozen=True)
class Missed:
    """What looks like attention and was not captured: the layer, its class, and why."""

    layer: str
    kind: str
    problem: str


class Capture(AbstractContextManager["Capture"]):
    """Records all attention of the models that run inside the `with`, in this thread and without gradients.

    with attncli.Capture() as seen:
        model(inputs)
    seen.records  # one for each call, in order; each has been re-scored and compared with the model's own output
    seen.missed   # what looks like attention and was not captured

    `layers` chooses some: their numbers in the order they are seen, such as `0,5-7`, or a glob of their names, such as
    `decoder.*`. `heads` chooses heads by number. `calls` is `all`, or `first` for the first call of each layer.

    Raises:
        InputError: a choice that means nothing.
    """

    def __init__(self, layers: str | None = None, heads: str | None = None, calls: Calls = "all") -> None:
        self.records: list[Record] = []
        self.missed: list[Missed] = []
        self._chosen = Selection(layers, heads, calls)
        self._trail = Trail(self._place)
        self._stack: list[nn.Module] = []
        self._names = WeakKeyDictionary[nn.Module, str]()
        self._calls: dict[str, int] = {}
        self._ran: dict[str, str] = {}  # class of each module by name
        self._num_heads: int | None = None
        self._is_busy = False
        self._exits = ExitStack()

    def __enter__(self) -> Self:
        """Begin to watch."""
        enter, at_end = self._exits.enter_context, self._exits.callback
        self._thread = threading.get_ident()
        enter(torch.no_grad())
        self._is_eager = False
        self._stay_eager()
        enter(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message="Using `torch.compile")  # that our hooks fire once more
        at_end(register_module_forward_pre_hook(self._enter_module).remove)
        at_end(register_module_forward_hook(self._leave_module, always_call=True).remove)
        enter(_Operations(self))
        enter(_Functions(self))  # which also turns off the fast path of torch's modules
        return self

    def __exit__(self, *raised: Any) -> None:
        """Stop watching."""
        self._exits.close()
        for place, shape in self._trail.unused.values():
            self._miss(f"a softmax of a product, {list(shape)}, whose weights no product takes", place)
        self._trail = Trail(self._place)
        known = {record.layer for record in self.records} | {each.layer for each in self.missed} | set(self._calls)
        named = [name for name, kind in self._ran.items() if "attention" in kind.lower()]
        named = [name for name in named if not (known and name == self._ran[name])]  # a model as a whole
        seen = {name for name in named if any(_are_one_in_other(name, other) for other in known)}
        unseen = [name for name in named if not any(_are_one_in_other(name, other) for other in known | seen)]
        for name in unseen:
            if not any(other.startswith(f"{name}.") for other in unseen):  # the innermost
                self._miss("it ran, and no attention was recognised in it", (name, self._ran[name]))

    def take_names(self, model: object) -> None:
        """Name layers as they are called in this model, whichever part of it is run first."""
        if isinstance(model, nn.Module):
            self._names |= {each: name for name, each in model.named_modules()}
            self._trail.parameters |= {each.untyped_storage().data_ptr() for each in model.parameters()}

    def check(self) -> None:
        """Raise an InputError unless some attention was captured."""
        if any(record.problem is None for record in self.records):
            return
        found: list[Record | Missed] = [*self.records, *self.missed]
        reasons = [f"{each.layer} ({each.kind}): {each.problem}" for each in found]
        if reasons:
            more = f"; and {len(reasons) - 1} more" if len(reasons) > 1 else ""
            raise InputError.of(f"no attention could be captured; {reasons[0]}{more}")
        if self._calls:
            names = list(self._calls)
            known = f"{names[0]} to {names[-1]}" if len(names) > 1 else names[0]
            raise InputError.of(f"no layer was chosen; expected some of the {len(names)} with attention, {known}")
        raise InputError.of("no attention ran; expected a model with attention layers")

    def _stay_eager(self) -> None:
        """Let nothing run compiled. Where there is no compiler, nor what loads it, nothing is; it takes seconds."""
        if not self._is_eager and any(name in sys.modules for name in COMPILERS):
            self._is_eager = True
            self._exits.enter_context(torch.compiler.set_stance("force_eager"))

    def _enter_module(self, module: nn.Module, inputs: Any) -> None:
        kind = type(module).__name__
        if threading.get_ident() != self._thread:
            if "attention" in kind.lower():
                self._miss("it ran in another thread, which is not watched", (kind, kind))
            return
        self._stay_eager()
        if not self._stack and module not in self._names:
            self.take_names(module)
        self._stack.append(module)
        self._trail.enter()
        name, kind = self._place()
        self._ran[name] = kind

    def _leave_module(self, module: nn.Module, inputs: Any, output: Any) -> None:
        if threading.get_ident() == self._thread and self._stack and self._stack[-1] is module:
            self._stack.pop()
            self._trail.leave()

    def _place(self) -> tuple[str, str]:
        """Name and class of the module that runs; one that is not part of its root stands below the nearest that is."""
        if not self._stack:
            return "function", "function"
        module = self._stack[-1]
        kind = type(module).__name__
        known = next(each for each in reversed(self._stack) if each in self._names)
        name = self._names[known].replace("_orig_mod.", "").removesuffix("_orig_mod") or type(known).__name__
        return name if known is module else f"{name}/{kind}", kind

    def _miss(self, problem: str, place: tuple[str, str] | None = None) -> None:
        missed = Missed(*(place or self._place()), problem)
        if missed not in self.missed:
            self.missed.append(missed)

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """What is computed inside is not looked at."""
        before, self._is_busy = self._is_busy, True
        try:
            yield
        finally:
            self._is_busy = before

    @outside_autocast  # the model may run in it
    def _saw(self, read: Callable[[], Record]) -> None:
        """A call whose record `read` makes, if it is chosen."""
        layer, kind = self._place()
        call = self._calls[layer] = self._calls.get(layer, -1) + 1
        if not self._chosen.takes(layer, list(self._calls).index(layer), call):
            return
        with self._busy():
            try:
                record = _scorable(replace(read(), layer=layer, call=call, kind=kind))
                self.records.append(_owned(self._chosen.of_heads(record)))
            except (UnreadableError, InputError) as reason:
                self._miss(str(reason))
            except Exception as error:  # of shapes and kinds of tensors that nobody thought of
                self._miss(f"its tensors cannot be read ({str(error).partition(chr(10))[0]})")

    def _saw_fused(self, call: dict[str, Any], output: Tensor, how: Literal["function", "kernel"]) -> None:
        query, key = self._trail.of(call["query"]), self._trail.of(call["key"])

        def read() -> Record:
            record = settled([replace(fused(call, output, query, key), how=how)])
            return replace(record, problem=DROPOUT) if call.get("dropout_p") else record

        self._saw(read)

    def _saw_written(self, written: Written) -> None:
        module = self._stack[-1] if self._stack else None
        likely = next((heads for name in HEADS if isinstance(heads := getattr(module, name, None), int)), None)

        def read() -> Record:
            record = settled(readings(written, Heads(self._num_heads, likely)), written.dtypes)
            changes = [step.op for step in written.after if step.op not in VIEWS]
            if record.problem is None or not changes:
                return record
            is_training = any(module.training for module in self._stack)
            changed = f"weights are changed after the softmax, by {', '.join(changes)}"
            return replace(record, problem=DROPOUT if is_training else changed)

        self._saw(read)


class _Functions(TorchFunctionMode):
    """Functions of torch, as models call them."""

    def __init__(self, capture: Capture) -> None:
        super().__init__()
        self._capture = capture

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        capture, kwargs = self._capture, kwargs or {}
        if func is scaled_dot_product_attention and not capture._is_busy:
            with capture._busy():
                output = func(*args, **kwargs)
            capture._saw_fused(dict(zip(ARGUMENTS, args, strict=False)) | kwargs, output, "function")
            return output
        if func is multi_head_attention_forward:  # from here on this mode is off: the other one sees the rest
            before, capture._num_heads = capture._num_heads, args[4] if len(args) > 4 else kwargs.get("num_heads")
            try:
                return func(*args, **kwargs)
            finally:
                capture._num_heads = before
        return func(*args, **kwargs)


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The operations that everything consists of."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled inside; to skip it would load it, which takes seconds

    def __init__(self, capture: Capture) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._capture = capture

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        capture, kwargs = self._capture, kwargs or {}
        if torch.is_inference_mode_enabled() and not capture._is_busy and hasattr(func, "decompose"):
            with self:  # there functions such as matmul arrive whole: what they consist of is what is looked at
                output = func.decompose(*args, **kwargs)
            if output is not NotImplemented:
                return output
        output = func(*args, **kwargs)
        if capture._is_busy or any(isinstance(each, Tensor) and each.is_nested for each in (output, *args)):
            return output
        if not hasattr(func, "_schema"):
            if func.name() == "flex_attention":
                capture._saw(lambda: settled([flexible(args, output[0])]))
            return output
        op = func._schema.name.partition("::")[2]
        if op.startswith("_scaled_dot_product") and "backward" not in op:
            names = ("attn_mask" if each.name == "attn_bias" else each.name for each in func._schema.arguments)
            capture._saw_fused(dict(zip(names, args, strict=False)) | kwargs, output[0], "kernel")
            return output
        found = capture._trail.see(op, args, kwargs, output)
        if isinstance(found, Written):
            capture._saw_written(found)
        elif found is not None:
            capture._miss(found)
        return output


def _scorable(record: Record) -> Record:
    if not (record.queries.numel() and record.keys.numel() and record.values.numel()):
        raise UnreadableError("it has no queries, no keys or no values")
    if not all(math.isfinite(each) for each in (record.scale, record.softcap or 0.0)):
        raise UnreadableError("its scale or its softcap is not finite")
    return record


def _owned(record: Record) -> Record:
    """With copies, on the CPU: a cache may be written over, and a view would keep the whole of its storage."""
    tensors = {name: getattr(record, name) for name in TENSORS}
    copies = {
        name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
        if tensor is not None
    }
    return replace(record, **copies)


def capture(model: nn.Module | Callable[..., Any], /, *args: Any, **kwargs: Any) -> Capture:
    """Run a model once, in evaluation mode and without gradients; what entered each of its attention calls.

    `model` may also be a method of one, such as `model.generate`, or any function that runs one.

    Raises:
        InputError: no attention ran, or none that could be followed.
    """
    owner = getattr(model, "__self__", model)
    with evaluating(owner), Capture() as seen:
        seen.take_names(owner)
        model(*args, **kwargs)
    seen.check()
    return seen


@contextmanager
def evaluating(model: object) -> Iterator[None]:
    """A model is in evaluation mode inside, and in the end as it was."""
    modes = [(module, module.training) for module in model.modules()] if isinstance(model, nn.Module) else []
    try:
        for module, _ in modes:
            module.training = False
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _are_one_in_other(name: str, other: str) -> bool:
    """Whether one module is part of the other, by their names, or both are the same."""
    first, second = (each.replace("/", ".") + "." for each in (name, other))
    return first.startswith(second) or second.startswith(first)
