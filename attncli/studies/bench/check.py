"""Whether an implementation is right, before it is timed: a few rows of its results beside the same in float64."""

import copy
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from attncli.attention import computing_dtype
from attncli.errors import InputError
from attncli.scorers import SCORERS
from attncli.studies.bench.calls import Inputs, Job, Results, pooled
from attncli.studies.scoring import raw_scores

# What rounding may change, relative to the largest number: some hundred units in the last place of a sum of many terms,
# ten of numbers so short that they decide alone.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 8e-2}
MOST = 0.2  # that is ever put down to rounding: 0 in place of the result is off by 1, and a factor of 1.3 by 0.3
OWN = ("attncli", "compiled")  # which compute in float32 at least


def disagreement(job: Job, scorer: nn.Module, results: Results) -> str | None:
    """Why the results of a job on the first of its inputs are wrong; None where they agree with float64.

    Compared are the first, the middle and the last query of the first and the last matrix: no row depends on another.

    Raises:
        InputError: a scorer of the user's own that fails.
    """
    expected, largest = _in_float64(job, scorer)
    tolerance = _tolerance(job, largest)
    names = ["scores"] if job.measure == "scores" else ["output", "weights"]
    for name, result, right in zip(names, results, expected, strict=False):
        if said := _different(name, few_rows(result), right, tolerance):
            return said
    return None


def few_matrices(tensor: Tensor) -> Tensor:
    """The first and the last of (..., m, x): (2, m, x), or (1, m, x) where there is one."""
    flat = tensor.detach().reshape(-1, *tensor.shape[-2:])
    return flat[sorted({0, len(flat) - 1})]


def few_rows(tensor: Tensor) -> Tensor:
    """First, middle and last row of these."""
    n = tensor.shape[-2]
    return few_matrices(tensor)[:, sorted({0, n // 2, n - 1})]


def _tolerance(job: Job, largest: float) -> float:
    """What rounding explains in the dtype that is computed in; the error of a weight is that of its score, unscaled."""
    stored = job.copies[0].queries.dtype
    own = job.contender.implementation in OWN and job.entry.scorer in SCORERS
    tolerance = TOLERANCE[computing_dtype(stored) if own else stored]
    return min(tolerance * (1.0 if job.measure == "scores" else 1.0 + largest), MOST)


def _in_float64(job: Job, scorer: nn.Module) -> tuple[Results, float]:
    """What is right, by the textbook's code where there is some, and the largest score.

    A scorer of the user's own that cannot compute in float64 is compared with itself on few rows, in float32.
    """
    inputs = job.copies[0]
    few = Inputs(few_rows(inputs.queries), few_matrices(inputs.keys), few_matrices(inputs.values))
    try:
        return _reference(few, _scores(scorer, torch.float64), job.measure, torch.float64)
    except InputError as error:
        try:
            return _reference(few, _scores(scorer, torch.float32), job.measure, torch.float32)
        except InputError:
            raise error from None


def _scores(scorer: nn.Module, dtype: torch.dtype) -> Callable[[Tensor, Tensor], Tensor]:
    exact = copy.deepcopy(scorer).cpu().to(dtype)
    known = type(scorer) in SCORERS.values()
    return (getattr(exact, "as_in_textbooks", None) if known else None) or partial(raw_scores, exact)


def _reference(
    few: Inputs, scores: Callable[[Tensor, Tensor], Tensor], measure: str, dtype: torch.dtype
) -> tuple[Results, float]:
    queries, keys, values = (each.cpu().to(dtype) for each in few.all)
    with torch.no_grad():
        largest = float(scores(queries, keys).abs().max())
        return pooled(scores, measure)(queries, keys, values), largest


def _different(name: str, found: Tensor, right: Tensor, tolerance: float) -> str | None:
    """A sentence where two tensors differ by more than rounding of the largest number; NaN differs from everything."""
    if found.shape != right.shape:
        return f"gives {name} of shape {list(found.shape)} where {list(right.shape)} is right"
    size, difference = float(right.abs().max()), float((found.cpu().to(right.dtype) - right).abs().max())
    if difference <= tolerance * size:
        return None
    share = f"{difference / size:.2g} of the largest number" if size > 0 else f"{difference:.2g}"
    return f"differs from float64 in {name} by {share}; rounding explains {tolerance:.2g}"
