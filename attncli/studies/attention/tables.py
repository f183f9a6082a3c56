"""Terminal output of the study `attention`: the weights of every scorer, their metrics, and their differences."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from math import isclose, isnan, prod

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from attncli.catalogue.normalizer_entries import DEFAULT_NORMALIZER
from attncli.catalogue.scorer_entries import default_label
from attncli.core.numbers import MISSING, TIE, exact, finite, number, several
from attncli.errors import printable
from attncli.results import LABEL, LAYER, NORMALIZER, PAIR, SCORER, STAGES, Column, Result, Row, tensor_name
from attncli.show.terminal.tables import (
    MOST_ROWS,
    STRONG,
    Cells,
    Extra,
    blocks,
    ends,
    formulas,
    heading,
    ink,
    inked,
    left_out,
    numbered_layers,
    pick,
    remark,
    titled,
)
from attncli.show.terminal.tables import tables as record_tables
from attncli.show.terminal.weights import legend, most_matrices, weight_tables
from attncli.studies.attention.columns import (
    BATCH,
    COLUMNS,
    DIFFERENCES,
    HEAD,
    HEADS,
    OF_CALLS,
    OUTPUT_DIFFERENCE,
    AttentionFacts,
)
from attncli.studies.attention.heads import (
    OF_WEIGHTS,
    HeadIndex,
    batches_and_heads,
    largest_first,
    pair_distance,
    shown_heads,
)
from attncli.studies.attention.layers import change_distance, grids, head_numbers, most_changed, output_changes

MOST_HEADS = 8  # batch elements and heads
GRID_CELL = 6  # width of a number in layers x heads
MOST_RANKED = 5  # rows of the heads that differ most
MEANS = [
    LABEL,
    *pick((*HEADS, *OF_CALLS), ["entropy", "entropy_share", "max_weight", "first_key"]),
    OUTPUT_DIFFERENCE,
]


def tables(result: Result, *, width: int, most: int | None, stage: str = "weights") -> Iterator[RenderableType]:
    """Yield everything to print, from top to bottom, on a console `width` cells wide.

    The matrices show `stage`. All maxima of a row are marked, unless all valid keys have the same weight. Tables have
    at most `most` rows, and a line below says how many are left out. If `most` is None, every cell of every matrix is
    shown, and the rows are left to the tables of all rows.
    """
    if result.layers:
        yield from _layer_tables(result, width, most, stage)
        return
    stages, heads = result.stage(stage), list[HeadIndex]()
    if not stages and stage != "weights":
        names = [name for name in STAGES if result.stage(name)]
        yield from remark(f"this run has no stage `{stage}`; it has {', '.join(names) or 'none'}")
    if stages:
        room = prod(map(len, batches_and_heads(result)))
        if most is not None:
            n = next(iter(stages.values())).shape[-2]
            room = min(most_matrices(n, most // len(stages)), MOST_HEADS)
        chosen = shown_heads(result, room)
        heads = list(chosen.heads)
        others = "" if chosen.is_chosen else "; others with the keys `heads` and `batch`, or with --full"
        yield from remark(f"Shown: {chosen.note}{others}" if chosen.note else "")
    by_scorer = list[Sequence[RenderableType]]()
    for record in result.records:
        facts = [f"scale {exact(result.scales[record['label']])}"]
        facts.append(several(record["parameters"], "parameter") if record["parameters"] else "no parameters")
        if f"{record['label']}/dropped" in result.tensors:
            facts.append("weights before dropout, output after it")
        words = heading(record, result.formulas[record["label"]], facts)
        matrices = [Text(), *words, *_matrices(record["label"], result, heads, width, most, stage)] if stages else words
        by_scorer.append([*matrices])
    yield from remark(_signs(stage, itertools.chain(*by_scorer)))
    for scorer_blocks in by_scorer:
        yield Extra(*scorer_blocks)
    if most is None:
        return
    yield from titled("Summary", _summary(result.records, width, most))
    if rows := result.comparisons:
        if len(rows) > most:
            rows = largest_first(rows, pair_distance(rows) or OF_WEIGHTS)[:MOST_ROWS]
        pairs = record_tables(PAIR, DIFFERENCES[:-1], rows, width)  # without the change
        left = left_out(len(result.comparisons) - len(rows), len(result.comparisons), "pairs")
        yield from titled("Pairwise comparison", [*pairs, *left])
    yield from _ranking(result, width)


def _signs(stage: str, renderables: Iterable[RenderableType], where: str = "") -> str:
    """Return the stage unless it is the weights, the meaning of the signs in the tables, and where they are."""
    return "   ".join(filter(None, ["" if stage == "weights" else stage, legend(renderables), where]))


def _matrices(
    label: str,
    result: Result,
    chosen: Sequence[HeadIndex],
    width: int,
    most: int | None,
    stage: str,
    layer: str | None = None,
) -> Iterator[RenderableType]:
    """Yield a stage of a scorer with its outputs, and the numbers of queries and keys that are left out."""
    matrices = result.tensors[tensor_name(label, stage, layer=layer)]
    output = result.tensors.get(tensor_name(label, "output", layer=layer))  # None if outputs are not stored
    valid = result.inputs[tensor_name("valid", layer=layer)].expand(matrices.shape)
    axes, tokens, numbers = matrices.shape[1:-2], result.tokens_in(layer), batches_and_heads(result, layer)[1]
    indices = [
        (batch, *map(int, np.unravel_index(numbers.index(head), axes))) if matrices.ndim > 2 else ()
        for batch, head in chosen
    ]
    heads = result.head_numbers(layer)
    yield from weight_tables(matrices, valid, output, indices, tokens, width, most, heads)


def _summary(records: Sequence[Row], width: int, most: int) -> Iterator[RenderableType]:
    """Yield a table with a row per scorer; the scorer's name, softmax, and sums of 1 are omitted if redundant."""
    normalizers = [record["normalizer"] for record in records]
    has_default_labels = all(
        row["label"] == default_label(row["scorer"], normalizer)
        for row, normalizer in zip(records, normalizers, strict=True)
    )
    redundant = {"entropy_bound"}
    if has_default_labels or len({record["scorer"] for record in records}) == 1:
        redundant.add("scorer")
    if {*normalizers} == {DEFAULT_NORMALIZER} or all(row["normalizer"] == row["label"] for row in records):
        redundant.add("normalizer")
    if all(isclose(row["weight_sum"] or 1.0, 1.0, rel_tol=TIE) for row in records):
        redundant.add("weight_sum")
    names = [column for column in (LABEL, SCORER, NORMALIZER) if column.key not in redundant]
    figures = [column for column in COLUMNS if not column.text and column.key not in redundant]
    yield from record_tables(names, figures, records, width, most)


