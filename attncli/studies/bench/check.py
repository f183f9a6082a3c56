"""Whether an implementation is right, before it is timed: a few rows of its results beside the same in float64."""

import copy
from functools import partial

import torch
from torch import Tensor, nn

from attncli.attention import computing_dtype
from attncli.errors import InputError
from attncli.scorers import SCORERS
from attncli.studies.bench.calls import Inputs, Results, pooled
from attncli.studies.scoring import raw_scores

# What rounding may change, relative to the largest number: some hundred units in the last place of a sum of many terms,
# ten of numbers so short that they decide alone.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 8e-2}
MOST = 0.2  # that is ever put down to rounding: 0 in place of the result is off by 1, and a factor of 1.3 by 0.3
OWN = ("attncli", "compiled")  # which compute in float32 at least
NAMES = {"scores": ["scores"], "weights": ["output", "weights"], "output": ["output"]}


def disagreement(implementation: str, scorer: nn.Module, measure: str, inputs: Inputs, results: Results) -> str | None:
    """Why the results for these inputs are wrong; None where they agree with float64, by textbook code if there is any.

    Compared are the first, the middle and the last query of the last matrix: no row depends on another. A scorer of the
    user's own that cannot compute in float64 is compared with itself on few rows, in float32.

    Raises:
        InputError: a scorer of the user's own that fails.
    """
    queries, keys, values = inputs
    few = (few_rows(queries), last_matrix(keys), last_matrix(values))
    known = type(scorer) in SCORERS.values()
    try:
        right, largest = _reference(scorer, few, measure, torch.float64, known)
    except InputError:
        right, largest = _reference(scorer, few, measure, torch.float32, known)
    stored = queries.dtype
    tolerance = TOLERANCE[computing_dtype(stored) if known and implementation in OWN else stored]
    if measure != "scores":  # the error of a weight is that of its score, unscaled
        tolerance *= 1.0 + largest
    for name, result, expected in zip(NAMES[measure], results, right, strict=True):
        if said := _different(name, few_rows(result), expected, min(tolerance, MOST)):
            return said
    return None


def last_matrix(tensor: Tensor) -> Tensor:
    """The last of (..., m, x): (1, m, x)."""
    return tensor.detach().reshape(-1, *tensor.shape[-2:])[-1:]


def few_rows(tensor: Tensor) -> Tensor:
    """First, middle and last row of the last matrix."""
    n = tensor.shape[-2]
    return last_matrix(tensor)[:, sorted({0, n // 2, n - 1})]


def _reference(
    scorer: nn.Module, inputs: Inputs, measure: str, dtype: torch.dtype, known: bool
) -> tuple[Results, float]:
    """What is right, and the largest score."""
    exact = copy.deepcopy(scorer).cpu().to(dtype)
    scores = (getattr(exact, "as_in_textbooks", None) if known else None) or partial(raw_scores, exact)
    queries, keys, values = (each.cpu().to(dtype) for each in inputs)
    with torch.no_grad():
        return pooled(scores, measure)(queries, keys, values), float(scores(queries, keys).abs().max())


def _different(name: str, found: Tensor, right: Tensor, tolerance: float) -> str | None:
    """A sentence where two tensors differ by more than rounding of the largest number; NaN differs from everything."""
    if found.shape != right.shape:
        return f"gives {name} of shape {list(found.shape[1:])} where {list(right.shape[1:])} is right"
    size, difference = float(right.abs().max()), float((found.cpu().to(right.dtype) - right).abs().max())
    if difference <= tolerance * size:
        return None
    share = f"{difference / size:.2g} of the largest number" if size > 0 else f"{difference:.2g}"
    return f"differs from float64 in {name} by {share}; rounding explains {tolerance:.2g}"
