"""Functions after `torch.compile`, for tensors of all sizes."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from attncli.errors import InputError

Result = TypeVar("Result")
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
            reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
            raise InputError.of(f"torch.compile gave: {reason}; expected a C++ compiler, on a GPU Triton") from error

    return call


@functools.cache
def _compiled(function: Callable[..., Result]) -> Callable[..., Result]:
    # fullgraph: never to fall back, unseen, to running the function as it is, with all hidden units in memory
    return torch.compile(function, dynamic=True, fullgraph=True)