def _ranking(result: Result, width: int) -> Iterator[RenderableType]:
    """Yield the heads or batch elements in which scorers differ most, if there are several worth ranking."""
    batches, heads = batches_and_heads(result)
    distance = pair_distance(result.head_comparisons)
    if distance is None or (len(heads) == 1 and len(batches) <= 2):
        return
    names = [*PAIR, *[BATCH] * (len(batches) > 1), *[HEAD] * (heads != range(1))]
    title = f"{'Heads' if len(heads) > 1 else 'Batch elements'} {distance.ranking}"
    yield from _first_rows(title, names, distance.figures, largest_first(result.head_comparisons, distance), width)


def _first_rows(
    title: str, names: Sequence[Column], figures: Sequence[Column], rows: Sequence[Row], width: int
) -> Iterator[RenderableType]:
    """Yield a table of the first rows, and the number of others."""
    yield from titled(title, record_tables(names, figures, rows[:MOST_RANKED], width))
    yield from left_out(len(rows[MOST_RANKED:]), len(rows))


def _layer_tables(result: Result, width: int, most: int | None, stage: str) -> Iterator[RenderableType]:
    """Yield the scorers' means, grids of layers and heads, and the heads that change most with their weights."""
    capture = result.capture
    assert capture is not None, "a run over layers is of a captured model"
    texts = capture.text
    text = f', "{texts}"' if isinstance(texts, str) else f", {len(texts)} texts" if texts else ""
    yield Text(printable(f"{capture.file}: {capture.model or 'a model'}{text}"))
    if most is None:
        yield from remark(numbered_layers([], result.layers, most)[1])
        yield from formulas(result)
    summary = AttentionFacts.of(result).summary or ()
    summary_table = record_tables(MEANS[:1], MEANS[1:], summary, width, most)
    yield from titled("Summary, means over layers and heads", summary_table)
    heads = head_numbers(result.heads)
    chosen = heads if most is None else ends(heads, max((width - len("layer")) // GRID_CELL, 2))
    for title, (_, grid) in list(grids(result).items())[: None if most is None else 1]:
        rows = ends([*zip(result.layers.values(), grid, strict=True)], most)
        largest = max(1.0, *finite(value for _, row in rows for value in row))
        cells_of_heads = list[Cells]()
        for index, head in enumerate(heads):
            if head in chosen:  # dim near 0 and bold near the largest; NaN is missing
                values = [row[index] for _, row in rows]
                texts = [MISSING if isnan(value) else number(value, digits=2) for value in values]
                cells_of_heads.append(inked(str(head), texts, [ink(value / largest) for value in values]))
        names = [Cells("layer", [str(layer) for layer, _ in rows])]
        yield from titled(f"{title}, by layer and head", blocks(names, cells_of_heads, width))
        yield from left_out(len(grid) - len(rows), len(grid), "layers")
        yield from left_out(len(heads) - len(chosen), len(heads), "heads")
    changes = [{**row, "layer": result.layers[row["layer"]]} for row in output_changes(result)]
    if changes and most is not None:
        several_elements = len({row["batch"] for row in changes}) > 1
        places = [*PAIR, LAYER, *[BATCH] * several_elements, HEAD]
        figures = [OUTPUT_DIFFERENCE, *OF_WEIGHTS.figures]
        yield from _first_rows("Heads with the largest output difference", places, figures, changes, width)
    yield from _changed_weights(result, width, most, stage)


def _changed_weights(result: Result, width: int, most: int | None, stage: str) -> Iterator[RenderableType]:
    """Yield the weights of the first scorer and of the scorer with the largest change, in the head that changes most.

    If `most` is None, all heads are shown.
    """
    for layer, index, label in most_changed(result)[: None if most is None else 1]:
        if label not in result.stage(stage, layer):
            return
        batches, heads = batches_and_heads(result, layer)
        where = [f"batch {index[0]}"] * (len(batches) > 1) + [f"head {index[1]}"] * (heads != range(1))
        matrices = list[RenderableType]()
        for name in (result.labels[0], label):
            matrices.append(Text(printable(name), style=STRONG))
            matrices += _matrices(name, result, [index], width, most, stage, layer)
        where.insert(0, f"layer {result.layers[layer]} ({printable(layer)})")
        where += [f"the largest {change_distance(result).name}"] * (most is not None)
        yield Extra(Text(), *remark(_signs(stage, matrices, ", ".join(where))), *matrices)
