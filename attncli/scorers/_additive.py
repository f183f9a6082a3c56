"""Additive scores w_v . tanh(W_q q + W_k k) and their gradients, without a tanh per pair and in bounded memory.

*The quotient.* A hidden unit of a pair is tanh(a + b) for an entry a of the projected query and b of the projected key.
With u = exp(2(a + b)) - 1, tanh(a + b) = u / (u + 2). And with A = exp(2a), u = A expm1(2b) + expm1(2a). So a pair
costs two products, two sums and a division, and exponentials are computed once per query and once per key: (n + m) h of
them in place of n m h. Unlike 1 - 2 / (exp(2x) + 1), this keeps the digits of small numbers.

*Its range.* Projections are shifted, for each hidden unit, so that the largest a is 0 and A at most 1. Then b may be
clamped at `CEILING`: above it the unit is 1 for every query, as long as no a lies too far below 0. If one does, or if
pairs are few, tanh is computed directly. Only the queries' numbers decide, so no key changes the scores of another.

*Tiles.* Blocks of queries and keys are projected, and the hidden units of their pairs are computed, summed and dropped
tile by tile; the backward pass computes them again. Threads share the blocks, not their tiles: to wake another thread
takes as long as a tile. Blocks are the same for any number of threads, and so are all numbers. Smaller tiles cost more
calls of torch, larger tiles more traffic to main memory: on an AMD EPYC, tiles of 1/2, 1, 2, 4 and 8 MiB take 0.72,
0.60, 0.53, 0.53 and 0.68 ns per pair and hidden unit with one thread, and 0.52, 0.34, 0.32, 0.54 and 0.75 ns with two.
The textbook's code takes 6.7 and 4.1.

*Compiled.* `torch.compile` fuses hidden units with the sum over them, so a block needs no tiles. Every sum is compiled
alone, because the compiler would store common parts of several sums.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attncli.attention import computing_dtype
from attncli.core.modes import outside_autocast
from attncli.core.threads import in_order, on_threads, share
from attncli.errors import InputError
from attncli.textbook import additive_scores as textbook_scores

WORKSPACE_BYTES = 16 * 2**20  # beside inputs, scores and gradients
TILE_BYTES = 2 * 2**20  # at most
WORKERS = 2  # threads at most, each with a share of the workspace
LARGE = 8  # tiles, from which on queries are divided for threads
PARTS = 4  # of the queries then: each has exponentials of all keys
SATURATED = {torch.float32: 9.1, torch.float64: 19.1}  # from here on tanh rounds to 1
CEILING = {torch.float32: 43.0, torch.float64: 350.0}  # exp(2 * CEILING) is finite, also after one addition
FEWEST_UNITS = 8  # with fewer, the rounding errors of the quotient do not average out
WORTHWHILE = 8  # the quotient is faster than tanh for this number of pairs per projected row or more
COMPILER = "a C++ compiler, on a GPU Triton"
ENTRIES = 16  # of a hidden unit's size for each projected row: projections, their exponentials, gradients
MOST_VARIANTS = 64  # compiled variants of one function, for dtypes, devices and sizes of 1

Block = tuple[slice, slice, slice]  # some batch elements, queries and keys


class TilePlan(NamedTuple):
    """How to compute: the bytes of workspace, and whether `torch.compile` fuses the work on each pair."""

    workspace: int
    fused: bool


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
    """Return the scores w_v . tanh(W_q q + W_k k), (..., n, m).

    Scores are float64 if any argument is, else float32. They are differentiable once, with respect to every argument.

    Args:
        queries: (..., n, q); leading axes are broadcast against the leading axes of the keys.
        keys: (..., m, k).
        w_q: (h, q).
        w_k: (h, k).
        w_v: (h,).
        workspace: bytes of memory to use beside arguments, scores and gradients.
        fused: whether `torch.compile` fuses the work on each pair.

    Raises:
        InputError: if `fused` and torch cannot compile on this machine.
    """
    if 0 in (queries.numel(), keys.numel()):
        return textbook_scores(queries, keys, w_q, w_k, w_v)
    empty_queries, empty_keys = (t[..., :0, :0].sum((-2, -1)) for t in (queries, keys))
    leading = (empty_queries + empty_keys).shape  # torch.broadcast_shapes would load sympy
    queries, keys = (t.expand(*(leading or (1,)), *t.shape[-2:]) for t in (queries, keys))
    scores: Tensor = _Scores.apply(queries, keys, w_q, w_k, w_v, TilePlan(workspace, fused))  # type: ignore[no-untyped-call]
    return scores if leading else scores.squeeze(0)  # indexing would copy the gradient


class _Scores(torch.autograd.Function):
    """Scores whose hidden units are not stored: the backward pass computes them again, block by block."""

    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, keys: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, plan: TilePlan
    ) -> Tensor:
        """Return the scores (..., n, m) of queries (..., n, q) and keys (..., m, k) with equal leading axes."""
        ctx.save_for_backward(queries, keys, w_q, w_k, w_v)
        ctx.plan = plan
        query_side, key_side, w_v = _sides(queries, keys, w_q, w_k, w_v)
        scale = _exact_divisor(w_v)  # otherwise w_v times an exponential might overflow
        scores = w_v.new_empty(*queries.shape[:-1], keys.shape[-2])  # ... n m
        flat = scores.view(-1, *scores.shape[-2:])  # b n m

        def fill(blocks: Iterator[Block]) -> None:
            """Write the scores of blocks."""
            for elements, rows, columns in blocks:
                a, b = query_side.project(elements, rows), key_side.project(elements, columns)
                _fill_scores(flat[elements, rows, columns], a, b, w_v / scale, plan)

        blocks = [*_blocks(queries, keys, w_v, plan)]
        with _workers(len(blocks), w_v, plan) as workers:
            share(fill, blocks, workers)
        return scores if scale == 1 else scores.mul_(scale)

    @staticmethod
    @outside_autocast
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of the arguments that need one, for the gradient (..., n, m) of the scores."""
        if torch.is_grad_enabled():
            raise InputError.of("got create_graph=True; expected first derivatives; attncli.textbook has all others")
        saved = ctx.saved_tensors  # read once: under checkpointing each access computes them again
        queries, keys, w_q, w_k, w_v = saved
        query_side, key_side, w_v = _sides(queries, keys, w_q, w_k, w_v)
        totals = [
            torch.zeros_like(t, dtype=w_v.dtype) if needed else None
            for t, needed in zip(saved, ctx.needs_input_grad, strict=False)
        ]
        to_queries, to_keys, to_w_q, to_w_k, to_w_v = totals
        flat = gradient.reshape(-1, *gradient.shape[-2:])  # b n m

        def block_gradients(block: Block) -> Sequence[Tensor]:
            """Return the gradients of a block, as `_gradients` does."""
            elements, rows, columns = block
            a, b = query_side.project(elements, rows), key_side.project(elements, columns)
            return _gradients(flat[elements, rows, columns], a, b, torch.ones_like(w_v), ctx.plan)

        # Threads compute the gradients of blocks. This one adds them in the blocks' order, which is always the same.
        blocks = [*_blocks(queries, keys, w_v, ctx.plan)]
        with _workers(len(blocks), w_v, ctx.plan) as workers:
            for (elements, rows, columns), gradients in zip(
                blocks, in_order(block_gradients, blocks, workers, 1), strict=True
            ):
                to_a, to_b, to_units = gradients
                query_side.add_gradients(to_a.mul_(w_v), elements, rows, to_queries, to_w_q)
                key_side.add_gradients(to_b.mul_(w_v), elements, columns, to_keys, to_w_k)
                if to_w_v is not None:
                    to_w_v += to_units
                del gradients, to_a, to_b  # before the next block takes memory
        return *(None if total is None else total.to(t.dtype) for total, t in zip(totals, saved, strict=True)), None


