"""Implementations of scorers: which a scorer has, how they are called, and whether they are right."""

import copy
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncli import textbook
from attncli.attention import attend, computing_dtype
from attncli.errors import InputError
from attncli.pooling import pool
from attncli.scorers import SCORERS
from attncli.studies.scoring import compile_scorer, raw_scores, worth_compiling

# What rounding may change, relative to the largest number: some hundred units in the last place of a sum of many terms,
# ten of numbers so short that they decide alone.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 8e-2}
MOST = 0.2  # that is ever put down to rounding: 0 in place of the result is off by 1, and a factor of 1.3 by 0.3
RESULTS = {"scores": ["scores"], "weights": ["output", "weights"], "output": ["output"]}  # of each measure

Inputs = tuple[Tensor, Tensor, Tensor]  # queries (..., n, d), keys and values (..., m, d)
Results = tuple[Tensor, ...]  # as in RESULTS
Forward = Callable[[Tensor, Tensor, Tensor], Results]  # of queries, keys and values
Call = Callable[[], tuple[Results, Sequence[Tensor | None]]]  # with gradients, none of them where none were asked for


class NotTimedError(Exception):
    """The status of what cannot be timed, and why."""


class Implementation(NamedTuple):
    """Whether a scorer has it, and how it makes what a measure asks for."""

    exists: Callable[[nn.Module], bool]
    forward: Callable[[nn.Module, str], Forward]


def own_code(scorer: nn.Module, measure: str) -> Forward:
    """The way of this package."""
    if measure == "scores":
        return lambda queries, keys, values: (scorer(queries, keys),)
    if measure == "weights":
        return lambda queries, keys, values: attend(scorer(queries, keys), values)
    return lambda queries, keys, values: (pool(scorer, queries, keys, values),)


def compiled(scorer: nn.Module, measure: str) -> Forward:
    """The way of this package after torch.compile, which compiles `scorer` in place."""
    if reason := compile_scorer(scorer):
        raise NotTimedError("not available", reason)
    return own_code(scorer, measure)


def textbook_code(scores: Callable[[Tensor, Tensor], Tensor], measure: str) -> Forward:
    """Scores, and the textbook's softmax and sum of values after them where they are asked for."""
    if measure == "scores":
        return lambda queries, keys, values: (scores(queries, keys),)
    count = len(RESULTS[measure])
    return lambda queries, keys, values: textbook.attention(scores(queries, keys), values)[:count]


def fused(scorer: nn.Module, measure: str) -> Forward:
    """The kernel of torch, which takes (batch, heads, n, d) only, and gives outputs only."""
    kernel = partial(F.scaled_dot_product_attention, scale=float(scorer.scale))  # type: ignore[arg-type]

    def output(queries: Tensor, keys: Tensor, values: Tensor) -> Results:
        q, k, v = (each if each.ndim == 4 else each.unsqueeze(1) for each in (queries, keys, values))
        return (kernel(q, k, v).view(queries.shape),)

    return output


TABLE = {
    "attncli": Implementation(lambda scorer: True, own_code),
    "compiled": Implementation(worth_compiling, compiled),
    "textbook": Implementation(
        lambda scorer: getattr(scorer, "as_in_textbooks", None) is not None,
        lambda scorer, measure: textbook_code(scorer.as_in_textbooks, measure),  # type: ignore[arg-type]
    ),
    "fused": Implementation(lambda scorer: getattr(scorer, "has_fused_kernel", False), fused),
}


