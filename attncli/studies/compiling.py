"""Scorers after `torch.compile`, where it makes a difference and there is a compiler."""

import functools

import torch
from torch import nn

from attncli.attention import computing_dtype
from attncli.errors import InputError
from attncli.scorers.additive import Additive


def worth_compiling(scorer: nn.Module) -> bool:
    """Whether a compiler could fuse anything: always, unless the scorer's class says that it could not."""
    return bool(getattr(scorer, "worth_compiling", True))


def compile_scorer(scorer: nn.Module) -> str | None:
    """Let `torch.compile` work for this scorer from now on, for all sizes; else say, on one line, why it does not."""
    parameter = next(scorer.parameters(), torch.empty(0))
    reason = why_not(parameter.device, computing_dtype(parameter.dtype))
    if reason is None:
        scorer.compile(dynamic=True)
    return reason


@functools.cache
def why_not(device: torch.device, dtype: torch.dtype) -> str | None:
    """Why nothing can be compiled for this device; None where it can, which is found out by compiling a scorer."""
    probe = Additive(1, 1).to(device, dtype)
    probe.compile()
    rows = torch.zeros(1, 16, 1, device=device, dtype=dtype)  # enough of them for the form that is used for more
    try:
        with torch.no_grad():
            probe(rows, rows)
    except InputError as error:
        return error.problems[0].message
    return None
