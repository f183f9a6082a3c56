"""Keep the caller's global modes of torch, such as autocast, from changing results."""

import functools
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])
DEVICE_TYPES = ("cpu", "cuda", "mps", "xpu")
_TORCH_LOCK = threading.RLock()  # torch's generators and most of its modes are global to the process


def _is_not_about_a_missing_gpu(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("No CUDA runtime is found")


# Torch's compiler and its timer load this module; a build for CUDA then warns on a machine without a GPU.
logging.getLogger("torch.utils.cpp_extension").addFilter(_is_not_about_a_missing_gpu)


@contextmanager
def torch_isolated() -> Iterator[None]:
    """Serialise access to torch, and reset the caller's modes that change numbers until the context ends.

    These are autocast, the default dtype and device, inference mode, disabled gradients, filling uninitialised memory
    with NaN (deterministic algorithms), and float32 products of less precision.
    """
    with _TORCH_LOCK, ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))  # turns gradients on, too
        stack.enter_context(_without_autocast())
        stack.callback(torch.set_default_dtype, torch.get_default_dtype())
        torch.set_default_dtype(torch.float32)
        if torch.get_default_device() != torch.device("cpu"):
            stack.enter_context(torch.device("cpu"))
        memory: Any = torch.utils.deterministic
        stack.callback(setattr, memory, "fill_uninitialized_memory", memory.fill_uninitialized_memory)
        memory.fill_uninitialized_memory = False
        _reset_precision(stack)
        yield


def outside_autocast(function: Function) -> Function:
    """Decorate a function to compute in the dtypes of its arguments even inside `torch.autocast`."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not any(map(torch.is_autocast_enabled, DEVICE_TYPES)):
            return function(*args, **kwargs)
        with _without_autocast():
            return function(*args, **kwargs)

    return call  # type: ignore[return-value]


@contextmanager
def _without_autocast() -> Iterator[None]:
    with ExitStack() as stack:
        for kind in filter(torch.is_autocast_enabled, DEVICE_TYPES):
            stack.enter_context(torch.autocast(kind, enabled=False))
        yield


def _reset_precision(stack: ExitStack) -> None:
    """Set float32 products to full precision until the stack is closed.

    Torch has a setting for all backends. Later versions also have a setting for each backend, and reading the global
    setting then raises an error if they differ.
    """
    backends: list[Any] = [getattr(torch.backends.mkldnn, "matmul", None), torch.backends.cuda.matmul]
    for backend in backends:
        if hasattr(backend, "fp32_precision"):
            stack.callback(setattr, backend, "fp32_precision", backend.fp32_precision)
    try:
        stack.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
    except RuntimeError:
        stack.callback(torch.set_float32_matmul_precision, "highest")
    torch.set_float32_matmul_precision("highest")