def make_call(implementation: str, scorer: nn.Module, measure: str, copies: Sequence[Inputs], backward: bool) -> Call:
    """One call of an implementation, each time on the copy whose turn it is, the first one at first.

    It has a copy of the scorer of its own, since compiling changes it.

    Raises:
        NotTimedError: an implementation that this machine cannot have.
    """
    own = copy.deepcopy(scorer)
    if implementation == "textbook":  # which computes in the dtype of its inputs
        own = own.to(copies[0][0].dtype)
    parameters = [each for each in own.parameters() if each.requires_grad]
    forward = TABLE[implementation].forward(own, measure)
    turns = cycle([[each.detach().requires_grad_(backward) for each in inputs] for inputs in copies])
    ones: Tensor | None = None  # made by the first call, so no memory of later ones

    def call() -> tuple[Results, Sequence[Tensor | None]]:
        nonlocal ones
        inputs = next(turns)
        with torch.set_grad_enabled(backward):
            results = forward(*inputs)
        if not backward:
            return results, ()
        if not results[0].requires_grad:
            message = f"its {measure} have no gradient (they are detached, or not made by torch)"
            raise NotTimedError("not available", f"{message}; measure it without backward")
        ones = torch.ones_like(results[0]) if ones is None else ones
        wanted = [*(inputs[:2] if measure == "scores" else inputs), *parameters]
        return results, torch.autograd.grad(results[0], wanted, ones, allow_unused=True)

    return call


def disagreement(implementation: str, scorer: nn.Module, measure: str, inputs: Inputs, results: Results) -> str | None:
    """Why the results for these inputs are wrong; None where they agree with float64, by textbook code if there is any.

    Compared are the first, the middle and the last query of the last matrix: no row depends on another. A scorer of the
    user's own that cannot compute in float64 is compared with itself on few rows, in float32.

    Raises:
        InputError: a scorer of the user's own that fails.
    """
    queries, keys, values = inputs
    few = (_few_rows(queries), _last_matrix(keys), _last_matrix(values))
    in_catalogue = type(scorer) in SCORERS.values()
    try:
        reference, largest = _reference(scorer, few, measure, torch.float64, in_catalogue)
    except InputError:
        reference, largest = _reference(scorer, few, measure, torch.float32, in_catalogue)
    upcast = in_catalogue and implementation in ("attncli", "compiled")  # which compute in float32 at least
    tolerance = TOLERANCE[computing_dtype(queries.dtype) if upcast else queries.dtype]
    if measure != "scores":  # the error of a weight is that of its score, unscaled
        tolerance *= 1.0 + largest
    for name, result, expected in zip(RESULTS[measure], results, reference, strict=True):
        if reason := _difference(name, _few_rows(result), expected, min(tolerance, MOST)):
            return reason
    return None


def _last_matrix(tensor: Tensor) -> Tensor:
    """The last of (..., m, x): (1, m, x)."""
    return tensor.detach().reshape(-1, *tensor.shape[-2:])[-1:]


def _few_rows(tensor: Tensor) -> Tensor:
    """First, middle and last row of the last matrix."""
    n = tensor.shape[-2]
    return _last_matrix(tensor)[:, sorted({0, n // 2, n - 1})]


def _reference(
    scorer: nn.Module, inputs: Inputs, measure: str, dtype: torch.dtype, in_catalogue: bool
) -> tuple[Results, float]:
    """What is right, and the largest score."""
    exact = copy.deepcopy(scorer).cpu().to(dtype)
    scores = (getattr(exact, "as_in_textbooks", None) if in_catalogue else None) or partial(raw_scores, exact)
    queries, keys, values = (each.cpu().to(dtype) for each in inputs)
    with torch.no_grad():
        return textbook_code(scores, measure)(queries, keys, values), float(scores(queries, keys).abs().max())


def _difference(name: str, result: Tensor, expected: Tensor, tolerance: float) -> str | None:
    """What rounding of the largest number does not explain; NaN differs from everything."""
    if result.shape != expected.shape:
        return f"gives {name} of shape {list(result.shape[1:])} where {list(expected.shape[1:])} is right"
    size = float(expected.abs().max())
    difference = float((result.cpu().to(expected.dtype) - expected).abs().max())
    if difference <= tolerance * size:
        return None
    share = f"{difference / size:.2g} of the largest number" if size > 0 else f"{difference:.2g}"
    return f"differs from float64 in {name} by {share}; rounding explains {tolerance:.2g}"