class _Side:
    """Queries or keys with the matrix that projects them, block by block."""

    def __init__(self, tensor: Tensor, matrix: Tensor, dtype: torch.dtype) -> None:
        """Take rows (..., r, f), with leading axes that may be expanded, and a matrix (h, f)."""
        self._tensor, self.matrix = tensor, matrix.to(dtype)
        leading = tensor.shape[:-2]
        elements = torch.arange(leading.numel(), device=tensor.device)
        self._axes = torch.unravel_index(elements, leading) if len(leading) > 1 else None

    def index(self, elements: slice, rows: slice) -> tuple[slice | Tensor, ...]:
        """Return the index of these rows in the unflattened tensor; flattening expanded axes would copy them."""
        return (elements, rows) if self._axes is None else (*(axis[elements] for axis in self._axes), rows)

    def read(self, elements: slice, rows: slice) -> Tensor:
        """Return some rows, (b, r, f)."""
        return self._tensor[self.index(elements, rows)].to(self.matrix.dtype)

    def project(self, elements: slice, rows: slice) -> Tensor:
        """Return some projected rows, (b, r, h), with infinities replaced by the largest number: its tanh is 1, too."""
        huge = torch.finfo(self.matrix.dtype).max
        tensor = self.read(elements, rows).contiguous()  # the same bits for all strides
        return torch.matmul(tensor, self.matrix.mT).clamp_(-huge, huge)

    def add_gradients(
        self, of_projected: Tensor, elements: slice, rows: slice, to_rows: Tensor | None, to_matrix: Tensor | None
    ) -> None:
        """Add to the gradients of rows and matrix, where needed, for the gradient of some projected rows."""
        if to_rows is not None:
            to_rows[self.index(elements, rows)] += of_projected @ self.matrix
        if to_matrix is not None:
            to_matrix.addmm_(of_projected.flatten(0, 1).mT, self.read(elements, rows).flatten(0, 1))


