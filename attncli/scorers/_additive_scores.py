"""Additive scores and their gradients in bounded memory.

Blocks of some queries and some keys are projected, and the hidden units of their pairs made, used and forgotten tile by
tile; backward makes them again. A tile is as large as it may be while two of them stay in the cache that all cores
share: below that the cost of calling torch counts, above it that of main memory. With 32 MiB of that cache and two
cores, tiles of 1/4, 1/2, 1, 2, 4, 8 and 16 MiB take 0.53, 0.42, 0.32, 0.26, 0.26, 0.41 and 0.62 ns per pair and hidden
unit, where the textbook's code takes 4.
"""

import functools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from attncli.attention import computing_dtype
from attncli.errors import InputError
from attncli.scorers._additive_pairs import Factors, form_for
from attncli.textbook import additive_scores as additive_as_in_textbooks

Result = TypeVar("Result")
WORKSPACE_BYTES = 16 * 2**20  # beside inputs, scores and gradients
CACHE_SHARE = 16  # a tile takes this part of the cache that all cores share
USUAL_CACHE = 32 * 2**20  # where the system does not tell
COMPILER = "a C++ compiler, on a GPU Triton"
KINDS = 64  # variants of one function, for dtypes, devices and sizes of 1, before torch takes it for a mistake


class Plan(NamedTuple):
    """How the work is shared out: bytes of workspace, and whether `torch.compile` fuses the work on each pair."""

    workspace: int
    fused: bool


Place = tuple[slice, slice, slice]  # some batch elements, queries and keys


class Side:
    """Queries or keys with their matrix: rows of them, projected when they are needed."""

    def __init__(self, rows: Tensor, matrix: Tensor, dtype: torch.dtype) -> None:
        """Rows (..., r, f) whose leading axes may be repeated ones, and a matrix (h, f)."""
        self._rows, self.matrix = rows, matrix.to(dtype)
        leading = rows.shape[:-2]
        elements = torch.arange(leading.numel(), device=rows.device)
        self._index = torch.unravel_index(elements, leading) if len(leading) > 1 else None

    def place(self, elements: slice, some: slice) -> tuple[Any, ...]:
        """Where some rows of some batch elements stand in a tensor of this shape; flattening it might copy it."""
        return (elements, some) if self._index is None else (*(axis[elements] for axis in self._index), some)

    def rows(self, elements: slice, some: slice) -> Tensor:
        """(b, r, f)."""
        return self._rows[self.place(elements, some)].to(self.matrix.dtype)

    def projected(self, elements: slice, some: slice) -> Tensor:
        """(b, r, h), finite where the rows are: what lies beyond the largest number is 1 under tanh all the same."""
        huge = torch.finfo(self.matrix.dtype).max
        return (self.rows(elements, some) @ self.matrix.mT).clamp_(-huge, huge)


