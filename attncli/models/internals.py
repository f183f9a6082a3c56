"""All private names of torch and of Python's frames that following attention needs, each with the reason.

Nothing public does the same. A test keeps them out of all other files.
"""

import sys
from collections.abc import Iterator
from types import FrameType

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _python_dispatch as dispatch  # torch documents no other place for dispatch modes
from torch.utils.checkpoint import CheckpointFunction

APPLIED = torch.autograd.Function.apply.__func__.__code__  # type: ignore[attr-defined]
SCHEMA = "_schema"  # of an operation of torch: its name, and its arguments by name; none of higher-order ones
COMPILERS = ("torch._dynamo", "torch.nn.attention.flex_attention")  # in `sys.modules`, if loaded: loading takes seconds
without_modes = dispatch._disable_current_modes  # no mode sees a scorer; faster than to let each operation pass
backward_pass = torch._C._current_graph_task_id  # which runs in this thread, and may run modules again; -1 if none
is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor  # by `torch.func`: without memory, an error when asked


class DispatchMode(dispatch.TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode inside of which nothing is compiled."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # telling torch to skip the compiler would load it for seconds


def push_missing(operations: DispatchMode | None, functions: TorchFunctionMode) -> None:
    """Turn on the modes that are off: torch pops a mode while it handles a call, and an interrupt can leave it off."""
    # Entering a mode again would save the modes around it anew; pushing puts it back and no more.
    if operations is not None and not any(each is operations for each in dispatch._get_current_dispatch_mode_stack()):
        torch._C._push_on_torch_dispatch_stack(operations)
    stack = torch.overrides._get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    if not any(mode is functions for mode in stack):
        torch._C._push_on_torch_function_stack(functions)


def storage_number(tensor: Tensor) -> int:
    """Return a number of the tensor's storage; -1 without one. Unlike its address, storages without bytes have one."""
    return -1 if is_wrapped(tensor) else int(tensor.untyped_storage()._cdata)


def frame(depth: int) -> FrameType:
    """Return the frame of the function that calls this one, or of one `depth` calls further out.

    An interrupt ends a module without a hook. Only its frame shows it: it no longer runs.
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
    for each in _outwards(frame(1)):
        if each.f_code is APPLIED and each.f_locals["cls"] is not CheckpointFunction:
            arguments = each.f_locals["args"]
            return any(isinstance(argument, Tensor) and argument.requires_grad for argument in arguments)
    return False
