"""The matrices of a run as JSON: what the script shows of the study `attention`.

A view is a mapping with these keys. Its numbers are those of the tensors bit for bit, unless `notes` says otherwise.

- `title`: which layers it has, where several views share a run; else empty.
- `notes`: sentences that belong below the view: what is rounded, joined or left out.
- `command`: what draws the run as a picture, up to its options; null where that cannot be done.
- `labels`, `stages`: in their order.
- `axes`: mappings with `name` (batch, layer, head), `size` and `names`, one for each index: the names of layers, the
  numbers of batch elements and heads.
- `start`: the index of each axis at which scorers differ most.
- `n`, `m`: rows and columns of every matrix, fewer than in the run where cells are joined to blocks; `unit` says which.
- `bits`: of a number's mantissa that are kept; 23 are all.
- `tokens`: `queries` and `keys`, each null or lists of names; one list for each batch element, or one for all.
- `masks`: distinct masks, row by row a bit for each cell, 1 where it is shown; `mask`: the index of each place's mask.
- `matrices`: by stage and label one text for each place, in the order of the axes, the last one fastest.

All texts are base64 of zlib's format. A matrix is row by row float32, each bit pattern rotated to the left by one, so
that its sign comes last; then the first bytes of all numbers (the lowest), their second ones, and so on. Masked cells
are 0.
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

from attncli.common.study import STAGES, Record, Result, is_kept, layers_of, tensor_name, tokens_of
from attncli.errors import printable, shortened
from attncli.numbers import number
from attncli.show.matrices import block_means

DRAWN = STAGES[:-1]  # matrices of queries and keys
EXACT = 23  # bits of a float32's mantissa
BITS = (EXACT, 16, 12, 10, 8, 7)  # the first that fits
CELL = 1.67  # bytes of a cell in the page, with the fewest bits
LEAST_SIDE = 32  # rows and columns that a matrix keeps, if it has so many; of more matrices the last are left out
LONGEST_TOKEN = 200  # characters
INFINITE = np.uint32(0x7F800000)  # the exponent of what is not finite
Place = tuple[int, int, int]  # batch element, layer, head
Matrix = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]


def views(result: Result, budget: int, command: str | None) -> Iterator[Record]:
    """The views of a run, in about `budget` bytes: one, or for layers of several sizes one for each size; or none."""
    groups: dict[tuple[int, ...], list[str | None]] = {}
    for layer in layers_of(result):
        if (name := tensor_name("valid", layer=layer)) in result.inputs:
            groups.setdefault(tuple(result.inputs[name].shape), []).append(layer)
    for layers in groups.values():
        stack = _Stack(result, layers)
        if stack.stages:
            title = printable(", ".join(map(str, layers))) if len(groups) > 1 else ""
            yield {"title": title, "command": command, **stack.view(budget // len(groups))}


class _Stack:
    """The matrices of layers of one size, as (batch elements, heads, n, m) each; a run without layers has one, None."""

    def __init__(self, result: Result, layers: Sequence[str | None]) -> None:
        self.result, self.layers = result, layers
        *leading, self.n, self.m = result.inputs[tensor_name("valid", layer=layers[0])].shape
        self.is_axis = (True, layers != [None], len(leading) > 1)  # batch elements, layers, heads
        self.sizes = (leading[0] if leading else 1, len(layers), math.prod(leading[1:]))
        there = {
            stage: [label for label in result.labels if tensor_name(label, stage, layer=layers[0]) in result.tensors]
            for stage in DRAWN
            if is_kept(result, stage)
        }
        self.stages = {stage: labels for stage, labels in there.items() if labels}

    def view(self, budget: int) -> Record:
        """See the module."""
        count = sum(map(len, self.stages.values()))  # of matrices at one place
        least = min(self.n, LEAST_SIDE) * min(self.m, LEAST_SIDE)
        places = self._places(math.floor(budget / CELL / count / least))
        masks = self._masks(places)
        shares = [mask.sum().item() / mask.numel() for mask in masks.values()]
        side = longest = max(self.n, self.m)
        cells = self.n * self.m
        if sum(shares) * count * cells * CELL > budget:
            side = self._side(budget / CELL / count / sum(shares))
        while True:
            shown = {place: _blocks(mask, mask, side)[1] for place, mask in masks.items()}
            numbers = self._numbers(masks, side)
            matrices, bits = _packed(numbers, shown, budget)
            size = sum(len(text) for of in matrices.values() for texts in of.values() for text in texts)
            if size <= budget or side <= LEAST_SIDE:
                break
            step = math.ceil(longest / side)
            side = max(LEAST_SIDE, math.ceil(longest / max(step + 1, math.ceil(step * math.sqrt(size / budget)))))
        texts = [_base64(np.packbits(mask)) for mask in shown.values()]
        distinct = list(dict.fromkeys(texts))
        n, m = next(iter(shown.values())).shape
        return {
            "labels": list(map(printable, self.result.labels)),
            "stages": list(self.stages),
            "axes": self._axes(places),
            "start": list(itertools.compress(_most_different(numbers, shown), self.is_axis)),
            "n": n,
            "m": m,
            "unit": "cell" if (n, m) == (self.n, self.m) else "block",
            "bits": bits,
            "tokens": {side_: self._tokens(side_, places, side) for side_ in ("queries", "keys")},
            "masks": distinct,
            "mask": [distinct.index(text) for text in texts],
            "matrices": matrices,
            "notes": list(self._notes(places, (n, m), bits)),
        }

    def _places(self, most: int) -> list[Place]:
        """At most so many places: the first batch elements, or the first layers and heads of one."""
        batches, layers, heads = self.sizes
        batches = min(batches, max(1, most // (layers * heads)))
        layers = min(layers, max(1, most // (batches * heads)))
        heads = min(heads, max(1, most // (batches * layers)))
        return list(itertools.product(range(batches), range(layers), range(heads)))

    def _stacks(self, *name: str) -> Iterator[tuple[int, Tensor]]:
        """Every layer with a tensor as (batch elements, heads, n, m)."""
        tensors = self.result.inputs if name == ("valid",) else self.result.tensors
        batches, _, heads = self.sizes
        for index, layer in enumerate(self.layers):
            yield (
                index,
                tensors[tensor_name(*name, layer=layer)].detach().cpu().reshape(batches, heads, self.n, self.m),
            )

    def _masks(self, places: Sequence[Place]) -> dict[Place, Tensor]:
        """What is shown at each place: valid cells, and the weights of rows without any, by `empty_row`."""
        stacks = dict(self._stacks("valid"))
        masks = {(batch, layer, head): stacks[layer][batch, head] for batch, layer, head in places}
        if all(mask.any(-1).all() for mask in masks.values()):
            return masks
        for label in self.stages.get("weights", ()):
            for layer, weights in self._stacks(label, "weights"):
                for place in (place for place in places if place[1] == layer):
                    used = weights[place[0], place[2]] != 0
                    masks[place] = masks[place] | (used & ~stacks[layer][place[0], place[2]].any(-1, keepdim=True))
        return masks

    def _side(self, cells: float) -> int:
        """The most rows and columns with which a matrix has about so many cells."""
        fewest = min(self.n, self.m)
        return max(LEAST_SIDE, math.floor(math.sqrt(cells) if cells <= fewest**2 else cells / fewest))

    def _numbers(self, masks: Mapping[Place, Tensor], side: int) -> dict[str, dict[str, list[Matrix]]]:
        numbers: dict[str, dict[str, list[Matrix]]] = {}
        for stage, labels in self.stages.items():
            for label in labels:
                found: dict[Place, Matrix] = {}
                for layer, stack in self._stacks(label, stage):
                    for place in (place for place in masks if place[1] == layer):
                        found[place] = _blocks(stack[place[0], place[2]], masks[place], side)[0]
                numbers.setdefault(stage, {})[printable(label)] = [found[place] for place in masks]
        return numbers

    def _axes(self, places: Sequence[Place]) -> list[Record]:
        batches, layers, heads = (1 + max(indices) for indices in zip(*places, strict=True))
        names = {
            "batch": list(map(str, range(batches))),
            "layer": [printable(str(layer)) for layer in self.layers[:layers]],
            "head": list(map(str, range(heads))),
        }
        axes = [{"name": axis, "size": len(each), "names": each} for axis, each in names.items()]
        return list(itertools.compress(axes, self.is_axis))

    def _tokens(self, of: str, places: Sequence[Place], side: int) -> list[list[str]] | None:
        names, size = getattr(tokens_of(self.result, self.layers[0]), of), self.n if of == "queries" else self.m
        batches = 1 + max(batch for batch, *_ in places)
        step = math.ceil(size / side)
        if names is None and step == 1:
            return None
        rows = [[_clipped(name) for name in row] for row in names[:batches]] if names else [list(map(str, range(size)))]
        if step == 1:
            return rows
        ends = [(first, min(first + step, size) - 1) for first in range(0, size, step)]
        return [[row[a] if a == b else f"{row[a]} … {row[b]}" for a, b in ends] for row in rows]

    def _notes(self, places: Sequence[Place], shown: tuple[int, int], bits: int) -> Iterator[str]:
        counts = zip(("batch elements", "layers", "heads"), self.sizes, zip(*places, strict=True), strict=True)
        for name, size, indices in counts:
            if (there := 1 + max(indices)) < size:
                yield f"The first {there} of {size} {name} are here."
        if shown != (self.n, self.m):
            n, m = shown
            yield f"These are {n} by {m} blocks of {self.n} by {self.m} cells; each is the mean of its unmasked cells."
        if bits < EXACT:
            error = number(100 * 2.0 ** -(bits + 1), 2)
            yield f"Numbers are rounded to {bits + 1} significant bits: at most {error} % off."
        if any(
            self.result.tensors[tensor_name(label, stage, layer=self.layers[0])].dtype == torch.float64
            for stage, labels in self.stages.items()
            for label in labels[:1]
        ):
            yield "The run has float64; these numbers are rounded to float32."


def _most_different(numbers: Mapping[str, Mapping[str, Sequence[Matrix]]], shown: Mapping[Place, Mask]) -> Place:
    """The place with the cell in which scorers are farthest apart: in their weights, where there are any."""
    of_labels = numbers.get("weights") or next(iter(numbers.values()))
    with np.errstate(invalid="ignore", over="ignore"):
        spreads = [
            np.nan_to_num(np.where(mask, np.ptp(matrices, axis=0), 0)).max()
            for mask, *matrices in zip(shown.values(), *of_labels.values(), strict=True)
        ]
    return list(shown)[int(np.argmax(spreads))]


def _clipped(token: str) -> str:
    return printable(shortened(token, LONGEST_TOKEN))


def _blocks(values: Tensor, valid: Tensor, side: int) -> tuple[Matrix, Mask]:
    """A matrix (n, m) as it is, or as means of blocks, at most `side` by `side`; and which cells are not masked."""
    n, m = values.shape
    down, across = math.ceil(n / side), math.ceil(m / side)
    if down == across == 1:
        return values.float().numpy(), valid.numpy()
    means = block_means(values, valid, down, across)
    return means.data.astype(np.float32), ~np.ma.getmaskarray(means)


def _packed(
    numbers: Mapping[str, Mapping[str, Sequence[Matrix]]], masks: Mapping[Place, Mask], budget: int
) -> tuple[dict[str, dict[str, list[str]]], int]:
    """All matrices as text, with as many bits as fit, or the fewest."""
    for bits in BITS:
        texts = {
            stage: {
                label: [_text(matrix, mask, bits) for matrix, mask in zip(matrices, masks.values(), strict=True)]
                for label, matrices in of.items()
            }
            for stage, of in numbers.items()
        }
        if sum(len(text) for of in texts.values() for each in of.values() for text in each) <= budget:
            break
    return texts, bits


def _text(matrix: Matrix, mask: Mask, bits: int) -> str:
    """See the module; a number rounds to the nearest, and of two to the even one."""
    whole = np.where(mask, matrix, 0).astype("<f4").view("<u4")
    if dropped := EXACT - bits:
        half = np.uint32((1 << dropped - 1) - 1) + ((whole >> dropped) & 1)
        rounded, cut = (whole + half) >> dropped << dropped, whole >> dropped << dropped
        is_finite = ((whole & INFINITE) != INFINITE) & ((rounded & INFINITE) != INFINITE)
        whole = np.where(is_finite, rounded, cut)
    rotated = (whole << 1) | (whole >> 31)
    return _base64(rotated.astype("<u4").view(np.uint8).reshape(-1, 4).T)


def _base64(array: npt.NDArray[Any]) -> str:
    """The rows of an array of bytes; each has a code of its own, for what is likely in one is not in another."""
    packer = zlib.compressobj(strategy=zlib.Z_RLE)  # digits do not repeat, runs of masked cells do
    packed = [packer.compress(row.tobytes()) + packer.flush(zlib.Z_SYNC_FLUSH) for row in np.atleast_2d(array)]
    return base64.b64encode(b"".join([*packed, packer.flush()])).decode()
