"""Turn calls of fused kernels and recorded operations into attention calls with scale, bias, mask and sinks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isfinite, prod
from typing import Any

import torch
from torch import Tensor

from attncli.models.call import LOW, AttentionCall, UnreadableError
from attncli.models.trail import VIEWS, Step, UnfusedAttention, number_of

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """How the axes of scores divide into batch b, heads h, queries n and keys m."""

    lead: Shape  # leading axes of the scores
    b: int
    h: int
    n: int
    m: int
    is_crossed: bool = False  # scores are (b, n, h, m)

    def matrix(self, tensor: Tensor, shape: Shape) -> Tensor:
        """Return a tensor that broadcasts to scores of `shape`, such as a mask or bias, as (b, h, n, its last axis)."""
        tensor = tensor.expand(*shape[:-1], tensor.shape[-1] if tensor.ndim else 1)
        if self.is_crossed:
            return tensor.reshape(self.b, self.n, self.h, -1).transpose(1, 2)
        if prod(shape[:-1]) != self.b * self.h * self.n:  # queries and keys have two axes each, as in pictures
            tensor = tensor.expand(shape)
        return tensor.reshape(self.b, self.h, self.n, -1)

    def rows(self, tensor: Tensor, length: int) -> Tensor:
        """Return `tensor`, a factor of a product, as (b, h, length, d), with fewer heads if heads share keys."""
        b, h, d = self.b, self.h, tensor.shape[-1]
        shape = tuple(tensor.shape[:-1])
        if prod(shape) == b * h * length:
            return tensor.reshape(b, h, length, d)
        heads, rest = divmod(prod(shape), b * length)
        if shape[-1] == length and rest == 0 and heads and h % heads == 0:
            return tensor.reshape(b, heads, length, d)
        if shape == (length,):
            return tensor.expand(b, 1, length, d)
        raise UnreadableError(f"a product with {list(tensor.shape)} for scores of {[*self.lead, self.n, self.m]}")


def traced(call: AttentionCall, query: Step | None, key: Step | None) -> AttentionCall:
    """Return a kernel's call with the scale before it, and all heads in their axis.

    `query` and `key` are the recorded operations that made the kernel's query and key. Some decoders put heads that
    share keys on the axis of queries.
    """
    call = replace(call, pre_scale=scale_before(query) * scale_before(key))
    b, h, n, d = call.queries.shape
    if query is None or query.before is None or query.before.shape != (b, h * n, 1, d) or n == 1:
        return call
    if query.op in ("transpose", "permute"):  # of a single head, with its axis after the queries
        return call

    def as_heads(tensor: Tensor | None) -> Any:
        """Return a tensor (b, h, n, ...) as (b, h * n, 1, ...), unless it is equal for all heads and queries."""
        if tensor is None or tensor.shape[1:3] == (1, 1):
            return tensor
        return tensor.expand(-1, h, n, -1).reshape(-1, h * n, 1, tensor.shape[-1])

    call = call.with_mask()
    packed = {name: as_heads(getattr(call, name)) for name in ("queries", "output", "valid", "bias")}
    return replace(call, groups=call.groups * n, is_causal=False, is_repeatable=False, **packed)


def flexible(args: Sequence[Any], output: Tensor) -> AttentionCall:
    """Return the attention call of torch's operator `flex_attention` with the arguments `args`.

    The bias is `score_mod` applied to scores of 0.
    """
    queries, keys, values, score_mod, block_mask, scale = args[:6]
    (b, h, n, _), m = queries.shape, keys.shape[-2]
    index = [torch.arange(size, dtype=torch.int, device=queries.device) for size in (b, h, n, m)]

    def at_every_pair(function: Callable[..., Tensor], *scores: Tensor) -> Tensor:
        for axis in (3, 2, 1, 0):  # the last is mapped over innermost
            indices = tuple(0 if other == axis else None for other in range(4))
            function = torch.vmap(function, in_dims=(0,) * len(scores) + indices)
        return function(*scores, *index).expand(b, h, n, m)

    bias = at_every_pair(score_mod, torch.zeros(b, h, n, m, device=queries.device))
    valid = at_every_pair(block_mask[-1])
    heads = keys.shape[1]
    keys, values = (tensor.expand(b, -1, -1, -1) for tensor in (keys, values))
    return AttentionCall(queries, keys, values, output, float(scale), groups=h // heads, valid=valid, bias=bias)


def candidates(written: UnfusedAttention, heads: int | None) -> Iterator[AttentionCall]:
    """Yield the possible calls of attention that was computed step by step, the likeliest first.

    `heads` is their number as a module has it, for scores with one axis of batch * heads.

    Raises:
        UnreadableError: no call can describe the steps.
    """
    softmax = written.softmax
    base = softmax.before.base if softmax.before is not None else None
    if softmax.before is None or softmax.scores is None or base is None or base.operands is None:
        raise UnreadableError("scores that are no matrix product of queries and keys, as far as they can be followed")
    left, right = base.operands
    reasons, is_readable = list[str](), False
    for layout in _layouts(written, base, softmax.scores, heads):
        for queries, keys in ((left, right.mT), (right.mT, left)):  # if n = m, only the numbers decide
            try:
                reading = _read(written, base, layout, queries, keys)
            except UnreadableError as reason:
                reasons.append(str(reason))
                continue
            is_readable = True
            yield reading
            model = layout.matrix(softmax.scores, softmax.shape)[..., : layout.m]
            valid, bias = model > LOW, reading.bias
            # A mask may have been written into the scores, past all steps.
            yield replace(reading, valid=valid, bias=None if bias is None else bias.masked_fill(~valid, 0.0))
    if not is_readable:
        raise UnreadableError(reasons[0])


def _layouts(written: UnfusedAttention, base: Step, scores: Tensor, heads: int | None) -> Iterator[Layout]:
    assert base.operands is not None
    *lead, n, columns = scores.shape
    assert written.softmax.before is not None
    m = columns - sum(earlier.other.shape[-1] for earlier in written.softmax.before.back() if earlier.op == "cat")
    b, h = _split(tuple(lead), base, written.values_step, (n, m), heads)
    layouts = [Layout(tuple(lead), b, h, n, m)]
    if len(lead) == 2:  # as in einsum("bnhd,bmhd->bnhm")
        crossed = Layout(tuple(lead), lead[0], n, lead[1], m, is_crossed=True)
        layouts.insert(0 if _is_crossed(written.softmax.before, base, lead[1], n) else 1, crossed)
    yield from layouts


def _is_crossed(step: Step, base: Step, queries: int, heads: int) -> bool:
    """Whether scores of these many queries and heads were turned to (b, queries, heads, m) after their product.

    Without a mask both layouts give the model's output if one of the sizes divides the other.
    """
    product = base.shape[-2:]
    if (queries in product) != (heads in product):
        return queries in product
    is_crossed = False
    for earlier in step.back():
        if earlier.op in ("permute", "transpose") and earlier.before is not None:
            sizes, axes = earlier.before.shape, [*range(len(earlier.shape))]
            if earlier.op == "permute":
                axes = [axes[axis] for axis in earlier.other[0]]
            else:
                one, other = earlier.other
                axes[one], axes[other] = axes[other], axes[one]
            longer = [axis for axis in axes if sizes[axis] > 1]
            is_crossed ^= len(longer) > 2 and longer[-3] > longer[-2]
    return is_crossed


def _split(lead: Shape, base: Step, values: Step | None, lengths: Shape, heads: int | None) -> tuple[int, int]:
    """Return the sizes of batch and heads; if both share an axis, infer them from earlier shapes or from `heads`."""
    if len(lead) != 1:
        return (lead[0], prod(lead[1:])) if lead else (1, 1)
    for side in (*base.sides, values):
        shapes = [earlier.shape for earlier in _upwards(side)]
        for b, *rest in (shape for shape in shapes if len(shape) == 4 and prod(shape[:-2]) == lead[0]):
            if rest[1] in lengths or rest[2] in lengths:
                return b, rest[0]
    if heads and lead[0] % heads == 0:
        return lead[0] // heads, heads
    return lead[0], 1


def _upwards(step: Step | None) -> Iterator[Step]:
    while step is not None and (step.op in VIEWS or step.op in ("mul", "div", "input")):
        yield step
        step = step.before


def _read(written: UnfusedAttention, base: Step, layout: Layout, queries: Tensor, keys: Tensor) -> AttentionCall:
    values, output = (tensor.mT if written.is_transposed else tensor for tensor in (written.values, written.output))
    queries, keys = layout.rows(queries, layout.n), layout.rows(keys, layout.m)
    values, output = layout.rows(values, layout.m), layout.rows(output, layout.n)
    heads = max(keys.shape[1], values.shape[1])
    keys, values = (tensor.expand(-1, heads, -1, -1) for tensor in (keys, values))
    if queries.shape[1] != layout.h:
        raise UnreadableError("queries that several heads share")
    plain = AttentionCall(queries, keys, values, output, 1.0, how="steps", groups=layout.h // heads)
    call = _replayed(plain, written.softmax, layout)
    return replace(call, pre_scale=scale_before(base.sides[0]) * scale_before(base.sides[1]))


def _replayed(call: AttentionCall, softmax: Step, layout: Layout) -> AttentionCall:
    """Return the call with scale, softcap, bias and sinks from the steps between product and softmax.

    Unknown steps are ignored; they make the later verification of the call fail.
    """
    assert softmax.before is not None
    queries, scale, cap, sinks = call.queries, 1.0, None, None
    bias: Tensor | None = None
    gradient: Tensor | None = None  # of a scale that is a parameter
    bias_is_first = False
    # Scores are kept as cap * tanh(scale * q . k) + bias. So a factor after the bias multiplies the bias, too, and a
    # factor after a tanh the cap; a mask is a bias where its condition holds. A factor for each head or query, before a
    # tanh, goes into the queries. A factor or a bias that is a parameter stays a tensor, so that outputs carry its
    # gradient. What does not fit this form is left out here, and found when the call is re-scored.
    for step in reversed(list(softmax.before.back())):
        other, number = step.other, number_of(step.other)
        is_learnt = isinstance(other, Tensor) and other.requires_grad and torch.is_grad_enabled()
        if step.op in ("mul", "div"):
            factor = layout.matrix(other, step.shape) if number is None else torch.tensor(number, dtype=torch.float64)
            factor = other.flatten()[0] if number is not None and is_learnt else factor
            factor = factor if step.op == "mul" else 1 / factor
            bias = None if bias is None else bias * factor
            if number is not None:
                if is_learnt and cap is None:
                    gradient = factor / factor.detach() if gradient is None else gradient * factor / factor.detach()
                factor = factor.detach()
                scale, cap = scale * float(factor), None if cap is None else cap * float(factor)
            elif factor.shape[-1] == 1 and cap is None:
                queries = queries * factor  # a scale of each head, or of each query
        elif step.op == "tanh":
            cap, bias_is_first = 1.0, bias is not None
        elif step.op in ("add", "sub"):
            term = layout.matrix(other, step.shape) if number is None else queries.new_full((1, 1, 1, 1), number)
            term = other.reshape(1, 1, 1, 1) if number is not None and is_learnt else term
            if number is not None or term.shape[-1] > 1 or not _is_stabilised(softmax):
                term = term if step.op == "add" else -term
                bias = term if bias is None else bias + term
        elif step.op in ("masked_fill", "where"):
            condition, value = (operand if isinstance(operand, Tensor) else torch.tensor(operand) for operand in other)
            condition = layout.matrix(condition, step.shape)
            value = layout.matrix(value, step.shape) if value.ndim else value
            held = torch.zeros((), dtype=call.output.dtype, device=queries.device) if bias is None else bias
            value = value.to(held)
            bias = (
                torch.where(condition, value, held) if step.op == "masked_fill" else torch.where(condition, held, value)
            )
        elif step.op == "cat":
            sinks = layout.matrix(other, step.shape)
    m = layout.m
    bias = None if bias is None else bias.expand(*bias.shape[:-1], m) if bias.shape[-1] == 1 else bias[..., :m]
    call = replace(call, queries=queries, scale=scale, scale_gradient=gradient)
    return replace(call, softcap=cap, bias=bias, bias_is_first=bias_is_first, sinks=sinks)


def _is_stabilised(softmax: Step) -> bool:
    """Whether the largest score of each row was subtracted from the row, as softmax does anyway."""
    return softmax.scores is not None and bool((softmax.scores.detach().amax(-1) == 0).all())


def scale_before(step: Step | None) -> float:
    """Return the factor by which `step` and earlier steps multiplied queries or keys before their product."""
    scale = 1.0
    for earlier in _upwards(step):
        number = number_of(earlier.other) if earlier.op in ("mul", "div") else 1.0
        if number is None or number == 0 or not isfinite(number):
            break
        scale = scale * number if earlier.op == "mul" else scale / number
    return scale
