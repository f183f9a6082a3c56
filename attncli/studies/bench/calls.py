"""Implementations of scorers as functions that can be called again and again, on inputs that take turns."""

import copy
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncli import textbook
from attncli.attention import attend
from attncli.inputs.seeding import generator
from attncli.studies.bench.options import BenchOptions
from attncli.studies.bench.plan import Case
from attncli.studies.compiling import compile_scorer

CACHE = 32 * 2**20  # bytes of the last-level cache where the machine does not tell
MOST_BYTES = 256 * 2**20  # of all copies of the inputs together
MOST_COPIES = 1024
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")

Inputs = tuple[Tensor, Tensor, Tensor]  # queries (..., n, d), keys and values (..., m, d)
Results = tuple[Tensor, ...]  # scores; output and weights; or output
Forward = Callable[[Tensor, Tensor, Tensor], Results]  # of queries, keys and values
Call = Callable[[], tuple[Results, Sequence[Tensor | None]]]  # with gradients, none of them where none were asked for


class NotAvailableError(Exception):
    """An implementation that this machine cannot have, and why."""


def draw_inputs(options: BenchOptions, case: Case, device: torch.device) -> Inputs:
    """Standard normal numbers that depend on the seed and the sizes only."""

    def draw(name: str, rows: int) -> Tensor:
        shape = (*case.leading, rows, case.d)
        randomness = generator(options.seed, f"bench.{name}.{'x'.join(map(str, shape))}")
        return torch.randn(shape, generator=randomness).to(getattr(torch, options.dtype)).to(device)

    return draw("queries", case.n), draw("keys", case.m), draw("values", case.m)


def copies_of(inputs: Inputs, device: torch.device) -> list[Inputs]:
    """The inputs and copies of them, together larger than the last-level cache, so that no cache is measured."""
    size = sum(each.nbytes for each in inputs)
    wanted = 2 * cache_size(device) // size + 1
    count = max(min(wanted, MOST_BYTES // size, MOST_COPIES), 1)
    return [inputs, *((q.clone(), k.clone(), v.clone()) for q, k, v in [inputs] * (count - 1))]


def cache_size(device: torch.device) -> int:
    """Bytes of the last-level cache."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).L2_cache_size)
    try:  # Linux says sizes such as `32768K`
        sizes = [int(path.read_text().strip().removesuffix("K")) * 2**10 for path in CACHES.glob("index*/size")]
    except (OSError, ValueError):
        return CACHE
    return max(sizes, default=0) or CACHE


def ours(scorer: nn.Module, measure: str) -> Forward:
    """The way of this package."""
    if measure == "scores":
        return lambda queries, keys, values: (scorer(queries, keys),)
    if measure == "weights":
        return lambda queries, keys, values: attend(scorer(queries, keys), values)
    from attncli.pooling import pool

    return lambda queries, keys, values: (pool(scorer, queries, keys, values),)


def compiled(scorer: nn.Module, measure: str) -> Forward:
    """The way of this package after torch.compile, which compiles `scorer` in place.

    Raises:
        NotAvailableError: no compiler.
    """
    reason = compile_scorer(scorer)
    if reason is not None:
        raise NotAvailableError(reason)
    return ours(scorer, measure)


def pooled(scores: Callable[[Tensor, Tensor], Tensor], measure: str) -> Forward:
    """Scores, and the textbook's softmax and sum of values after them where they are asked for."""
    if measure == "scores":
        return lambda queries, keys, values: (scores(queries, keys),)
    if measure == "weights":
        return lambda queries, keys, values: textbook.attention(scores(queries, keys), values)
    return lambda queries, keys, values: textbook.attention(scores(queries, keys), values)[:1]


def fused(scorer: nn.Module, measure: str) -> Forward:
    """The kernel of torch, which takes (batch, heads, n, d) only, and no less."""
    kernel = partial(F.scaled_dot_product_attention, scale=float(scorer.scale))  # type: ignore[arg-type]

    def output(queries: Tensor, keys: Tensor, values: Tensor) -> Results:
        if queries.ndim == 4:
            return (kernel(queries, keys, values),)
        queries, keys, values = (each.unsqueeze(-3) for each in (queries, keys, values))
        return (kernel(queries, keys, values).squeeze(-3),)  # b n d

    return output


MAKERS: dict[str, Callable[[nn.Module, str], Forward]] = {
    "attncli": ours,
    "compiled": compiled,
    "textbook": lambda scorer, measure: pooled(scorer.as_in_textbooks, measure),  # type: ignore[arg-type]
    "fused": fused,
}


def make_call(implementation: str, scorer: nn.Module, measure: str, copies: Sequence[Inputs], backward: bool) -> Call:
    """One call of an implementation, each time on the copy whose turn it is, the first one at first.

    It has a copy of the scorer of its own, since compiling changes it.

    Raises:
        NotAvailableError: an implementation that this machine cannot have.
    """
    own = copy.deepcopy(scorer)
    if implementation == "textbook":  # which computes in the dtype of its inputs
        own = own.to(copies[0][0].dtype)
    parameters = [each for each in own.parameters() if each.requires_grad]
    forward = MAKERS[implementation](own, measure)
    if not backward:
        turns = cycle(copies)

        def call() -> tuple[Results, Sequence[Tensor | None]]:
            with torch.no_grad():
                return forward(*next(turns)), ()

        return call
    leaves = cycle([[each.detach().requires_grad_() for each in one] for one in copies])
    ones: Tensor | None = None  # made by the first call, so no memory of later ones

    def call_with_gradients() -> tuple[Results, Sequence[Tensor | None]]:
        nonlocal ones
        inputs = next(leaves)
        results = forward(*inputs)
        if not results[0].requires_grad:
            message = f"its {measure} have no gradient (they are detached, or not made by torch)"
            raise NotAvailableError(f"{message}; measure it without backward")
        ones = torch.ones_like(results[0]) if ones is None else ones
        wanted = [*(inputs[:2] if measure == "scores" else inputs), *parameters]
        return results, torch.autograd.grad(results[0], wanted, ones, allow_unused=True)

    return call_with_gradients
