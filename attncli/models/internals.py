"""All private names of torch and of Python's frames that following attention needs, each with the reason.

Nothing public does the same. `tests/models/test_layers.py` says which of them a new torch has taken away.
"""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode  # torch documents no other place for this class
from torch.utils.checkpoint import CheckpointFunction

APPLIED = torch.autograd.Function.apply.__func__.__code__  # type: ignore[attr-defined]


class DispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode inside of which nothing is compiled."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled inside; telling torch to skip the compiler would load it for seconds


def push_missing(operations: DispatchMode, functions: torch.overrides.TorchFunctionMode) -> None:
    """Turn on the modes that are off: torch pops a mode while it handles a call, and an interrupt can leave it off."""
    # Entering a mode again would save the modes around it anew; pushing puts it back and no more.
    if not any(mode is operations for mode in torch.utils._python_dispatch._get_current_dispatch_mode_stack()):
        torch._C._push_on_torch_dispatch_stack(operations)
    stack = torch.overrides._get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    if not any(mode is functions for mode in stack):
        torch._C._push_on_torch_function_stack(functions)


def without_modes() -> AbstractContextManager[Any]:
    """Return a context without any mode; faster than to let each operation pass through them."""
    return torch.utils._python_dispatch._disable_current_modes()


def backward_pass() -> int:
    """Return the number of the backward pass that runs in this thread, and may run modules again; -1 if none."""
    return torch._C._current_graph_task_id()


def is_compiler_loaded() -> bool:
    """Whether torch's compiler is loaded; asking it by public functions would load it, for seconds."""
    return any(name in sys.modules for name in ("torch._dynamo", "torch.nn.attention.flex_attention"))


def schema(operation: Any) -> Any:
    """Return name and arguments of an operation of torch; None if it is of a higher order, as `flex_attention`."""
    return getattr(operation, "_schema", None)


def has_storage(tensor: Tensor) -> bool:
    """Whether a tensor has memory; those that `torch.func` puts in the place of others raise errors when asked."""
    return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def storage_number(tensor: Tensor) -> int:
    """Return a number of the tensor's storage; -1 without one. Unlike its address, storages without bytes have one."""
    return int(tensor.untyped_storage()._cdata) if has_storage(tensor) else -1


def frame(depth: int) -> FrameType:
    """Return the frame of the function that calls this one, or of one `depth` calls further out.

    An interrupt ends a module without a hook. Only its frame, which is then no longer among those that run, shows it.
    """
    return sys._getframe(depth + 1)


def _outwards(inner: FrameType | None) -> Iterator[FrameType]:
    while inner is not None:
        yield inner
        inner = inner.f_back


def is_within(inner: FrameType, outer: FrameType) -> bool:
    """Whether a frame is `outer`, or a frame of a function that `outer` called."""
    return any(each is outer for each in _outwards(inner))


def is_in_function_with_gradients() -> bool:
    """Whether a torch.autograd.Function, but for checkpoints, is applied to tensors with gradients, here or outwards.

    Torch turns gradients off inside of it and keeps nowhere else what it is applied to.
    """
    applied = next((each for each in _outwards(frame(1)) if each.f_code is APPLIED), None)
    while applied is not None and applied.f_locals["cls"] is CheckpointFunction:
        applied = next((each for each in _outwards(applied.f_back) if each.f_code is APPLIED), None)
    arguments = applied.f_locals["args"] if applied is not None else ()
    return any(isinstance(argument, Tensor) and argument.requires_grad for argument in arguments)
