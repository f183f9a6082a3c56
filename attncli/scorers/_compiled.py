"""Functions after `torch.compile`, for tensors of all sizes."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from attncli.errors import InputError

Result = TypeVar("Result")
COMPILER = "a C++ compiler, on a GPU Triton"
KINDS = 64  # variants of one function, for dtypes, devices and sizes of 1, before torch takes it for a mistake


def compiled(function: Callable[..., Result]) -> Callable[..., Result]:
    """A function that does the same, compiled for the kind of its arguments when it is first called with them.

    It raises an InputError where torch cannot compile it; most often there is no compiler.
    """
    import torch._dynamo  # takes a second, and nothing else here needs it

    fused = _compiled(function)

    def call(*arguments: Any) -> Result:
        try:
            with torch._dynamo.config.patch(recompile_limit=KINDS):
                result: Result = fused(*arguments)
                return result
        except torch._dynamo.exc.TorchDynamoException as error:
            raise InputError.of(f"torch.compile gave: {_reason(error)}; expected {COMPILER}") from error

    return call


@functools.cache
def _compiled(function: Callable[..., Result]) -> Callable[..., Result]:
    # fullgraph: never to fall back, unseen, to running the function as it is, with all hidden units in memory
    return torch.compile(function, dynamic=True, fullgraph=True)


def _reason(error: Exception) -> str:
    """The line of the message that says what is wrong; one that ends in `raised:` does not."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if not line.endswith("raised:")), type(error).__name__)