def additive_scores(
    queries: Tensor,
    keys: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    *,
    workspace: int = WORKSPACE_BYTES,
    fused: bool = False,
) -> Tensor:
    """Scores w_v . tanh(W_q q + W_k k) for queries (..., n, q), keys (..., m, k), W_q (h, q), W_k (h, k), w_v (h,).

    Scores (..., n, m) in float64 if any argument is, else in float32; leading axes are broadcast. Differentiable with
    respect to everything; a second time too, but then with all hidden units in memory, as in textbooks.
    """
    if 0 in (queries.numel(), keys.numel()):
        return additive_as_in_textbooks(queries, keys, w_q, w_k, w_v)
    of_queries, of_keys = (t[..., :0, :0].sum((-2, -1)) for t in (queries, keys))
    leading = (of_queries + of_keys).shape  # torch.broadcast_shapes would load sympy
    queries, keys = (t.expand(*(leading or (1,)), *t.shape[-2:]) for t in (queries, keys))
    scores: Tensor = _Scores.apply(queries, keys, w_q, w_k, w_v, Plan(workspace, fused))  # type: ignore[no-untyped-call]
    return scores if leading else scores.squeeze(0)  # selecting would copy the gradient


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, plan: Plan) -> Tensor:
        ctx.save_for_backward(queries, keys, w_q, w_k, w_v)
        ctx.plan = plan
        some, others, w_v = _sides(queries, keys, w_q, w_k, w_v)
        size = _power_of_two(w_v)  # without which w_v times an exponential might overflow
        scores = w_v.new_empty(*queries.shape[:-1], keys.shape[-2])  # ... n m
        flat = scores.view(-1, *scores.shape[-2:])  # b n m
        for elements, rows, columns in blocks(queries, keys, w_v, plan):
            a, b = some.projected(elements, rows), others.projected(elements, columns)
            _put_scores(flat[elements, rows, columns], a, b, w_v / size, plan)
        return scores if size == 1 else scores.mul_(size)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        with torch.autocast(gradient.device.type, enabled=False):
            return _backward(ctx, gradient)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    saved = ctx.saved_tensors  # once: a checkpoint around this makes them when they are asked for
    if torch.is_grad_enabled():  # the gradient is to be differentiated in turn
        return *_differentiable(saved, gradient, ctx.needs_input_grad), None
    queries, keys, w_q, w_k, w_v = saved
    some, others, wide_v = _sides(queries, keys, w_q, w_k, w_v)
    given = zip(saved, ctx.needs_input_grad, strict=False)
    found = [torch.zeros_like(t, dtype=wide_v.dtype) if needed else None for t, needed in given]
    to_queries, to_keys, to_w_q, to_w_k, to_w_v = found
    flat = gradient.reshape(-1, *gradient.shape[-2:])  # b n m
    for elements, rows, columns in blocks(queries, keys, wide_v, ctx.plan):
        a, b = some.projected(elements, rows), others.projected(elements, columns)
        to_a, to_b, to_units = _gradients(flat[elements, rows, columns], a, b, torch.ones_like(wide_v), ctx.plan)
        to_a, to_b = to_a * wide_v, to_b * wide_v
        if to_queries is not None:
            to_queries[some.place(elements, rows)] += to_a @ some.matrix
        if to_keys is not None:
            to_keys[others.place(elements, columns)] += to_b @ others.matrix
        if to_w_q is not None:
            to_w_q.addmm_(to_a.flatten(0, 1).mT, some.rows(elements, rows).flatten(0, 1))
        if to_w_k is not None:
            to_w_k.addmm_(to_b.flatten(0, 1).mT, others.rows(elements, columns).flatten(0, 1))
        if to_w_v is not None:
            to_w_v += to_units
    return *(None if each is None else each.to(t.dtype) for each, t in zip(found, saved, strict=True)), None


def _differentiable(saved: Sequence[Tensor], gradient: Tensor, needed: Sequence[bool]) -> Sequence[Tensor | None]:
    """Gradients that have gradients, by way of the textbook's form and with its memory."""
    wanted = [t for t, each in zip(saved, needed, strict=False) if each]
    scores = additive_as_in_textbooks(*(t.to(gradient.dtype) for t in saved))
    found = iter(torch.autograd.grad(scores, wanted, gradient, create_graph=True))
    return [next(found) if each else None for _, each in zip(saved, needed, strict=False)]


def _sides(queries: Tensor, keys: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Side, Side, Tensor]:
    wide = any(computing_dtype(t.dtype) == torch.float64 for t in (queries, keys, w_q, w_k, w_v))
    dtype = torch.float64 if wide else torch.float32
    return Side(queries, w_q, dtype), Side(keys, w_k, dtype), w_v.to(dtype)


def _put_scores(out: Tensor, a: Tensor, b: Tensor, w_v: Tensor, plan: Plan) -> None:
    """Scores of one block, into `out` (b, n, m), for projections a (b, n, h) and b (b, m, h)."""
    form, largest = form_for(a, b)
    if plan.fused:
        out.copy_(compiled(form.scores)(*compiled(form.factors)(a, b, largest, w_v).all))
        return
    factors = form.factors(a, b, largest, w_v)
    for elements, rows in tiles(out, factors, plan):
        out[elements, rows] = form.units(*factors.part(elements, rows)).sum(-1)


