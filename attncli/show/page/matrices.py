"""The matrices of a run as JSON: the data of the page's script, for the study `attention`.

A view is a mapping with these keys:

- `title`: the layers, where a run has several views; else empty.
- `start`: indices of `axes`: the matrices shown at first, of the first layer and head that a finding names, or where
  scorers differ most. Weights decide if the run has them, else its first stage.
- `findings`: the findings that name a label, a layer or a head of the view: `index`, `label` (an index or null) and
  `place`, a mapping from axes to indices.
- `notes`: sentences about numbers that are rounded, averaged or left out.
- `command`: the command that draws the run as a picture, without options, or null.
- `labels`, and for each of them `formulas`, and `looks`: the colours in the light and in the dark theme.
- `axes`: mappings with `name` (batch, layer or head) and `names`, one for each index.
- `n`, `m`: rows and columns of every matrix. `unit` is `cell`, or `block` where a number is the mean of several cells.
- `tokens`: `queries` and `keys`, each null or a mapping: `names` are different lists of names, and `list` has the index
  of the list for each batch element and layer, the layers fastest.
- `stages`: mappings with `name`, `labels` (indices of the labels that have the stage) and `scales`. These are
  mappings for each choice of colours ("", linear, root, log): `values` has one scale for all of `labels`, or one for
  each; `differences` has the scales of differences from each of `labels`. A scale has `edges` (base64 of the 255
  limits between 256 colours, as float32), `isBelow` and `isAbove` (whether values lie beyond an end), `ticks` (pairs
  of a place along the bar and a text), `label`, `decimals` of numbers in cells (null: an exponent), and `diverging`,
  which chooses the colours.
- `bytes`: 4 for numbers in float32, 2 for numbers in bfloat16, which is the upper half of float32.
- `data`: all matrices, by stage, label and place, the last axis fastest: base64 of zlib of the lowest byte of all
  numbers, then of the next byte of all numbers, and so on. All bits of a masked cell are 1.
"""

import base64
import itertools
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attncli.errors import printable, shortened
from attncli.numbers import cell_decimals, exact
from attncli.results import STAGES, Result, Row, tensor_name
from attncli.show.pictures.looks import looks_of
from attncli.show.pictures.matrices import block_means, unmasked
from attncli.show.pictures.scales import QUANTITIES, SCORES, ColourScale, Kind, colour_scale, difference_of

DRAWN = STAGES[:-1]  # matrices of queries and keys
EXACT, ROUNDED = 4, 2  # bytes of a number
TEXT = {EXACT: 5.0, ROUNDED: 1.67}  # bytes of a number in the page, about
LEAST_SIDE = 32  # rows and columns of a matrix; beyond that batch elements are left out
MASKED = np.uint32(0xFFFFFFFF)
LONGEST_TOKEN = 200  # characters
COLOURS = 256
KINDS: dict[str, Kind | None] = {"": None, "linear": "linear", "root": "root", "log": "log"}
SIDES = ("queries", "keys")
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)  # places along a colour bar
Array = npt.NDArray[Any]
Numbers = tuple[Array, Array]  # matrices, and which of their cells are unmasked


