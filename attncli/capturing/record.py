"""One attention call of a model: what entered it, and whether the project's own code gives the same output."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import torch
from torch import Tensor

from attncli.attention import Bias, EmptyRow, Rules, Valid, at_least_float32, weighted_sum
from attncli.modes import outside_autocast

LOW = -1e4  # a number added to a score masks if it is at most this: models write -1e4, -1e9, the dtype's least or -inf
ALLOWED = 32  # largest error that counts as rounding, in units of the output's dtype and of its largest number
TENSORS = ("queries", "keys", "values", "output", "valid", "bias", "sinks")
SHARED = ("valid", "bias")  # of which a file keeps what is the same once
FACTS = ("how", "scale", "pre_scale", "groups", "heads", "softcap", "empty_row", "error", "problem")  # kept as JSON
METADATA, VERSION = "attncli", 1  # the key of what a file says of its calls, and its format
MaybeTensor = TypeVar("MaybeTensor", Tensor, Tensor | None)


@dataclass(frozen=True, eq=False)
class Record:
    """What entered an attention call, after position embeddings and per head; sizes of 1 in masks are repeated.

    Weights are the softmax over valid keys of softcap(scale * queries . keys) + bias. The queries, or the keys, had
    been multiplied by `pre_scale` before they came: the model's whole scale is `scale * pre_scale`.
    """

    queries: Tensor  # b h n d
    keys: Tensor  # b h/groups m d
    values: Tensor  # b h/groups m v
    output: Tensor  # b h n v, the model's own
    scale: float
    layer: str = ""
    call: int = 0  # which one of the layer's calls
    kind: str = ""  # class of the module
    how: Literal["function", "kernel", "steps"] = "function"  # F.scaled_dot_product_attention, its kernel, written out
    pre_scale: float = 1.0
    groups: int = 1  # query heads that share a head of keys
    softcap: float | None = None
    valid: Tensor | None = None  # b|1 h|1 n|1 m|1, boolean
    bias: Tensor | None = None  # b|1 h|1 n|1 m|1
    sinks: Tensor | None = None  # b|1 h|1 n|1 1: the score of one more key, which has no value
    empty_row: EmptyRow = "zero"
    heads: tuple[int, ...] | None = None  # their numbers, where only some are kept
    error: float = 0.0  # largest difference between `output` and `rescored()`
    problem: str | None = None  # why it cannot be re-scored

    @property
    def name(self) -> str:
        """The layer, with the number of the call where it is not the first."""
        return f"{self.layer}#{self.call}" if self.call else self.layer

    @outside_autocast
    def weights(self) -> Tensor:
        """Weights (b, h, n, m), by the rules that every experiment follows."""
        queries, keys = at_least_float32(self.queries, self.keys)
        scores = (queries @ _repeated(keys, self.groups).mT).mul_(self.scale)  # b h n m
        valid = Valid(scores.shape, mask=self.valid, device=scores.device)
        bias = None if self.bias is None else Bias(scores.shape, self.bias)
        return Rules(valid, self.softcap, self.empty_row, bias, sinks=self.sinks).stages(scores)["weights"]

    @outside_autocast
    def rescored(self) -> Tensor:
        """The output (b, h, n, v) as the project's own code gives it."""
        return weighted_sum(self.weights(), _repeated(self.values, self.groups))

    def difference(self, output: Tensor) -> float:
        """The largest between this output and the model's own; infinite where one alone has NaN."""
        if bool((output.isnan() != self.output.isnan()).any()):
            return math.inf
        return float((output - self.output).nan_to_num().abs().max()) if output.numel() else 0.0


def settled(readings: Iterable[Record]) -> Record:
    """The first reading of a call that gives the model's own output; else the nearest one, which says its problem."""
    nearest: Record | None = None
    for reading in readings:
        for way in _ways(_grouped(reading)):
            checked = _checked(way)
            if checked.problem is None:
                return checked
            if nearest is None or checked.error < nearest.error:
                nearest = checked
    assert nearest is not None, "a call has a reading"
    return nearest


def _ways(record: Record) -> Iterator[Record]:
    """With what a float mask blocks made a boolean mask, as models mean it; then with the float mask as it is."""
    apart = _mask_apart(record)
    if apart.valid is not None and bool((~apart.valid).all(-1).any()) and apart.sinks is None:
        ways: tuple[EmptyRow, ...] = ("zero", "uniform", "nan")  # kernels differ
        yield from (replace(apart, empty_row=empty_row) for empty_row in ways)
    else:
        yield apart
    if record.bias is not None:
        yield record


def _mask_apart(record: Record) -> Record:
    valid, bias = record.valid, record.bias
    if bias is not None:
        blocked = bias <= LOW
        bias = collapsed(bias.masked_fill(blocked, 0.0))
        bias = bias if bool(bias.any()) else None
        valid = ~blocked if valid is None else valid & ~blocked
    valid = collapsed(valid)
    return replace(record, valid=None if valid is None or bool(valid.all()) else valid, bias=bias)


def _grouped(record: Record) -> Record:
    """Where keys and values were repeated for groups of heads: one of each."""
    record = replace(record, bias=collapsed(record.bias), sinks=collapsed(record.sinks))
    if record.groups > 1:
        return record
    same = (record.keys[:, 1:] == record.keys[:, :-1]).all((0, 2, 3))
    same &= (record.values[:, 1:] == record.values[:, :-1]).all((0, 2, 3))  # whether a head is like the one before it
    starts = [0, *((~same).nonzero().flatten() + 1).tolist()]
    heads = record.keys.shape[1]
    size = heads // len(starts)
    if size == 1 or starts != list(range(0, heads, size)):
        return record
    return replace(record, groups=size, keys=record.keys[:, ::size], values=record.values[:, ::size])


def _checked(record: Record) -> Record:
    error, (output,) = record.difference(record.rescored()), at_least_float32(record.output)
    if error == math.inf:
        return replace(record, error=error, problem="its output has NaN at other places than the re-scored one")
    largest = float(output.nan_to_num().abs().max()) if output.numel() else 0.0
    allowed = ALLOWED * torch.finfo(record.output.dtype).eps * max(largest, 1e-3)
    problem = None if error <= allowed else f"re-scored, its output differs by {error:.2g}"
    return replace(record, error=error, problem=problem)


def collapsed(tensor: MaybeTensor) -> MaybeTensor:
    """The tensor with every axis along which all is the same cut to a size of 1."""
    if tensor is None:
        return tensor
    for axis in range(tensor.ndim):
        first = tensor.narrow(axis, 0, min(1, tensor.shape[axis]))
        if tensor.shape[axis] > 1 and (tensor.stride(axis) == 0 or bool((tensor == first).all())):
            tensor = first
    return tensor


def _repeated(tensor: Tensor, groups: int) -> Tensor:
    return tensor if groups == 1 else tensor.repeat_interleave(groups, -3)


def four_axes(tensor: Tensor) -> Tensor:
    """Queries, keys, values or a mask with whatever leading axes as (b, h, n, d): the first is the batch."""
    while tensor.ndim < 3:
        tensor = tensor.unsqueeze(0)
    return tensor.unsqueeze(1) if tensor.ndim == 3 else tensor.flatten(1, -3)
