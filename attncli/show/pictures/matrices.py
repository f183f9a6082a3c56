"""Select the matrices of a heatmap, with the names of their axes, and average their cells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from attncli.config.looks import HeatmapLook, check_ranges, range_ends
from attncli.errors import InputError, did_you_mean, got, in_ranges, printable, shortened, show
from attncli.models.call import four_axes
from attncli.results import Matrices, Names, Row
from attncli.show.pictures.figures import Note
from attncli.show.pictures.scales import QUANTITIES, SCORES, WEIGHTS, Limit

MOST_PANELS = 48
LONGEST_TOKEN = 24  # characters
BAND_CELLS = 2**21  # cells averaged at a time, which bounds the memory used


@dataclass(frozen=True)
class Panel:
    """A matrix (n, m), its mask `valid` (n, m), True = may attend, and the tokens or indices of queries and keys.

    If `minus`, another matrix (n, m), is given, the panel shows `values` - `minus`. `quantity` labels the colour bar,
    and `limit` is its rule for the end of the colours, if any.
    """

    label: str
    row_name: str  # such as "batch 1, head 0"; empty if there is only one
    index: tuple[int, int]  # batch element and number of the head
    values: Tensor
    valid: Tensor | None
    queries: tuple[str, ...] | range
    keys: tuple[str, ...] | range
    minus: Tensor | None = None
    quantity: str = ""
    limit: Limit | None = None


def heads_panel(
    label: str,
    row_name: str,
    records: Sequence[Row],
    key: str,
    layers: Mapping[str, int],
    quantity: str,
    limit: Limit | None = None,
) -> Panel:
    """Return a panel with a row for each layer and a column for each head of the records.

    Cells without a value of the column `key` are masked. `layers` has the number of each layer by name.
    """
    names, heads = list(dict.fromkeys(row["layer"] for row in records)), sorted({row["head"] for row in records})
    values = torch.zeros(len(names), len(heads), dtype=torch.float64)
    valid = torch.zeros_like(values, dtype=torch.bool)
    for row in records:
        if row[key] is not None:
            cell = names.index(row["layer"]), heads.index(row["head"])
            values[cell], valid[cell] = row[key], True
    sides = tuple(str(layers[name]) for name in names), tuple(map(str, heads))
    return Panel(label, row_name, (0, 0), values, valid, *sides, quantity=quantity, limit=limit)


def select(
    matrices: Matrices,
    labels: Sequence[str] | None,
    batches: Sequence[int] | None,
    heads: Sequence[int] | None,
    indices: Sequence[tuple[int, int]] | None,
) -> list[Panel]:
    """Return the requested panels by batch element, then head, then label; None selects all.

    Axes between the first and the last two all count as heads. Heads are chosen by their numbers. `indices` are pairs
    of batch element and head, instead of all pairs of `batches` and `heads`.

    Raises:
        InputError: a label, batch element or head does not exist, or a tensor has no matrices.
    """
    for label in labels or ():
        if label not in matrices.tensors:
            raise InputError.of(got(label, "unknown label", did_you_mean(label, matrices.tensors)), ["scorer"])
    stacks = {name: _stack(name, matrices.tensors[name]) for name in labels or matrices.tensors}
    if any(heads or ()) and all(matrices.tensors[name].ndim <= 3 for name in stacks):
        raise InputError.of(got(max(heads or ()), "there are no heads here", "leave it out"), ["head"])
    wanted_batches = _indices("batch element", batches, range(max(stack.shape[0] for stack in stacks.values())))
    numbers = matrices.heads or range(max(stack.shape[1] for stack in stacks.values()))
    wanted_heads = _indices("head", heads, numbers)
    if indices is None:
        indices = [(b, h) for b in wanted_batches for h in wanted_heads]
    places = [
        (name, b, h)
        for b, h in indices
        for name in stacks
        if b < len(stacks[name]) and numbers.index(h) < stacks[name].shape[1]
    ]
    if not places:
        raise InputError.of(f"no matrix has a batch element of {show(batches)} and a head of {show(heads)}")
    return [_panel(matrices, name, stacks[name], b, h, numbers) for name, b, h in places]


def limited(panels: Sequence[Panel], note: Note) -> list[Panel]:
    """Return at most MOST_PANELS panels, all labels of a head or none, with a call of `note` if some are left out.

    Panels of single queries are all returned, as they become rows.
    """
    if len(panels) <= MOST_PANELS or all(len(panel.queries) == 1 for panel in panels):
        return list(panels)
    count = len({panel.label for panel in panels})
    drawn = panels[: MOST_PANELS - MOST_PANELS % count or MOST_PANELS]
    batch, head = drawn[-1].index
    upto = (
        f"{len(drawn)} of {len(panels)} panels are shown, up to {drawn[-1].label}, batch element {batch}, head {head}"
    )
    note(f"{upto}; attncli heatmap with --scorer, --batch or --head draws others")
    return list(drawn)


def single_queries_joined(panels: Sequence[Panel]) -> tuple[list[Panel], str]:
    """Return panels of single queries joined into one map for each label, and the name of the rows of all panels.

    The rows are batch elements, or heads if there is one batch element. With several of both, each batch element has
    a map, whose rows are heads. Other panels stay as they are, with queries as rows, and so do single queries whose
    keys have different tokens.
    """
    batches, heads = ({panel.index[axis] for panel in panels} for axis in (0, 1))
    groups = dict[tuple[str, str], dict[str, Panel]]()  # panels by the name of their row
    for panel in panels:
        batch = f"batch {panel.index[0]}"
        batch = batch if panel.row_name.startswith(batch) else ""
        head = panel.row_name.removeprefix(batch).removeprefix(", ")
        row_name, row = (head, str(panel.index[0])) if len(heads) == 1 else (batch, head.removeprefix("head "))
        groups.setdefault((panel.label, row_name), {})[row] = panel
    is_single = all(len(panel.queries) == 1 for panel in panels) and max(len(batches), len(heads)) > 1
    if not is_single or any(len({panel.keys for panel in rows.values()}) > 1 for rows in groups.values()):
        return list(panels), "Queries"
    joined = [_joined(rows, row_name) for (_, row_name), rows in groups.items()]
    return joined, "Batch elements" if len(heads) == 1 else "Heads"


def _joined(rows: Mapping[str, Panel], row_name: str) -> Panel:
    """Return the panels of single queries as one panel with their rows, named by batch element or head, and token."""
    panels = list(rows.values())
    first, tokens = panels[0], [str(panel.queries[0]) for panel in panels]
    names = [*rows] if len({*tokens}) == 1 else [f"{row} {token}" for row, token in zip(rows, tokens, strict=True)]
    is_range = names == list(map(str, range(len(names))))
    values, valid, minus = (
        None if getattr(first, name) is None else torch.cat([getattr(panel, name) for panel in panels])
        for name in ("values", "valid", "minus")
    )
    assert values is not None
    queries = range(len(names)) if is_range else tuple(names)
    return replace(first, row_name=row_name, values=values, valid=valid, minus=minus, queries=queries)


def choice_in_words(matrices: Matrices, panels: Sequence[Panel]) -> str:
    """Return a phrase such as `12 of 24 heads` if the panels leave some out, else an empty string."""
    batches, heads = map(max, zip(*(four_axes(tensor).shape[:2] for tensor in matrices.tensors.values()), strict=True))
    drawn, count = len({panel.index for panel in panels}), batches * heads
    return "" if drawn == count else f"{drawn} of {count} {'heads' if heads > 1 else 'batch elements'}"


def _stack(label: str, tensor: Tensor) -> Tensor:
    if tensor.ndim < 2 or tensor.numel() == 0 or tensor.is_complex():
        kind = f"{str(tensor.dtype).removeprefix('torch.')} of shape {list(tensor.shape)}"
        raise InputError.of(f"{label}: got {kind}; expected real matrices (..., n, m), no size 0")
    return four_axes(tensor.detach())


def _indices(kind: str, wanted: Sequence[int] | None, known: Sequence[int]) -> list[int]:
    for index in wanted or ():
        if index not in known:
            of = f"of {len(known)} {kind}s" if len(known) > 1 else f"the only {kind}"
            raise InputError.of(got(index, f"expected {in_ranges(known)}, {of}"), [kind.split()[0]])
    return list(dict.fromkeys(wanted or known))


def _panel(matrices: Matrices, label: str, stack: Tensor, batch: int, head: int, numbers: Sequence[int]) -> Panel:
    (batches, heads, n, m), index = stack.shape, numbers.index(head)
    values, valid = stack[batch, index], None
    if matrices.valid is not None:
        valid = four_axes(matrices.valid.expand(matrices.tensors[label].shape))[batch, index]
        valid = unmasked(values, valid, matrices.stage)
    has_number = heads > 1 or matrices.heads is not None
    row_name = ", ".join([f"batch {batch}"] * (batches > 1) + [f"head {head}"] * has_number)
    queries, keys = _names(matrices.tokens.queries, batch, n), _names(matrices.tokens.keys, batch, m)
    quantity = QUANTITIES.get(matrices.stage, printable(matrices.stage))
    return Panel(printable(label), row_name, (batch, head), values, valid, queries, keys, quantity=quantity)


def unmasked(values: Tensor, valid: Tensor, stage: str) -> Tensor:
    """Return the mask of the cells to show: the valid ones, and nonzero weights of queries without valid keys."""
    return valid | (~valid.any(-1, keepdim=True) & (values != 0)) if stage in WEIGHTS else valid


def _names(names: Names | None, batch: int, count: int) -> tuple[str, ...] | range:
    if names is None:
        return range(count)
    return tuple(shortened(printable(token), LONGEST_TOKEN) for token in names[batch])


def zoom(panels: Sequence[Panel], look: HeatmapLook) -> list[Panel]:
    """Return the panels cut to the ranges of queries and keys in the look.

    Raises:
        InputError: a range begins after the last query or key.
    """
    if look.queries is None and look.keys is None:
        return list(panels)
    rows, columns = (slice(*range_ends(text or ":")) for text in (look.queries, look.keys))
    zoomed = []
    for panel in panels:
        check_ranges(look, *panel.values.shape)
        valid = None if panel.valid is None else panel.valid[rows, columns]
        values = panel.values[rows, columns]
        zoomed.append(replace(panel, values=values, valid=valid, queries=panel.queries[rows], keys=panel.keys[columns]))
    return zoomed


def differences(panels: Sequence[Panel], label: str) -> list[Panel]:
    """Return the panels of all other labels, each minus the panel of `label` with the same batch element and head.

    Raises:
        InputError: there is no other label, or `label` has no panel of the same shape somewhere.
    """
    base = {panel.row_name: panel for panel in panels if panel.label == printable(label)}
    changes = list[Panel]()
    for panel in panels:
        other = base.get(panel.row_name)
        if other is None or other.values.shape != panel.values.shape:
            has = f"a matrix {list(other.values.shape)}" if other else "none"
            expected = f"expected one of shape {list(panel.values.shape)} to subtract from {panel.label}"
            raise InputError.of(
                got(label, f"has {has}{panel.row_name and f' at {panel.row_name}'}; {expected}"), ["minus"]
            )
        if panel is not other:
            changes.append(subtracted(panel, other))
    if not changes:
        raise InputError.of(got(label, "the only scorer; expected one beside it, to subtract from"), ["minus"])
    return changes


def subtracted(panel: Panel, other: Panel) -> Panel:
    """Return the panel minus another, masked where both are."""
    valid = None if panel.valid is None or other.valid is None else panel.valid | other.valid
    return replace(panel, valid=valid, minus=other.values)


def block_means(
    values: Tensor, valid: Tensor | None, down: int, across: int, minus: Tensor | None = None
) -> np.ma.MaskedArray[Any, Any]:
    """Return the means of a matrix (n, m), or of its difference from `minus`, over blocks of `down` x `across` cells.

    Blocks at the lower and right edges may be smaller. Only valid cells count: a block without any is masked, and a
    block with a valid NaN is NaN. Means are computed in float64.
    """
    height = down * max(1, BAND_CELLS // (values.shape[1] * down))  # whole blocks
    means, covered = [], []
    for start in range(0, len(values), height):
        rows = slice(start, start + height)
        cells = values[rows].cpu().double()
        band = cells if minus is None else cells - minus[rows].cpu().double()
        inside = torch.ones_like(cells, dtype=torch.bool) if valid is None else valid[rows].cpu()
        sums, shares = (
            avg_pool2d(each.double()[None], (down, across), ceil_mode=True)[0]
            for each in (band.where(inside, 0), inside)
        )
        means.append(sums / shares)
        covered.append(shares > 0)
    mask = ~torch.cat(covered)
    return np.ma.MaskedArray(torch.cat(means).masked_fill(mask, 0.0).numpy(), mask=mask.numpy())


@dataclass(frozen=True)
class Heatmap:
    """The content of a picture of matrices, independent of its page.

    `stage` is the stage of attention, if the matrices are of one. `sides` are the labels of the vertical and of the
    horizontal axes, `name` is the name of the file in notes, and `about` is the question of the experiment.
    """

    panels: Sequence[Panel]
    title: str
    stage: str = ""
    sides: tuple[str, str] = ("Queries", "Keys")
    name: str = "heatmaps"
    about: str | None = None

    @property
    def is_difference(self) -> bool:
        """Whether panels show differences."""
        return any(panel.minus is not None for panel in self.panels)

    def groups(self, look: HeatmapLook) -> list[tuple[str, str | int]]:
        """Return a name for each panel; panels with the same name share a colour scale."""
        by = look.scale or ("label" if self.stage in SCORES and not self.is_difference else "shared")
        names: list[str | int] = [
            panel.label if by == "label" else index if by == "panel" else "" for index, panel in enumerate(self.panels)
        ]
        return [(panel.quantity, name) for panel, name in zip(self.panels, names, strict=True)]
