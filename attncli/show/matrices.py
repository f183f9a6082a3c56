"""Which matrices of a stage a heatmap shows, with the names of their axes, and the cells that are drawn of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from attncli.errors import InputError, did_you_mean, got, printable, show
from attncli.show.figures import Note
from attncli.studies.study import Matrices, Names

MOST_PANELS = 48
LONGEST_TOKEN = 24  # characters
BAND_CELLS = 2**21  # cells averaged at a time: the memory taken beside the matrix itself


@dataclass(frozen=True)
class Panel:
    """One matrix (n, m); `valid` (n, m), True = may attend; tokens of queries and keys, or their indices."""

    label: str
    place: str  # such as "batch 1, head 0"; empty where there is but one
    index: tuple[int, int]  # batch element and head
    values: Tensor
    valid: Tensor | None
    queries: tuple[str, ...] | range
    keys: tuple[str, ...] | range


def select(
    matrices: Matrices,
    labels: Sequence[str] | None,
    batches: Sequence[int] | None,
    heads: Sequence[int] | None,
    places: Sequence[tuple[int, int]] | None,
    note: Note,
) -> list[Panel]:
    """The panels asked for, batch element by batch element, head by head and label by label; all where not asked.

    Axes between the first and the last two all count as heads. `places` are pairs of batch element and head, in place
    of all pairs of `batches` and `heads`. Of more than MOST_PANELS the last are left out.

    Raises:
        InputError: a label, batch element or head that is not there, or a tensor that is no stack of matrices.
    """
    for label in labels or ():
        if label not in matrices.tensors:
            raise InputError.of(got(label, "unknown label", did_you_mean(label, matrices.tensors)), ["scorer"])
    stacks = {name: _stack(name, matrices.tensors[name]) for name in labels or matrices.tensors}
    wanted_batches = _indices("batch element", batches, max(stack.shape[0] for stack in stacks.values()))
    wanted_heads = _indices("head", heads, max(stack.shape[1] for stack in stacks.values()))
    if places is None:
        places = [(b, h) for b in wanted_batches for h in wanted_heads]
    there = [(name, b, h) for b, h in places for name in stacks if b < len(stacks[name]) and h < stacks[name].shape[1]]
    if not there:
        raise InputError.of(f"no matrix has a batch element of {show(batches)} and a head of {show(heads)}")
    most = MOST_PANELS - MOST_PANELS % len(stacks) or MOST_PANELS  # all labels of a place or none
    shown = there if len(there) <= MOST_PANELS else there[:most]
    if len(shown) < len(there):
        last, batch, head = shown[-1]
        upto = f"{len(shown)} of {len(there)} panels are shown, up to {last}, batch element {batch}, head {head}"
        note(f"{upto}; attncli heatmap with --scorer, --batch or --head draws others")
    return [_panel(matrices, name, stacks[name], b, h) for name, b, h in shown]


def _stack(label: str, tensor: Tensor) -> Tensor:
    if tensor.ndim < 2 or tensor.numel() == 0 or tensor.is_complex():
        kind = f"{str(tensor.dtype).removeprefix('torch.')} of shape {list(tensor.shape)}"
        raise InputError.of(f"{label}: got {kind}; expected real matrices (..., n, m), no size 0")
    return _four_axes(tensor.detach())


def _four_axes(tensor: Tensor) -> Tensor:
    """(..., n, m) as (b, heads, n, m)."""
    return tensor.reshape(len(tensor) if tensor.ndim > 2 else 1, -1, *tensor.shape[-2:])


def _indices(kind: str, wanted: Sequence[int] | None, count: int) -> list[int]:
    for index in wanted or ():
        if not 0 <= index < count:
            raise InputError.of(got(index, f"expected a {kind} in 0..{count - 1}"), [kind.split()[0]])
    return list(dict.fromkeys(wanted or range(count)))


def _panel(matrices: Matrices, label: str, stack: Tensor, batch: int, head: int) -> Panel:
    batches, heads, n, m = stack.shape
    values, valid = stack[batch, head], None
    if matrices.valid is not None:
        valid = _four_axes(matrices.valid.expand(matrices.tensors[label].shape))[batch, head]
        if matrices.stage in ("weights", "dropped"):
            empty = ~valid.any(-1, keepdim=True)  # a query without any valid key: what weights it has are worth seeing
            valid = valid | (empty & (values != 0))
    place = ", ".join([f"batch {batch}"] * (batches > 1) + [f"head {head}"] * (heads > 1))
    queries, keys = _names(matrices.tokens.queries, batch, n), _names(matrices.tokens.keys, batch, m)
    return Panel(printable(label), place, (batch, head), values, valid, queries, keys)


def _names(names: Names | None, batch: int, count: int) -> tuple[str, ...] | range:
    if names is None:
        return range(count)
    tokens = [printable(token) for token in names[batch]]
    return tuple(token if len(token) <= LONGEST_TOKEN else f"{token[: LONGEST_TOKEN - 1]}…" for token in tokens)


def block_means(values: Tensor, valid: Tensor | None, down: int, across: int) -> np.ma.MaskedArray[Any, Any]:
    """The means of a matrix (n, m) over blocks of `down` x `across` cells, fewer at the lower and right edges.

    Only valid cells count: a block without any is masked, a block with a valid NaN is NaN. Computed in float64.
    """
    n, m = values.shape
    if valid is None:
        valid = torch.ones(1, 1, dtype=torch.bool, device=values.device).expand(n, m)
    height = down * max(1, BAND_CELLS // (m * down))  # whole blocks
    means, covered = [], []
    for band, inside in zip(torch.split(values, height), torch.split(valid, height), strict=True):
        sums, shares = (
            avg_pool2d(cells.cpu().double()[None], (down, across), ceil_mode=True)[0]
            for cells in (band.where(inside, 0), inside)
        )
        means.append(sums / shares)
        covered.append(shares > 0)
    mask = ~torch.cat(covered)
    return np.ma.MaskedArray(torch.cat(means).masked_fill(mask, 0.0).numpy(), mask=mask.numpy())
