"""The matrices of a run as JSON: the data of the page's script, for the study `attention`.

The JSON of a view is a mapping with these keys:

- `title`: the layers, where a run has several views; else empty.
- `labels`, and for each of them `formulas`. `isPair` says that the labels are two runs of one scorer.
- `axes`: mappings with `name` (batch, layer or head) and `names`, one for each index. `start` has an index for each of
  them, for the row and for the column: the cell where labels differ most, in the layer and head that a finding names.
- `n`, `m`: rows and columns of every matrix. `unit` is `cell`, or `block` where a number is the mean of several cells.
- `rows`: `title` and `name` of the rows: queries, or batch elements or heads with a single query each.
- `tokens`: `queries` and `keys`, each null or a mapping: `names` are different lists of names, and `list` has the index
  of the list for each batch element and layer, the layers fastest.
- `findings`: the findings that name a label, a layer or a head of the view: `index`, `label` (an index or null) and
  `place`, a mapping from axes to indices.
- `notes`: sentences about numbers that are rounded, averaged or left out.
- `stages`: mappings with `name`, `labels` (indices of the labels that have the stage), `scales` (the key of a colour
  scale for each of them), `difference` (the key of the scale of differences between labels), `bytes` of a number (4:
  float32, 2: float16) and `data`, the matrices by label, batch element, layer and head in base64. All bits of a masked
  cell are 1.

The colour scales of a page are a mapping by keys: one for all weights, one for all scores of a scorer, so that equal
numbers of two runs have equal colours. A scale has `edges` (base64 of the 255 limits between 256 colours, as
float32), `isBelow` and `isAbove` (whether values lie beyond an end), `ticks` (pairs of a share of the bar and a text),
`label`, `decimals` of numbers in cells (null: an exponent), and `isDiverging`, which chooses the colours.
"""

import base64
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attncli.config.looks import HeatmapLook
from attncli.core.numbers import cell_decimals, exact
from attncli.errors import printable, shortened
from attncli.models.call import four_axes
from attncli.results import STAGES, Names, Result, Row, tensor_name
from attncli.show.pictures.matrices import block_means, unmasked
from attncli.show.pictures.scales import QUANTITIES, SCORES, WEIGHTS, ColourScale, colour_scale, difference_name

DRAWN = STAGES[:-1]  # matrices of queries and keys
EXACT = 0.3  # share of the most cells up to which numbers are float32; beyond it they are float16
LARGEST_HALF = 65504.0  # of float16
LEAST_SIDE = 32  # rows and columns of a matrix; beyond that batch elements are left out
LONGEST_TOKEN = 200  # characters
COLOURS = 256
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)  # shares of a colour bar
ROWS = {"batch": "Batch elements", "head": "Heads", "query": "Queries"}  # titles of rows by their name
Numbers = np.ma.MaskedArray[Any, np.dtype[np.float32]]  # (batch, layer, head, n, m)


@dataclass(frozen=True)
class View:
    """Matrices of one size. `content` is the view's JSON but for `stages`, whose numbers are here by stage and label.

    `scorer` is the scorer of all labels where these are two runs.
    """

    content: Row
    labels: Sequence[str]
    stages: Mapping[str, Mapping[str, Numbers]]
    scorer: str | None = None

    def scale_key(self, stage: str, label: str, look: HeatmapLook) -> str:
        """Return the key of the colour scale of matrices: the stage and, for scores or by the look, the scorer."""
        scale = look.scale or ("label" if stage in SCORES else "shared")
        return stage if scale == "shared" else f"{stage}/{self.scorer or label}"