def _sides(queries: Tensor, keys: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[_Side, _Side, Tensor]:
    """Return both sides, and w_v in the dtype to compute in: float64 if an argument is, else float32."""
    wide = any(computing_dtype(t.dtype) == torch.float64 for t in (queries, keys, w_q, w_k, w_v))
    dtype = torch.float64 if wide else torch.float32
    return _Side(queries, w_q, dtype), _Side(keys, w_k, dtype), w_v.to(dtype)


def _exact_divisor(w_v: Tensor) -> float:
    """Return 1 if the largest entry is of usual size, else a power of two near it, since dividing by that is exact."""
    _, exponent = math.frexp(float(w_v.abs().amax()))
    _, most = math.frexp(torch.finfo(w_v.dtype).max)
    return 1.0 if -32 < exponent < 3 else 2.0 ** min(max(exponent - 1, 2 - most), most - 2)


@contextmanager
def _workers(blocks: int, w_v: Tensor, plan: TilePlan) -> Iterator[int]:
    """Yield the number of threads that share this many blocks, and divide torch's threads among them."""
    threads = torch.get_num_threads()
    if plan.fused or w_v.device.type != "cpu":
        yield 1
        return
    workers = min(threads, WORKERS, max(blocks, 1))
    with on_threads(threads // workers if workers > 1 else 1):
        yield workers


def _cut(tensors: Sequence[Tensor], most: int) -> Iterator[tuple[Tensor, ...]]:
    """Yield views of tensors (b, n, ...) with at most this many rows each, the same rows of all tensors."""
    b, n = tensors[0].shape[:2]
    elements, rows = math.ceil(b / max(most // n, 1)), math.ceil(n / most)
    return zip(*([tile for group in t.chunk(elements) for tile in group.chunk(rows, 1)] for t in tensors), strict=True)


def _fill_scores(out: Tensor, a: Tensor, b: Tensor, w_v: Tensor, plan: TilePlan) -> None:
    """Write the scores of one block to `out` (b, n, m), for projections a (b, n, h) and b (b, m, h)."""
    form, largest = _form_for(a, b)
    if plan.fused:
        out.copy_(_call_compiled(_sum_units, form.units, *_call_compiled(_factors, form, a, b, largest, w_v)))
        return
    for units, _, scores in _tiles(form, _factors(form, a, b, largest, w_v), plan, out):
        torch.sum(units, -1, out=scores)


def _gradients(gradient: Tensor, a: Tensor, b: Tensor, ones: Tensor, plan: TilePlan) -> Sequence[Tensor]:
    """Return a block's gradients with respect to a (b, n, h) and b (b, m, h), both divided by w_v, and to w_v (h,).

    With w_v = 1 the hidden units are t = tanh(a + b), and the derivative of t by a, and by b, is 1 - t^2. For the
    gradient g of a score, the three gradients are the sums of g (1 - t^2) over keys, of the same over queries, and of
    g t over both. A tile has all keys of its queries, so its sum over keys is complete; the others add up over tiles.
    """
    form, largest = _form_for(a, b)
    if plan.fused:
        factors = _call_compiled(_factors, form, a, b, largest, ones)
        sums = (_gradient_of_a, _gradient_of_b, _gradient_of_w_v)
        return [_call_compiled(total, form.units, gradient, *factors) for total in sums]
    factors = _factors(form, a, b, largest, ones)
    to_a, to_b, to_w_v = torch.empty_like(a), torch.zeros_like(b), torch.zeros_like(ones)
    to_keys = to_b.unsqueeze(1).expand(-1, a.shape[1], -1, -1)
    for units, product, g, sum_a, sum_b in _tiles(form, factors, plan, gradient.unsqueeze(-1), to_a, to_keys):
        torch.mul(g, units, out=product)
        to_w_v += product.sum((0, 1, 2))
        torch.addcmul(g, product, units, value=-1, out=product)  # g (1 - tanh^2)
        torch.sum(product, -2, out=sum_a)
        sum_b[:, 0] += product.sum(-3)
    return to_a, to_b, to_w_v


def _tiles(form: "_Form", factors: "Factors", plan: TilePlan, *others: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Yield the hidden units (b, n, m, h) of each tile, a tensor of their size to write to, and its rows of the others.

    The others are (b, n, ...). All tiles are computed in the same two tensors: new ones may be new pages of memory.
    """
    of_keys, *of_queries = factors
    b, n = of_queries[0].shape[:2]
    most = max(_tile_bytes(plan) // of_keys[0].nbytes, 1)
    buffers = of_keys.new_empty(2, min(most, b * n) * of_keys[0].numel())
    for keys, *rest in _cut([of_keys.expand(-1, n, -1, -1), *of_queries, *others], most):
        units, free = buffers[:, : keys.numel()].view(2, *keys.shape).unbind()
        form.units(keys, *rest[: len(of_queries)], out=(units, free))
        yield units, free, *rest[len(of_queries) :]


# Hidden units w_v tanh(a + b), from factors: one (b, m, h) of the keys, the others (b, n, h) of the queries.

Factors = tuple[Tensor, ...]
Buffers = Sequence[Tensor | None]  # for the results; new tensors in place of None
NEW: Buffers = (None, None)


class _Form(NamedTuple):
    """A way to compute hidden units: their factors from projections, and the units (b, n, m, h) from the factors.

    The units are the first of two tensors of their size, `out`.
    """

    of_keys: Callable[[Tensor, Tensor], Tensor]
    of_queries: Callable[[Tensor, Tensor, Tensor], Factors]
    units: Callable[..., Tensor]


def _key_exponentials(b: Tensor, largest: Tensor) -> Tensor:
    """Return expm1(2b) for projected keys b (b, m, h), shifted by `largest` (b, 1, h), the largest a of each unit."""
    wide = _wide(b)
    shifted = (b.to(wide) + largest).clamp_(max=CEILING[b.dtype])  # b m h
    expm1 = (2 * shifted).expm1_()
    if wide == b.dtype:  # make up for the rounding of the shift
        lost = 2 * _rounding(b, largest)
        expm1 = expm1 + (lost * (expm1 + 1)).where(shifted.abs() < CEILING[b.dtype], 0)
    return expm1.to(b.dtype)


def _query_exponentials(a: Tensor, largest: Tensor, w_v: Tensor) -> Factors:
    """Return the exponentials of projected queries a (b, n, h) that the quotient needs, shifted by `largest`."""
    wide = _wide(a)
    expm1 = (a.to(wide) - largest).mul_(2)  # b n h
    exp = expm1.exp()
    expm1.expm1_()
    if wide == a.dtype:
        lost = 2 * _rounding(a, -largest)
        expm1, exp = expm1 + lost * exp, exp + lost * exp
    w_expm1 = expm1.mul_(w_v).to(a.dtype)
    del expm1  # before the next product takes memory
    return w_expm1, (exp * w_v).to(a.dtype), (exp + 1).to(a.dtype), exp.to(a.dtype)


def _wide(projected: Tensor) -> torch.dtype:
    """Return the dtype of exponentials, which are rounded once, for all pairs."""
    return torch.float64 if projected.device.type != "mps" else torch.float32


def _rounding(a: Tensor, b: Tensor) -> Tensor:
    """Return the rounding error of a + b (Knuth 1969, two-sum)."""
    total = a + b
    added = total - a
    return (a - (total - added)) + (b - added)


def _quotient_units(
    keys_expm1: Tensor, w_expm1: Tensor, w_exp: Tensor, exp_plus_1: Tensor, exp: Tensor, out: Buffers = NEW
) -> Tensor:
    """Return the hidden units w_v u / (u + 2), where u = exp(2(a + b)) - 1."""
    numerator = torch.addcmul(w_expm1, w_exp, keys_expm1, out=out[0])
    return numerator.div_(torch.addcmul(exp_plus_1, exp, keys_expm1, out=out[1]))


def _direct_units(b: Tensor, a: Tensor, w_v: Tensor, out: Buffers = NEW) -> Tensor:
    """Return the hidden units w_v tanh(a + b)."""
    return torch.add(a, b, out=out[0]).tanh_().mul_(w_v)


QUOTIENT = _Form(_key_exponentials, _query_exponentials, _quotient_units)
DIRECT = _Form(lambda b, largest: b, lambda a, largest, w_v: (a, w_v.expand_as(a)), _direct_units)


def _form_for(a: Tensor, b: Tensor) -> tuple[_Form, Tensor]:
    """Return the form that suits projections a (b, n, h) and b (b, m, h), and the largest a of each unit (b, 1, h)."""
    n, m, h = a.shape[-2], b.shape[-2], a.shape[-1]
    largest, smallest = a.amax(-2, keepdim=True), a.amin(-2, keepdim=True)  # b 1 h
    worthwhile = h >= FEWEST_UNITS and n * m >= WORTHWHILE * (n + m)
    widest = CEILING[a.dtype] - SATURATED[a.dtype]
    fits = worthwhile and bool((largest - smallest <= widest).all())  # not if one is NaN
    return QUOTIENT if fits else DIRECT, largest


def _factors(form: _Form, a: Tensor, b: Tensor, largest: Tensor, w_v: Tensor) -> Factors:
    """Return the factors of pairs: one of the keys (b, 1, m, h), the others of the queries (b, n, 1, h)."""
    queries = (factor.unsqueeze(-2) for factor in form.of_queries(a, largest, w_v))
    return form.of_keys(b, largest).unsqueeze(1), *queries


# Sums over hidden units, a function each for the compiler. Gradients take factors for w_v = 1.


def _sum_units(units: Callable[..., Tensor], *factors: Tensor) -> Tensor:
    return units(*factors).sum(-1)  # b n m


def _gradient_of_a(units: Callable[..., Tensor], gradient: Tensor, *factors: Tensor) -> Tensor:
    return (gradient.unsqueeze(-1) * (1 - units(*factors).square())).sum(-2)  # b n h


def _gradient_of_b(units: Callable[..., Tensor], gradient: Tensor, *factors: Tensor) -> Tensor:
    return (gradient.unsqueeze(-1) * (1 - units(*factors).square())).sum(-3)  # b m h


def _gradient_of_w_v(units: Callable[..., Tensor], gradient: Tensor, *factors: Tensor) -> Tensor:
    return (gradient.unsqueeze(-1) * units(*factors)).sum((0, 1, 2))  # h


def _call_compiled(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call the compiled function, or raise an InputError if torch cannot compile it."""
    import torch._dynamo  # takes a second, and nothing else here needs it

    try:
        with torch._dynamo.config.patch(recompile_limit=MOST_VARIANTS):
            return _compiled(function)(*arguments)
    except torch._dynamo.exc.TorchDynamoException as error:
        lines = map(str.strip, str(error).splitlines())
        reason = next((line for line in lines if line and not line.endswith("raised:")), type(error).__name__)
        raise InputError.of(f"torch.compile gave: {reason}; expected {COMPILER}") from error


@functools.cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function compiled for all sizes; `fullgraph`, so that it never silently runs uncompiled."""
    return torch.compile(function, dynamic=True, fullgraph=True)


def _blocks(queries: Tensor, keys: Tensor, w_v: Tensor, plan: TilePlan) -> Iterator[Block]:
    """Yield blocks so small that the factors of each query and key take a small share of the workspace.

    A compiled block also has its scores. Others take half of a thread's workspace, beside its tiles.
    """
    b, n, m, h = queries.shape[:-2].numel(), queries.shape[-2], keys.shape[-2], w_v.shape[0]
    entries = plan.workspace // w_v.element_size() // (1 if plan.fused else 2 * WORKERS)
    widest = max(h, queries.shape[-1], keys.shape[-1])
    most = max(entries // (ENTRIES * widest), 1)  # rows
    most = min(most, max(math.isqrt(entries // 8), 1)) if plan.fused else most
    is_large = not plan.fused and b * n * m * w_v.nbytes >= LARGE * _tile_bytes(plan)
    of_queries = min(most, math.ceil(b * n / PARTS)) if is_large else most
    together = max(min(of_queries // max(n, 1), most // max(m, 1)), 1)
    for elements in _slices(b, together):
        for rows in _slices(n, of_queries):
            for columns in _slices(m, most):
                yield elements, rows, columns


def _tile_bytes(plan: TilePlan) -> int:
    return max(min(TILE_BYTES, plan.workspace // (4 * WORKERS)), 1)


def _slices(size: int, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, size)) for start in range(0, size, step))
