"""Record the operations that made a tensor: from a matrix product to a softmax, and on to the product with values."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any
from weakref import ref

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

VIEWS = {
    "view", "_unsafe_view", "reshape", "_reshape_alias", "expand", "unsqueeze", "squeeze", "transpose", "permute", "t",
    "slice", "select", "split", "split_with_sizes", "unbind", "chunk", "alias", "detach", "clone", "contiguous",
    "_to_copy", "lift_fresh",
}  # fmt: skip
PRODUCTS, SUMS = {"mm", "bmm"}, {"addmm", "baddbmm"}  # the latter are beta * first + alpha * (second @ third)
SOFTMAXES = {"_softmax", "_safe_softmax"}
INSTEAD = {"relu", "sigmoid", "exp", "gelu", "silu", "elu", "pow", "square", "softplus", "sin", "threshold", "clamp"}
INSTEAD |= {"clamp_min", "maximum"}


@dataclass(eq=False, slots=True, weakref_slot=True)
class Step:
    """An operation that made a new tensor from another. A step does not keep the new tensor in memory."""

    op: str
    before: "Step | None"
    shape: tuple[int, ...]
    other: Any = None  # the other argument: a number, a tensor, a mask with its value, or axes
    operands: tuple[Tensor, Tensor] | None = None  # of a matrix product
    sides: tuple["Step | None", "Step | None"] = (None, None)  # the steps that made the operands
    scores: Tensor | None = None  # the argument of a softmax
    base: "Step | None" = None  # the product or softmax at the start of the chain of steps, maybe this step
    length: int = 0  # steps since the base

    def __post_init__(self) -> None:
        if self.operands is not None or self.scores is not None:
            self.base = self
        elif self.before is not None:
            self.base, self.length = self.before.base, self.before.length + 1

    def back(self) -> Iterator["Step"]:
        """Yield the steps from this step back to the base (a product or softmax), without the base."""
        step: Step | None = self
        while step is not None and step is not self.base:
            yield step
            step = step.before

    def forget(self) -> None:
        """Release all tensors that the step holds."""
        self.before = self.other = self.base = self.operands = self.scores = None
        self.sides = (None, None)


@dataclass(frozen=True, eq=False)
class UnfusedAttention:
    """Attention that a model computes without a fused kernel: the product of values with weights from a softmax."""

    softmax: Step
    after: tuple[Step, ...]  # steps from the softmax to the weights, the last first
    values: Tensor
    values_step: Step | None
    output: Tensor
    is_transposed: bool  # values^T @ weights^T

    @property
    def dtypes(self) -> list[torch.dtype]:
        """Return the dtypes of queries and keys, of the softmax's argument, and of the output."""
        base = self.softmax.before.base if self.softmax.before is not None else None
        factors = base.operands if base is not None and base.operands is not None else ()
        return [source.dtype for source in (*factors, self.softmax.scores, self.output) if source is not None]


