"""Choose the batch elements and heads to show: if there are many, the heads where scorers differ most."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from attncli.core.numbers import finite
from attncli.errors import listed
from attncli.results import Column, Result, Row, tensor_name
from attncli.studies.attention.columns import AGREEMENT, JS_DIVERGENCE, OUTPUT_DIFFERENCE, AttentionFacts
from attncli.studies.attention.findings import SAME

MOST_NAMED = 8  # in a note
READ_IN_ORDER = 4  # up to here in order; more are sorted by difference
HeadIndex = tuple[int, int]  # batch element and head, 0 for a missing axis


@dataclass(frozen=True)
class Distance:
    """A distance of two scorers to rank heads by: the columns `figures`, the first of which is the distance, and texts.

    These are its name in a note, the rest of the title of a ranking, and title and quantity of a picture.
    """

    figures: Sequence[Column]
    name: str
    ranking: str
    title: str
    quantity: str

    def of(self, row: Row) -> float | None:
        """Return the distance in a row of comparisons."""
        distance: float | None = row[self.figures[0].key]
        return distance


WEIGHTS = "JS divergence", "that differ most", "JS divergence of the weights (bits)", "JS divergence (bits)"
OUTPUTS = "difference of outputs", "whose outputs differ most", "Difference of the outputs", "difference"
OF_WEIGHTS, OF_OUTPUTS = Distance((JS_DIVERGENCE, AGREEMENT), *WEIGHTS), Distance((OUTPUT_DIFFERENCE,), *OUTPUTS)


@dataclass(frozen=True)
class Shown:
    """The heads to show, each with its batch element, in the order of the tensors."""

    heads: Sequence[HeadIndex]
    note: str = ""  # how they were chosen, in words; empty if all are shown
    is_chosen: bool = False  # whether the config chooses them
    ranked: Sequence[HeadIndex] = ()  # if there are many: largest distance first


def head_index(row: Row) -> HeadIndex:
    """Return the batch element and head of a row."""
    return row["batch"] or 0, row["head"] or 0


def pair_distance(rows: Sequence[Row]) -> Distance | None:
    """Return the distance of weights, else of outputs, if a value is above rounding, or None."""
    distances = (
        distance for distance in (OF_WEIGHTS, OF_OUTPUTS) if max(finite(map(distance.of, rows)), default=0.0) > SAME
    )
    return next(distances, None)


def largest_first(rows: Sequence[Row], distance: Distance) -> list[Row]:
    """Return the rows sorted by a distance, stably, with unknown values last."""
    return sorted(rows, key=lambda row: -max(finite([distance.of(row)]), default=-math.inf))


def shown_heads(result: Result, most: int, label: str | None = None, layer: str | None = None) -> Shown:
    """Return the heads to show: as chosen in the config, else all if there are at most `most`, else a selection.

    The selection is up to `most` heads with the largest distance between any two scorers, or between `label` and
    another scorer; with a single scorer, the first heads.
    """
    batches, heads = batches_and_heads(result, layer)
    indices = list(itertools.product(batches, heads))
    facts = AttentionFacts.of(result)
    if facts.heads is not None or facts.batch is not None:
        chosen = sorted({head_index(row) for row in result.heads if row.get("layer") == layer})
        if chosen == indices:
            return Shown(indices, is_chosen=True)
        return Shown(chosen, f"{_in_words(chosen, batches, heads)}, as the config says", is_chosen=True)
    if len(indices) <= min(most, READ_IN_ORDER):
        return Shown(indices)
    rows = [row for row in result.head_comparisons if row.get("layer") == layer and label in (None, row["a"], row["b"])]
    distance = pair_distance(rows)
    by_rank = list(dict.fromkeys(map(head_index, largest_first(rows, distance))))[:most] if distance else []
    if len(indices) <= most:
        return Shown(indices, ranked=by_rank)
    few = sorted(by_rank or indices[:most])
    why = f"where the scorers differ most ({distance.name})" if distance else "the first"
    return Shown(few, f"{_in_words(few, batches, heads)}, {why}", ranked=by_rank)


def batches_and_heads(result: Result, layer: str | None = None) -> tuple[range, Sequence[int]]:
    """Return the batch elements, and the numbers of the heads; all axes between batch and queries count as heads."""
    numbers = result.head_numbers(layer)
    shape = result.inputs[tensor_name("queries", layer=layer)].shape[:-2]
    return range(math.prod(shape[:1])), numbers or range(math.prod(shape[1:]))


def _in_words(chosen: Sequence[HeadIndex], batches: range, heads: Sequence[int]) -> str:
    """Return text such as `head 2, head 5 (2 of 12)`, or `batch 0 head 3 (1 of 24)`."""
    axes = (("batch", batches), ("head", heads))
    names = [
        " ".join(f"{axis} {number}" for (axis, numbers), number in zip(axes, index, strict=True) if len(numbers) > 1)
        for index in chosen
    ]
    return f"{listed(names, MOST_NAMED)} ({len(chosen)} of {len(batches) * len(heads)})"