def _gradients(gradient: Tensor, a: Tensor, b: Tensor, ones: Tensor, plan: Plan) -> Sequence[Tensor]:
    """Of one block: with respect to a (b, n, h) and b (b, m, h), both over w_v, and to w_v (h,)."""
    form, largest = form_for(a, b)
    if plan.fused:
        factors = compiled(form.factors)(a, b, largest, ones)
        return [compiled(each)(gradient, *factors.all) for each in (form.to_queries, form.to_keys, form.to_w_v)]
    factors = form.factors(a, b, largest, ones)
    to_a, to_b, to_w_v = torch.zeros_like(a), torch.zeros_like(b), torch.zeros_like(ones)
    for elements, rows in tiles(gradient, factors, plan):
        units = form.units(*factors.part(elements, rows))  # b n m h
        upstream = gradient[elements, rows].unsqueeze(-1)  # b n m 1
        product = upstream * units
        to_w_v += product.sum((0, 1, 2))
        torch.addcmul(upstream, product, units, value=-1, out=product)  # upstream * (1 - tanh^2)
        to_a[elements, rows] = product.sum(-2)
        to_b[elements] += product.sum(-3)
    return to_a, to_b, to_w_v


def _power_of_two(w_v: Tensor) -> float:
    """1 where the largest entry is of usual size, else a number about as large, by which dividing loses nothing."""
    _, exponent = math.frexp(float(w_v.abs().amax()))
    _, most = math.frexp(torch.finfo(w_v.dtype).max)
    return 1.0 if -32 < exponent < 3 else 2.0 ** min(max(exponent - 1, 2 - most), most - 2)


def compiled(function: Callable[..., Result]) -> Callable[..., Result]:
    """A function that does the same, compiled for tensors of all sizes; an InputError where torch cannot compile it."""
    import torch._dynamo  # takes a second, and nothing else here needs it

    fused = _compiled(function)

    def call(*arguments: Any) -> Result:
        try:
            with torch._dynamo.config.patch(recompile_limit=KINDS):
                result: Result = fused(*arguments)
                return result
        except torch._dynamo.exc.TorchDynamoException as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            reasons = [line for line in lines if not line.endswith("raised:")]  # which says nothing of what is wrong
            reason = reasons[0] if reasons else type(error).__name__
            raise InputError.of(f"torch.compile gave: {reason}; expected {COMPILER}") from error

    return call


@functools.cache
def _compiled(function: Callable[..., Result]) -> Callable[..., Result]:
    # fullgraph: never to fall back, unseen, to running the function as it is, with all hidden units in memory
    return torch.compile(function, dynamic=True, fullgraph=True)


def blocks(queries: Tensor, keys: Tensor, w_v: Tensor, plan: Plan) -> Iterator[Place]:
    """Blocks of batch elements, queries and keys whose projections and scores take a small share of the workspace."""
    b, n, m, h = queries.shape[:-2].numel(), queries.shape[-2], keys.shape[-2], w_v.shape[0]
    entries = plan.workspace // w_v.element_size() // (1 if plan.fused else 2)  # with no tiles there is room for twice
    widest = max(h, queries.shape[-1], keys.shape[-1])
    projected, scored = entries // (16 * widest), entries // 8  # rows and pairs of a block
    edge = max(min(projected, math.isqrt(scored)), 1)
    together = max(min(projected // max(n, m, 1), scored // max(n * m, 1)), 1)
    for elements in _slices(b, together):
        for rows in _slices(n, edge):
            for columns in _slices(m, edge):
                yield elements, rows, columns


def tiles(block: Tensor, factors: Factors, plan: Plan) -> Iterator[tuple[slice, slice]]:
    """Batch elements and queries of a block (b, n, m) whose hidden units make up one tile."""
    b, n = block.shape[:2]
    of_keys = factors.of_keys[0][0]  # m h
    room = max(tile_bytes(plan.workspace) // of_keys.nbytes, 1)
    for elements in _slices(b, room // n or 1):
        for rows in _slices(n, min(room, n)):
            yield elements, rows


def tile_bytes(workspace: int) -> int:
    """Bytes of one tile of hidden units: a share of the cache, and of the workspace, which several must fit into."""
    try:
        cache = os.sysconf("SC_LEVEL3_CACHE_SIZE")
    except (ValueError, AttributeError):  # not every system has the question
        cache = 0
    return min((cache if cache > 0 else USUAL_CACHE) // CACHE_SHARE, workspace // 8)


def _slices(size: int, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, size)) for start in range(0, size, step))