def views(result: Result, most: int, scorer: str | None = None) -> Iterator[View]:
    """Yield the views of a run, with `most` cells at most: one for all layers with matrices of the same size.

    `scorer` is the scorer of all labels where these are two runs.
    """
    groups: dict[str, list[str | None]] = {}
    for layer in result.layer_names:
        valid = result.inputs.get(tensor_name("valid", layer=layer))
        if valid is not None and (stages := _stages(result, layer)):
            alike = valid.shape, stages, result.head_numbers(layer)
            groups.setdefault(str(alike), []).append(layer)
    for layers in groups.values():
        title = printable(", ".join(map(str, layers))) if len(groups) > 1 else ""
        yield _view(result, layers, most // len(groups), title, scorer)


def _stages(result: Result, layer: str | None) -> dict[str, list[str]]:
    """Return the labels with stored matrices, by stage; stages without any are left out."""
    stored = {
        stage: [label for label in result.labels if tensor_name(label, stage, layer=layer) in result.tensors]
        for stage in DRAWN
        if result.keeps(stage)
    }
    return {stage: labels for stage, labels in stored.items() if labels}


def _view(result: Result, layers: Sequence[str | None], most: int, title: str, scorer: str | None) -> View:
    """Return the view of layers with matrices of one size, in `most` cells at most."""
    labels, first = _stages(result, layers[0]), result.inputs[tensor_name("valid", layer=layers[0])]
    whole = four_axes(first)
    tokens = {side: [getattr(result.tokens_in(layer), side) for layer in layers] for side in ("queries", "keys")}
    row = _row(whole.shape, tokens["keys"])
    names = {
        "batch": list(map(str, range(whole.shape[0]))),
        "layer": [printable(str(layer)) for layer in layers],
        "head": list(map(str, result.head_numbers(layers[0]) or range(whole.shape[1]))),
    }
    absent = ["layer"] * (layers == [None]) + ["head"] * (first.ndim < 4)
    if row != "query":
        rows = names[row]
        tokens["queries"] = [
            [rows] if row == "head" else _batch_names(rows, of_layer) for of_layer in tokens["queries"]
        ]
        names[row] = [""]
        absent.append(row)
    axis = ("batch", "head", "query").index(row)
    batches, heads, n, m = whole.transpose(axis, 2).shape
    matrices = sum(map(len, labels.values())) * len(layers) * heads  # of a batch element
    elements, step = _fitted(batches, matrices, (n, m), most)
    blocks = min(step, n), min(step, m)

    stages, is_double = _matrices(result, layers, labels, axis, elements, blocks)
    width = 4 if _cells(elements * matrices, (n, m), step) <= EXACT * most else 2
    names["batch"] = names["batch"][:elements]
    axes = {name: values for name, values in names.items() if name not in absent}
    findings = list(_findings(result, axes))
    place: dict[str, int] = next((finding["place"] for finding in findings if finding["place"]), {})
    start = _start(stages.get("weights") or next(iter(stages.values())), [place.get(name) for name in names])
    content = {
        "title": title,
        "isPair": scorer is not None,
        "labels": list(map(printable, result.labels)),
        "formulas": [printable(formula) if formula else "" for formula in map(result.formulas.get, result.labels)],
        "axes": [{"name": name, "names": values} for name, values in axes.items()],
        "start": [index for name, index in zip([*names, "row", "key"], start, strict=True) if name not in absent],
        "n": math.ceil(n / step),
        "m": math.ceil(m / step),
        "unit": "cell" if step == 1 else "block",
        "rows": {"name": row, "title": ROWS[row]},
        "tokens": {
            "queries": _tokens(tokens["queries"], n, blocks[0], elements),
            "keys": _tokens(tokens["keys"], m, blocks[1], elements),
        },
        "findings": findings,
        "notes": list(_notes(elements, batches, blocks, (n, m), width, is_double)),
        "bytes": width,
    }
    return View(content, result.labels, stages, scorer)


def _matrices(
    result: Result,
    layers: Sequence[str | None],
    labels: Mapping[str, Sequence[str]],
    axis: int,
    elements: int,
    blocks: tuple[int, int],
) -> tuple[dict[str, dict[str, Numbers]], bool]:
    """Return the numbers of the first batch elements by stage and label, and whether some of them are float64.

    `labels` has the labels by stage, `axis` is the axis of the rows: 2 for queries, 0 or 1 for batch elements or heads.
    """

    def stack(tensors: Mapping[str, Tensor], *name: str) -> Tensor:
        """Return a tensor of all layers as (batch elements, layers, heads, n, m)."""
        by_layer = (tensors[tensor_name(*name, layer=layer)].detach().cpu() for layer in layers)
        return torch.stack([four_axes(tensor).transpose(axis, 2)[:elements] for tensor in by_layer], 1)

    valid, is_double = stack(result.inputs, "valid"), False
    stages = dict[str, dict[str, Numbers]]()
    for stage, of_stage in labels.items():
        for label in of_stage:
            tensor = stack(result.tensors, label, stage)
            stages.setdefault(stage, {})[label] = _numbers(tensor, unmasked(tensor, valid, stage), blocks)
            is_double |= tensor.dtype == torch.float64
    return stages, is_double


def _cells(matrices: int, size: tuple[int, int], step: int) -> int:
    """Return the number of cells of matrices of a size in blocks of `step` rows and columns."""
    return matrices * math.ceil(size[0] / step) * math.ceil(size[1] / step)


def _fitted(batches: int, matrices: int, size: tuple[int, int], most: int) -> tuple[int, int]:
    """Return the number of batch elements that fit in `most` cells, and the rows and columns of a block.

    A batch element has `matrices` matrices of this size. Batch elements are left out first, until matrices of
    LEAST_SIDE rows and columns have room; blocks make room for all heads.
    """
    elements = max(1, min(batches, most // (matrices * min(size[0], LEAST_SIDE) * min(size[1], LEAST_SIDE))))
    step = 1
    while step < max(size) and _cells(elements * matrices, size, step) > most:
        step += 1
    return elements, step


def _row(shape: Sequence[int], keys: Sequence[Names | None]) -> str:
    """Return the name of the rows of matrices (b, heads, n, m), as in pictures.

    Single queries are joined: rows are batch elements if there is one head, else heads. `keys` has the tokens of keys
    by layer, which must be equal in all batch elements then.
    """
    batches, heads, n, _ = shape
    if n > 1 or batches * heads == 1 or any(len({*map(tuple, names or ())}) > 1 for names in keys):
        return "query"
    return "batch" if heads == 1 else "head"


def _notes(
    elements: int, batches: int, blocks: tuple[int, int], size: tuple[int, int], width: int, is_double: bool
) -> Iterator[str]:
    """Yield sentences about numbers that are left out, averaged or rounded."""
    if elements < batches:
        yield f"The first {elements} of {batches} batch elements are here."
    if blocks != (1, 1):
        block = f"{blocks[0]} by {blocks[1]} cells of the run's {size[0]} by {size[1]}"
        yield f"Each cell is a block of {block}: the mean of the unmasked ones."
    if width == 2:
        yield "Numbers are rounded to float16: at most 0.05 % off, or 3e-8."
    elif is_double:
        yield "The run has float64; these numbers are rounded to float32."


def _findings(result: Result, axes: Mapping[str, Sequence[str]]) -> Iterator[Row]:
    """Yield the findings that name a label, or a batch element, layer or head, which is in `axes` with its name."""
    for index, finding in enumerate(result.findings):
        places = {axis: printable(str(finding.numbers[axis])) for axis in axes if finding.numbers.get(axis) is not None}
        label = finding.label or finding.numbers.get("a")
        if (places or label in result.labels) and all(name in axes[axis] for axis, name in places.items()):
            yield {
                "index": index,
                "label": result.labels.index(label) if label in result.labels else None,
                "place": {axis: axes[axis].index(name) for axis, name in places.items()},
            }


def _numbers(values: Tensor, is_unmasked: Tensor, blocks: tuple[int, int]) -> Numbers:
    """Return matrices averaged over blocks in float32, with all other cells masked."""
    if blocks == (1, 1):
        return np.ma.MaskedArray(values.float().numpy(), mask=~is_unmasked.numpy())
    means = [block_means(*pair, *blocks) for pair in zip(values.flatten(0, 2), is_unmasked.flatten(0, 2), strict=True)]
    size = (*values.shape[:3], *means[0].shape)
    data, mask = (np.reshape(arrays, size) for arrays in zip(*((each.data, each.mask) for each in means), strict=True))
    return np.ma.MaskedArray(data.astype(np.float32), mask=mask)


def _batch_names(rows: Sequence[str], queries: Names | None) -> Sequence[Sequence[str]]:
    """Return the names of batch elements as rows, with the tokens of their single queries where these differ."""
    if not queries or len({names[0] for names in queries}) < 2:
        return [rows]
    return [[f"{row} {names[0]}" for row, names in zip(rows, queries, strict=True)]]


def _tokens(by_layer: Sequence[Names | None], size: int, step: int, batches: int) -> Row | None:
    """Return the names of rows or columns, in blocks of `step`; None if they have no names and `step` is 1."""
    if step == 1 and all(tokens is None for tokens in by_layer):
        return None
    by_position = [tokens or [list(map(str, range(size)))] for tokens in by_layer]
    rows = [tuple(tokens[min(batch, len(tokens) - 1)]) for batch in range(batches) for tokens in by_position]
    names = list(dict.fromkeys(rows))
    ends = [(first, min(first + step, size) - 1) for first in range(0, size, step)]
    short = [[printable(shortened(name, LONGEST_TOKEN)) for name in row] for row in names]
    blocks = [[row[a] if a == b else f"{row[a]} … {row[b]}" for a, b in ends] for row in short]
    return {"names": blocks, "list": [names.index(row) for row in rows]}


def _spread(by_label: Mapping[str, Numbers]) -> Numbers:
    """Return the largest difference between labels in each cell, masked where all are; of one label its numbers.

    A masked number counts as 0 beside an unmasked one.
    """
    numbers = np.ma.stack(list(by_label.values()))
    with np.errstate(invalid="ignore", over="ignore"):
        values = numbers.filled(0.0)
        spread = values.max(0) - values.min(0) if len(values) > 1 else values[0]
    return np.ma.MaskedArray(spread, mask=np.ma.getmaskarray(numbers).all(0))


def _start(by_label: Mapping[str, Numbers], indices: Sequence[int | None]) -> list[int]:
    """Return the indices (batch, layer, head, row, column) of the cell where labels differ most, or of the largest.

    `indices` has the batch element, layer and head that a finding names; None without a name.
    """
    spread = _spread(by_label)
    largest = np.where(np.isfinite(spread.data), spread.filled(-np.inf), -np.inf)
    for axis, index in enumerate(indices):
        largest = largest if index is None else largest.take([index], axis)
    place = np.unravel_index(largest.argmax(), largest.shape)
    return [int(first) if index is None else index for index, first in zip([*indices, None, None], place, strict=True)]


def described(all_views: Sequence[View], look: HeatmapLook) -> tuple[list[Row], dict[str, Row]]:
    """Return the JSON of all views of a page, and their colour scales by key: one for numbers of one kind.

    `look` may choose the kind of scale, the end of the colours of weights, and a scale of its own for each label.
    """
    values, spreads, largest = dict[str, list[Numbers]](), dict[str, list[Numbers]](), dict[str, float]()
    for view in all_views:
        for stage, by_label in view.stages.items():
            for label, numbers in by_label.items():
                values.setdefault(view.scale_key(stage, label, look), []).append(numbers)
                largest[stage] = max(largest.get(stage, 0.0), _largest(numbers))
            if len(by_label) > 1:
                spreads.setdefault(stage, []).append(_spread(by_label))
    scales = dict[str, Row]()
    for key, group in values.items():
        stage = key.partition("/")[0]
        high = look.vmax if stage in WEIGHTS else None
        scale = colour_scale([numbers.compressed() for numbers in group], stage, kind=look.colours, high=high)
        scales[key] = _scale(scale, QUANTITIES[stage], largest[stage])
    for stage, group in spreads.items():
        both = [sign * numbers.compressed() for numbers in group for sign in (1, -1)]
        scale = colour_scale(both, stage, is_difference=True, kind=look.colours)
        scales[f"{stage}-"] = _scale(scale, difference_name(QUANTITIES[stage]), max(map(_largest, group)))
    return [
        {**view.content, "id": f"view-{i}", "stages": list(_rows(view, look))} for i, view in enumerate(all_views)
    ], scales


def _largest(numbers: Numbers) -> float:
    """Return the largest finite size of the numbers, 0 without any."""
    sizes = np.abs(numbers.compressed())
    return float(sizes[np.isfinite(sizes)].max(initial=0.0))


def _rows(view: View, look: HeatmapLook) -> Iterator[Row]:
    """Yield the stages of a view with their numbers, in float32 where float16 has no numbers that large."""
    for stage, by_label in view.stages.items():
        width = view.content["bytes"] if max(map(_largest, by_label.values())) <= LARGEST_HALF else 4
        yield {
            "name": stage,
            "labels": [view.labels.index(label) for label in by_label],
            "scales": [view.scale_key(stage, label, look) for label in by_label],
            "difference": f"{stage}-",
            "bytes": width,
            "data": _encoded(by_label.values(), width),
        }


def _scale(scale: ColourScale, quantity: str, largest: float) -> Row:
    shares = np.linspace(0, 1, COLOURS + 1)[1:-1]
    edges = np.asarray(scale.norm.inverse(shares))
    return {
        "edges": base64.b64encode(edges.astype("<f4").tobytes()).decode(),
        "isBelow": scale.extend in ("min", "both"),
        "isAbove": scale.extend in ("max", "both"),
        "ticks": [[share, exact(float(scale.norm.inverse(share)), 3)] for share in TICKS],
        "label": scale.label(quantity),
        "decimals": cell_decimals(largest),
        "isDiverging": scale.is_diverging,
    }


def _encoded(group: Iterable[Numbers], width: int) -> str:
    """Return matrices in base64, one after another. All numbers that are NaN have the same bits."""
    packed = []
    for numbers in group:
        values = np.where(np.isnan(numbers.data), np.float32(np.nan), numbers.data).astype(f"<f{width}")
        words = values.view(f"<u{width}")
        words[np.ma.getmaskarray(numbers)] = np.iinfo(words.dtype).max
        packed.append(words.tobytes())
    return base64.b64encode(b"".join(packed)).decode()