class Trail:
    """The steps that made the tensors in memory, by tensor.

    Steps inside a module are forgotten when the module around it ends, since attention does not extend further. Steps
    keep their arguments in memory, so along a residual stream they would keep all activations of a model.
    """

    def __init__(self, modules: Callable[[], Sequence[nn.Module]]) -> None:
        self.unused: dict[int, tuple[Sequence[nn.Module], tuple[int, ...]]] = {}  # softmaxes without use of the weights
        self._modules = modules
        self.parameters: set[int] = set()  # addresses of storages
        self._numbers = count()
        self._steps: MutableMapping[Tensor, Step] = WeakIdKeyDictionary()
        self._copies: MutableMapping[Tensor, bool] = WeakIdKeyDictionary()  # of parameters, such as in another dtype
        self._frames = list[tuple[list[ref[Step]], list[ref[Step]]]]()  # steps of each running module, and of its parts

    def enter(self, *, is_first: bool) -> None:
        """Start to collect the steps of a module that begins; `is_first` if no other module runs."""
        if is_first:
            self._frames.clear()
        self._frames.append(([], []))

    def leave(self) -> None:
        """Forget the steps inside the parts of the module that ends."""
        if not self._frames:  # after an interrupt
            return
        steps, inner = self._frames.pop()
        for step in (reference() for reference in inner):
            if step is not None:
                step.forget()
        if self._frames:
            self._frames[-1][1].extend(steps)

    def last_step(self, tensor: Any) -> Step | None:
        """Return the step that made a tensor; None if unknown."""
        return self._steps.get(tensor) if isinstance(tensor, Tensor) else None

    def see(
        self, op: str, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any, *, is_in_place: bool = False
    ) -> UnfusedAttention | str | None:
        """Record `out`, the result of the operation `op`.

        Return the attention that the operation completes, if any, or the reason why something like attention cannot be
        followed.
        """
        if not isinstance(out, Tensor):
            parent = self.last_step(args[0]) if args else None
            if parent is not None and (op in VIEWS or op in ("native_dropout", "topk", "sort")):
                for piece in out:
                    self._keep(piece, Step(op, parent, tuple(piece.shape)))
            return None
        if op in PRODUCTS or op in SUMS:
            return self._product(op, args, kwargs, out)
        if op in SOFTMAXES:
            return self._softmax(args[0], args[1], out)
        step = self._cat(args, kwargs, out) if op == "cat" else self._step(op, args, kwargs, out, is_in_place)
        if step is not None:
            self._keep(out, step)
        elif is_in_place:
            self._steps.pop(out, None)
        return None

    def _keep(self, tensor: Tensor, step: Step) -> None:
        if step.other is tensor:
            step.other = None  # else it would never be freed
        self._steps[tensor] = step
        self._held(step)

    def _product(
        self, op: str, args: Sequence[Any], kwargs: Mapping[str, Any], out: Tensor
    ) -> UnfusedAttention | str | None:
        # A product with a factor that steps connect to a softmax is the end of attention; the other factor is its
        # values, unless it is a parameter: a softmax over classes, times an embedding, is no attention, nor is a layer
        # whose "keys" are weights. Any other product may be that of queries and keys, at which a chain begins; `addmm`
        # is such a product with a scale and a bias, which become steps of their own. A product of activations that
        # steps connect to an earlier one by another function than softmax is attention of a kind that is only reported.
        left, right = args[-2:] if op in PRODUCTS else args[1:3]
        sides = self.last_step(left), self.last_step(right)
        for side, values, other in ((sides[0], right, sides[1]), (sides[1], left, sides[0])):
            if side is not None and side.base is not None and side.base.scores is not None and op in PRODUCTS:
                self.unused.pop(side.base.other, None)
                if any(map(self._is_parameter, (values, *_possible_keys(side.base)))):
                    continue  # a layer with weights, such as a product with an embedding after a softmax
                return UnfusedAttention(side.base, tuple(side.back()), values, other, out, side is not sides[0])
        shape = tuple(out.shape)
        step = Step(op, None, shape, operands=(left, right), sides=sides)
        if op in SUMS:
            beta, alpha = kwargs.get("beta", 1), kwargs.get("alpha", 1)
            step = step if alpha == 1 else Step("mul", self._held(step), shape, alpha)
            step = step if beta == 0 else Step("add", self._held(step), shape, args[0] if beta == 1 else args[0] * beta)
        self._keep(out, step)
        doubts = (self._doubt(side) for side in sides if not self._has_parameter(left, right))
        return next((doubt for doubt in doubts if doubt is not None), None)

    def _held(self, step: Step) -> Step:
        """Return a step, registered as one of the running module."""
        if self._frames:
            self._frames[-1][0].append(ref(step))
        return step

    def _doubt(self, step: Step | None) -> str | None:
        """Return a message if a function other than softmax is between two matrix products without parameters."""
        if step is None or step.base is None or step.base.operands is None or self._has_parameter(*step.base.operands):
            return None
        between = [before.op for before in step.back() if before.op in INSTEAD]
        return f"{between[0]} in place of a softmax between two matrix products" if between else None

    def _has_parameter(self, *tensors: Tensor) -> bool:
        dense = (tensor for tensor in tensors if tensor.layout == torch.strided)  # a sparse one has no storage
        return any(tensor.untyped_storage().data_ptr() in self.parameters for tensor in dense)

    def _is_parameter(self, tensor: Tensor) -> bool:
        """Whether the tensor is a parameter, a view of one, or a copy in another dtype."""
        return self._has_parameter(tensor) or self._copies.get(tensor) is not None

    def _softmax(self, scores: Tensor, axis: int, out: Tensor) -> str | None:
        before = self.last_step(scores)
        base = None if before is None else before.base
        is_attention = base is not None and base.operands is not None and not self._has_parameter(*base.operands)
        if axis not in (-1, out.ndim - 1):
            return f"a softmax over axis {axis} of {list(out.shape)}" if is_attention else None
        number = next(self._numbers)
        if is_attention:
            self.unused[number] = self._modules(), tuple(out.shape)
        self._keep(out, Step("softmax", before, tuple(out.shape), number, scores=scores))
        return None

    def _cat(self, args: Sequence[Any], kwargs: Mapping[str, Any], out: Tensor) -> Step | None:
        """Return the step that appends columns to scores, such as sinks."""
        pieces, axis = args[0], args[1] if len(args) > 1 else kwargs.get("dim", 0)
        parent = self.last_step(pieces[0])
        if parent is None or parent.base is None or axis not in (-1, out.ndim - 1) or len(pieces) != 2:
            return None
        return Step("cat", parent, tuple(out.shape), pieces[1])

    def _step(
        self, op: str, args: Sequence[Any], kwargs: Mapping[str, Any], out: Tensor, is_in_place: bool
    ) -> Step | None:
        shape, first = tuple(out.shape), args[0] if args else None
        if op in VIEWS and isinstance(first, Tensor):
            if self._is_parameter(first):
                self._copies[out] = True
            axes = tuple(args[1:]) if op in ("permute", "transpose") else None
            return Step(op, self.last_step(first) or Step("input", None, tuple(first.shape)), shape, axes)
        steps = list[tuple[int, int, Step]]()
        for position, argument in enumerate(args):
            step = self.last_step(argument)
            if step is not None and step.base is not None:
                steps.append((step.length, position, step))
        if not steps:
            if op not in ("mul", "div") or not isinstance(first, Tensor) or number_of(args[1]) is None:
                return None
            return Step(op, self.last_step(first) or Step("input", None, tuple(first.shape)), shape, args[1])
        _, position, parent = min(steps, key=lambda product: product[:2])  # the side nearest to its product
        if op == "masked_fill":
            return Step(op, parent, shape, (args[1], args[2]))
        if op == "where" and position:
            return Step(op, parent, shape, (args[0] if position == 1 else ~args[0], args[3 - position]))
        if op in ("add", "mul") or (op in ("sub", "div") and position == 0 and "rounding_mode" not in kwargs):
            other, alpha = args[1 - position], kwargs.get("alpha", 1)
            return Step(op, parent, shape, other if alpha == 1 else other * alpha)
        return Step(op, parent, shape) if is_in_place or shape == parent.shape else None


def _possible_keys(softmax: Step) -> Sequence[Tensor]:
    """Return the factors of the scores that may be the keys, which have a row for each column of the softmax.

    Both, if neither fits: the argument of the softmax is a part of a product, such as some features of a layer.
    """
    base = softmax.before.base if softmax.before is not None else None
    if softmax.before is None or base is None or base.operands is None:
        return ()
    steps = list(softmax.before.back())
    columns = softmax.shape[-1] - sum(step.other.shape[-1] for step in steps if step.op == "cat")
    *_, n, m = base.shape
    is_turned = columns != m or any(step.op in ("transpose", "permute", "t") for step in steps)
    if is_turned and softmax.shape[-2:-1] == (m,) and n % columns == 0:
        return base.operands[:1]
    return base.operands[1:] if columns == m else base.operands


def number_of(value: Any) -> float | None:
    """Return the value of a number or of a tensor with one number; None for anything else."""
    if isinstance(value, Tensor):
        return float(value.detach()) if value.numel() == 1 and not value.is_complex() else None
    return float(value) if isinstance(value, int | float) else None