def views(result: Result, budget: int, command: str | None) -> Iterator[Row]:
    """Yield the views of a run, in about `budget` bytes: one for all layers with matrices of the same size."""
    groups: dict[str, list[str | None]] = {}
    for layer in result.layer_names:
        valid = result.inputs.get(tensor_name("valid", layer=layer))
        if valid is not None and (stages := _stages(result, layer)):
            alike = valid.shape, stages, result.head_numbers(layer)
            groups.setdefault(str(alike), []).append(layer)
    for layers in groups.values():
        title = printable(", ".join(map(str, layers))) if len(groups) > 1 else ""
        yield {"title": title, "command": command, **_view(result, layers, budget // len(groups))}


def _stages(result: Result, layer: str | None) -> dict[str, list[str]]:
    """Return the labels with stored matrices, by stage; stages without any are left out."""
    there = {
        stage: [label for label in result.labels if tensor_name(label, stage, layer=layer) in result.tensors]
        for stage in DRAWN
        if result.keeps(stage)
    }
    return {stage: labels for stage, labels in there.items() if labels}


def _view(result: Result, layers: Sequence[str | None], budget: int) -> Row:
    stages = _stages(result, layers[0])
    *leading, n, m = result.inputs[tensor_name("valid", layer=layers[0])].shape
    batches, heads = (leading[0] if leading else 1), math.prod(leading[1:])
    count = sum(map(len, stages.values()))
    of_batch = count * len(layers) * heads * min(n, LEAST_SIDE) * min(m, LEAST_SIDE)
    shown = max(1, min(batches, math.floor(budget / TEXT[ROUNDED] / of_batch)))

    def stack(tensors: Mapping[str, Tensor], *name: str) -> Tensor:
        """Return a tensor of all layers as (batch elements, layers, heads, n, m), with the batch elements shown."""
        of_layers = (tensors[tensor_name(*name, layer=layer)].detach().cpu() for layer in layers)
        return torch.stack([tensor.reshape(batches, heads, n, m)[:shown] for tensor in of_layers], 1)

    valid = stack(result.inputs, "valid")
    cells = int(valid.sum()) * count
    width = EXACT if cells * TEXT[EXACT] <= budget else ROUNDED
    blocks = _blocks(cells * TEXT[ROUNDED] / budget, n, m)
    numbers, described, is_double = dict[str, list[Numbers]](), list[Row](), False
    for stage, labels in stages.items():
        tensors = [stack(result.tensors, label, stage) for label in labels]
        is_double = is_double or tensors[0].dtype == torch.float64
        numbers[stage] = [_numbers(tensor, unmasked(tensor, valid, stage), blocks, width) for tensor in tensors]
        scales = {kind: _scales(numbers[stage], stage, value) for kind, value in KINDS.items()}
        described.append({"name": stage, "labels": [result.labels.index(label) for label in labels], "scales": scales})
    names = {
        "batch": range(shown),
        "layer": [printable(str(layer)) for layer in layers],
        "head": result.head_numbers(layers[0]) or range(heads),
    }
    absent = ["layer"] * (layers == [None]) + ["head"] * (len(leading) < 2)
    axes = {axis: list(map(str, values)) for axis, values in names.items() if axis not in absent}
    findings = list(_findings(result, axes))
    named: dict[str, int] = next((finding["place"] for finding in findings if finding["place"]), {})
    place = _start(numbers.get("weights") or next(iter(numbers.values())), [named.get(axis) for axis in names])
    sides, formulas = zip(SIDES, (n, m), blocks, strict=True), result.formulas
    return {
        "labels": list(map(printable, result.labels)),
        "formulas": [printable(formulas[label]) if formulas.get(label) else "" for label in result.labels],
        "looks": [[look.light, look.dark] for look in looks_of(result.labels, result.scorers).values()],
        "axes": [{"name": axis, "names": values} for axis, values in axes.items()],
        "n": math.ceil(n / blocks[0]),
        "m": math.ceil(m / blocks[1]),
        "unit": "cell" if blocks == (1, 1) else "block",
        "tokens": {side: _tokens(result, layers, side, size, step, shown) for side, size, step in sides},
        "stages": described,
        "bytes": width,
        "findings": findings,
        "start": [index for axis, index in zip(names, place, strict=True) if axis not in absent],
        "data": _encoded(list(itertools.chain(*numbers.values())), width),
        "notes": list(_notes(shown, batches, blocks, (n, m), width, is_double)),
    }


def _notes(
    shown: int, batches: int, blocks: tuple[int, int], size: tuple[int, int], width: int, is_double: bool
) -> Iterator[str]:
    """Yield sentences about numbers that are left out, averaged or rounded."""
    if shown < batches:
        yield f"The first {shown} of {batches} batch elements are here."
    if blocks != (1, 1):
        block = f"{blocks[0]} by {blocks[1]} cells of the run's {size[0]} by {size[1]}"
        yield f"Each cell is a block of {block}: the mean of the unmasked ones."
    if width == ROUNDED:
        yield "Numbers are rounded to 8 significant bits: at most 0.2 % off."
    elif is_double:
        yield "The run has float64; these numbers are rounded to float32."


def _findings(result: Result, axes: Mapping[str, Sequence[str]]) -> Iterator[Row]:
    """Yield the findings that name a label, or a batch element, layer or head, which is in `axes` with its name."""
    for index, finding in enumerate(result.findings):
        named = {axis: printable(str(finding.numbers[axis])) for axis in axes if finding.numbers.get(axis) is not None}
        label = finding.label or finding.numbers.get("a")
        if (named or label in result.labels) and all(name in axes[axis] for axis, name in named.items()):
            indices = {axis: axes[axis].index(name) for axis, name in named.items()}
            yield {
                "index": index,
                "label": result.labels.index(label) if label in result.labels else None,
                "place": indices,
            }


def _blocks(ratio: float, n: int, m: int) -> tuple[int, int]:
    """Return the rows and columns of blocks that reduce the numbers of a matrix (n, m) at least `ratio` times."""
    down = min(n, max(1, math.ceil(math.sqrt(ratio))))
    across = min(m, max(1, math.ceil(ratio / down)))
    return min(n, max(1, math.ceil(ratio / across))), across


def _numbers(values: Tensor, shown: Tensor, blocks: tuple[int, int], width: int) -> Numbers:
    """Return matrices averaged over blocks and rounded to `width` bytes, and which of their cells are shown."""
    if blocks != (1, 1):
        means = [block_means(*pair, *blocks) for pair in zip(values.flatten(0, 2), shown.flatten(0, 2), strict=True)]
        size = (*values.shape[:3], *means[0].shape)
        values = torch.from_numpy(np.stack([cells.data for cells in means])).reshape(size)
        shown = torch.from_numpy(np.stack([~np.ma.getmaskarray(cells) for cells in means])).reshape(size)
    rounded = values.float() if width == EXACT else values.bfloat16().float()
    return rounded.numpy(), shown.numpy()


def _scales(numbers: Sequence[Numbers], stage: str, kind: Kind | None) -> Row:
    """Return the scales of the values, of each label for scores, and of the differences from each of several labels.

    The numbers in cells have the same decimals for all labels.
    """
    every = [values[shown] for values, shown in numbers]
    groups = [[matrix] for matrix in every] if stage in SCORES else [every]
    quantity = QUANTITIES[stage]
    differences = list[Row]()
    for base in numbers if len(numbers) > 1 else ():
        with np.errstate(invalid="ignore", over="ignore"):
            changes = [(other[0] - base[0])[other[1] | base[1]] for other in numbers if other is not base]
        scale = colour_scale(changes, stage, is_difference=True, kind=kind)
        differences.append(_scale(scale, difference_of(quantity), changes))
    values = [_scale(colour_scale(group, stage, kind=kind), quantity, every) for group in groups]
    return {"values": values, "differences": differences}


def _scale(scale: ColourScale, quantity: str, numbers: Sequence[Array]) -> Row:
    shares = np.linspace(0, 1, COLOURS + 1)
    values = np.asarray(scale.norm.inverse(shares))
    return {
        "edges": base64.b64encode(values[1:-1].astype("<f4").tobytes()).decode(),
        "isBelow": scale.extend in ("min", "both"),
        "isAbove": scale.extend in ("max", "both"),
        "ticks": [[share, exact(float(scale.norm.inverse(share)), 3)] for share in TICKS],
        "label": scale.label(quantity),
        "decimals": cell_decimals(
            max(float(np.abs(matrix[np.isfinite(matrix)]).max(initial=0.0)) for matrix in numbers)
        ),
        "diverging": scale.is_diverging,
    }


def _tokens(result: Result, layers: Sequence[str | None], of: str, size: int, step: int, batches: int) -> Row | None:
    """Return the names of queries or keys, joined in blocks of `step`; None if they have no names and `step` is 1."""
    by_layer = [getattr(result.tokens_in(layer), of) for layer in layers]
    if step == 1 and all(tokens is None for tokens in by_layer):
        return None
    by_layer = [tokens or [list(map(str, range(size)))] for tokens in by_layer]
    rows = [tuple(tokens[min(batch, len(tokens) - 1)]) for batch in range(batches) for tokens in by_layer]
    names = list(dict.fromkeys(rows))
    ends = [(first, min(first + step, size) - 1) for first in range(0, size, step)]
    shown = [[printable(shortened(name, LONGEST_TOKEN)) for name in row] for row in names]
    blocks = [[row[a] if a == b else f"{row[a]} … {row[b]}" for a, b in ends] for row in shown]
    return {"names": blocks, "list": [names.index(row) for row in rows]}


def _start(numbers: Sequence[Numbers], named: Sequence[int | None]) -> list[int]:
    """Return the indices (batch, layer, head) of the matrix where labels differ most, or of a label's largest number.

    `named` are the indices that a finding names.
    """
    values, shown = (np.stack(parts) for parts in zip(*numbers, strict=True))
    known = shown & np.isfinite(values)
    high = np.where(known, values, -np.inf).max(0)
    low = np.where(known, values, np.inf).min(0) if len(numbers) > 1 else 0.0
    with np.errstate(over="ignore"):
        largest = (high - low).max((-2, -1))  # batch layer head
    for axis, index in enumerate(named):
        largest = largest if index is None else largest.take([index], axis)
    place = np.unravel_index(largest.argmax(), largest.shape)
    return [int(first) if index is None else index for index, first in zip(named, place, strict=True)]


def _encoded(numbers: Sequence[Numbers], width: int) -> str:
    words = [np.where(np.isnan(values), np.float32(np.nan), values).view("<u4") for values, _ in numbers]
    words = [np.where(shown, matrix, MASKED) for matrix, (_, shown) in zip(words, numbers, strict=True)]
    planes = np.concatenate([matrix.ravel() for matrix in words]).astype("<u4").view(np.uint8).reshape(-1, EXACT).T
    packer = zlib.compressobj(strategy=zlib.Z_RLE)  # digits do not repeat, masked cells do
    packed = [packer.compress(plane.tobytes()) for plane in planes[EXACT - width :]]
    return base64.b64encode(b"".join([*packed, packer.flush()])).decode()
