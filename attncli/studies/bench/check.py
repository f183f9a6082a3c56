"""Whether an implementation is right, before it is timed: a few rows of its result beside the same in float64."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from attncli.attention import computing_dtype
from attncli.errors import InputError
from attncli.inputs.seeding import generator
from attncli.scorers import SCORERS
from attncli.studies.bench.calls import pooled, textbook_scores
from attncli.studies.bench.inputs import Inputs
from attncli.studies.bench.job import Job, Made
from attncli.studies.bench.plan import implementations_of
from attncli.studies.scoring import raw_scores

# What rounding may change, relative to the largest number: some hundred units in the last place of a sum of many terms,
# ten of numbers so short that they decide alone.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 8e-2}
MOST = 0.2  # that is ever put down to rounding: 0 in place of the result is off by 1, and a factor of 1.3 by 0.3
UNITS = 4  # in the last place, which a gradient may lose on its way into inputs of short numbers
OWN = ("attncli", "compiled")


@dataclass(frozen=True)
class Rows:
    """Some queries of some matrices: the rows of a result do not depend on each other, so that they stand for all."""

    matrices: Sequence[int]
    rows: Sequence[int]

    @classmethod
    def of(cls, queries: Tensor) -> "Rows":
        """First, middle and last query of the first and the last matrix of (..., n, d)."""
        n, count = queries.shape[-2], queries.shape[:-2].numel()
        return cls(sorted({0, count - 1}), sorted({0, n // 2, n - 1}))

    def matrices_of(self, tensor: Tensor) -> Tensor:
        """Those of (..., m, x): (matrices, m, x)."""
        return tensor.detach().reshape(-1, *tensor.shape[-2:])[list(self.matrices)]

    def within(self, tensor: Tensor) -> Tensor:
        """The rows of (..., n, x): (matrices, rows, x)."""
        return self.matrices_of(tensor)[:, list(self.rows)]

    def spread(self, few: Tensor, like: Tensor) -> Tensor:
        """Rows (matrices, rows, x) at their places among zeros of the shape (..., n, x) of `like`."""
        whole = like.new_zeros((like.shape[:-2].numel(), *like.shape[-2:]))
        whole[torch.tensor(self.matrices)[:, None], torch.tensor(self.rows)] = few.to(whole)
        return whole.reshape(like.shape)


def disagreement(job: Job, scorer: nn.Module, seed: int) -> str | None:
    """Why an implementation is wrong; None where it agrees with float64.

    Compared are results and, of a job with `backward`, the gradients of a random combination of these rows.

    Raises:
        InputError: a scorer of the user's own that fails.
    """
    inputs = job.copies[0]
    rows = Rows.of(inputs.queries)
    (expected, slopes), largest, weights = _in_float64(job, scorer, rows, seed)
    results, gradients = job.on(inputs, partial(rows.spread, weights))
    tolerance = _tolerance(job, largest)
    names = ["scores"] if job.measure == "scores" else ["output", "weights"]
    for name, result, right in zip(names, results, expected, strict=False):
        if said := _different(name, rows.within(result), right.detach(), tolerance):
            return said
    if not job.backward:
        return None
    return _different_gradients(job, rows, gradients, slopes, max(tolerance, _short(inputs.queries.dtype)))


def _tolerance(job: Job, largest: float) -> float:
    """What rounding explains in the dtype that is computed in, which is float32 at least in this package's scorers.

    The error of a weight is that of its score, which is relative to the `largest`.
    """
    stored = job.copies[0].queries.dtype
    own = job.contender.implementation in OWN and job.entry.scorer in SCORERS
    tolerance = TOLERANCE[computing_dtype(stored) if own else stored]
    return min(tolerance * (1.0 if job.measure == "scores" else 1.0 + largest), MOST)


def _short(stored: torch.dtype) -> float:
    return 0.0 if stored in (torch.float32, torch.float64) else UNITS * torch.finfo(stored).eps


def _different_gradients(
    job: Job, rows: Rows, gradients: Sequence[Tensor | None], slopes: Sequence[Tensor | None], tolerance: float
) -> str | None:
    """The same of gradients; one that is 0 by right, as all but rounding cancels in it, is seen beside the others."""
    inputs = {"queries": rows.within, "keys": rows.matrices_of} | (
        {} if job.measure == "scores" else {"values": rows.matrices_of}
    )
    parts = [*inputs.items(), *[("a parameter", Tensor.detach)] * len(job.parameters)]
    largest = max(float(slope.abs().max()) for slope in slopes[: len(inputs)] if slope is not None)
    for (name, part), gradient, slope in zip(parts, gradients, slopes, strict=True):
        if gradient is not None or slope is not None:
            right = torch.zeros_like(part(gradient)) if slope is None else slope  # type: ignore[arg-type]
            found = torch.zeros_like(right) if gradient is None else part(gradient)
            if said := _different(f"the gradient of {name}", found, right, tolerance, largest):
                return said
    return None


def _in_float64(job: Job, scorer: nn.Module, rows: Rows, seed: int) -> tuple[Made, float, Tensor]:
    """What is right, the largest score, and the random gradient (matrices, rows, x) that flowed back.

    A scorer of the user's own that cannot compute in float64 is compared with itself on few rows, in float32.
    """
    error: InputError | None = None
    for dtype in (torch.float64, torch.float32):
        try:
            return _reference(job, copy.deepcopy(scorer).cpu().to(dtype), rows, seed, dtype)
        except InputError as first:
            error = error or first
    assert error is not None
    raise error


def _reference(job: Job, scorer: nn.Module, rows: Rows, seed: int, dtype: torch.dtype) -> tuple[Made, float, Tensor]:
    whole = job.copies[0]
    few = rows.within(whole.queries), rows.matrices_of(whole.keys), rows.matrices_of(whole.values)
    queries, keys, values = (each.cpu().to(dtype) for each in few)
    textbook = "textbook" in implementations_of(job.entry, False) and job.entry.scorer in SCORERS
    scores = textbook_scores(scorer) if textbook else partial(raw_scores, scorer)
    forward = pooled(scores, job.measure)
    slow = Job(
        job.contender,
        job.entry,
        job.measure,
        forward,
        list(scorer.parameters()),
        [Inputs(queries, keys, values)],
        job.backward,
    )
    width = (keys if job.measure == "scores" else values).shape[-2 if job.measure == "scores" else -1]
    weights = torch.randn(*queries.shape[:-1], width, generator=generator(seed, "bench.check"), dtype=dtype)
    with torch.no_grad():
        largest = float(scores(queries, keys).abs().max())
    return slow.on(slow.copies[0], lambda result: weights), largest, weights


def _different(name: str, found: Tensor, right: Tensor, tolerance: float, least: float = 0.0) -> str | None:
    """A sentence where two tensors differ by more than rounding of the largest number; NaN differs from everything.

    That number is `least` where all of `right` is smaller.
    """
    if found.shape != right.shape:
        return f"gives {name} of shape {list(found.shape)} where {list(right.shape)} is right"
    size = max(float(right.abs().max()), least)
    difference = float((found.cpu().to(right.dtype) - right).abs().max())
    if difference <= tolerance * size:
        return None
    share = f"{difference / size:.2g} of the largest number" if size > 0 else f"{difference:.2g}"
    return f"differs from float64 in {name} by {share}; rounding explains {tolerance:.2g}"
