"""Which matrices of a stage are drawn, and what is written on them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from attncli.errors import InputError, did_you_mean, got, show
from attncli.show.numbers import printable
from attncli.studies.study import Matrices, Names

Place = tuple[int, int]  # batch element, head
LONGEST_TOKEN = 24  # characters


@dataclass(frozen=True)
class Panel:
    """One matrix (n, m) with the names of its axes; `valid` (n, m), True = may attend."""

    label: str
    place: str  # such as "batch 1, head 0"; empty where there is but one
    values: Tensor
    valid: Tensor | None
    queries: tuple[str, ...] | None
    keys: tuple[str, ...] | None


@dataclass(frozen=True)
class Selection:
    """Panels by label and place, in the order wanted; `left_out` counts those beyond `most_panels`."""

    labels: tuple[str, ...]
    places: tuple[Place, ...]
    panels: Mapping[tuple[str, Place], Panel]
    left_out: int = 0


def select(
    matrices: Matrices,
    labels: Sequence[str] | None = None,
    batches: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    most_panels: int = 48,
) -> Selection:
    """The panels asked for; all that there are where nothing is asked for.

    Raises:
        InputError: a label, batch element or head that is not there, or a tensor that is no stack of matrices.
    """
    names = _labels(matrices, labels)
    stacks = {name: _stack_shape(name, matrices.tensors[name]) for name in names}
    wanted_batches = _indices("batch element", batches, max(b for b, _ in stacks.values()))
    wanted_heads = _indices("head", heads, max(h for _, h in stacks.values()))
    places = [(b, h) for b in wanted_batches for h in wanted_heads]
    there = [(name, place) for place in places for name in names if _within(place, stacks[name])]
    if not there:
        raise InputError.of(f"no matrix has a batch element of {show(batches)} and a head of {show(heads)}")
    names = names[:most_panels]
    kept = places[: max(1, most_panels // len(names))]
    panels = {key: _panel(matrices, *key) for key in there if key[0] in names and key[1] in kept}
    return Selection(names, tuple(kept), panels, len(there) - len(panels))


def _labels(matrices: Matrices, labels: Sequence[str] | None) -> tuple[str, ...]:
    if not matrices.tensors:
        raise InputError.of(f"no scorer has the stage {show(matrices.stage)}; expected one that some scorer has")
    for label in labels or ():
        if label not in matrices.tensors:
            raise InputError.of(got(label, "unknown label", did_you_mean(label, matrices.tensors)), ["scorer"])
    return tuple(dict.fromkeys(labels or matrices.tensors))


def _stack_shape(label: str, tensor: Tensor) -> Place:
    """How many batch elements and heads there are; axes between the first and the last two all count as heads."""
    shape = tuple(tensor.shape)
    if len(shape) < 2 or 0 in shape or tensor.is_complex():
        kind = f"{str(tensor.dtype).removeprefix('torch.')} of shape {list(shape)}"
        raise InputError.of(f"{label}: got {kind}; expected real matrices (..., n, m), no size 0")
    return (shape[0] if len(shape) > 2 else 1), math.prod(shape[1:-2])


def _indices(kind: str, wanted: Sequence[int] | None, count: int) -> tuple[int, ...]:
    for index in wanted or ():
        if not 0 <= index < count:
            raise InputError.of(got(index, f"expected a {kind} in 0..{count - 1}"), [kind.split()[0]])
    return tuple(dict.fromkeys(wanted or range(count)))


def _within(place: Place, stack: Place) -> bool:
    return place[0] < stack[0] and place[1] < stack[1]


def _panel(matrices: Matrices, label: str, place: Place) -> Panel:
    tensor = matrices.tensors[label]
    n, m = tensor.shape[-2:]
    batches, heads = _stack_shape(label, tensor)
    batch, head = place
    axes = np.unravel_index(head, tensor.shape[1:-2]) if tensor.ndim > 3 else ()
    index = (batch, *map(int, axes))[: tensor.ndim - 2]
    values = _matrix(tensor, index)
    valid = None if matrices.valid is None else _matrix(matrices.valid.expand(tensor.shape), index)
    if valid is not None and matrices.stage in ("weights", "dropped"):
        empty = ~valid.any(-1, keepdim=True)  # a query without any valid key: what weights it has are worth seeing
        valid = valid | (empty & (values != 0))
    words = [f"batch {batch}"] * (batches > 1) + [f"head {head}"] * (heads > 1)
    queries = _names("query", matrices.tokens.queries, batch, n)
    keys = _names("key", matrices.tokens.keys, batch, m)
    return Panel(printable(label), ", ".join(words), values, valid, queries, keys)


def _matrix(tensor: Tensor, index: tuple[int, ...]) -> Tensor:
    return tensor[index].detach() if index else tensor.detach()


def _names(kind: str, names: Names | None, batch: int, count: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    if batch >= len(names) > 1 or not names:
        raise InputError.of(
            f"got {kind} tokens for {len(names)} batch elements; expected them for batch element {batch} too"
        )
    tokens = names[batch if len(names) > 1 else 0]
    if len(tokens) != count:
        raise InputError.of(f"got {len(tokens)} {kind} tokens for batch element {batch}; expected {count}")
    return tuple(_shortened(printable(str(token))) for token in tokens)


def _shortened(token: str) -> str:
    return token if len(token) <= LONGEST_TOKEN else token[: LONGEST_TOKEN - 1] + "…"
