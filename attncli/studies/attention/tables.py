"""Terminal output of the study `attention`: the weights of every scorer, their metrics, and their differences."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from math import isclose, isnan, prod

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from attncli.catalogue.normalizer_entries import DEFAULT_NORMALIZER
from attncli.catalogue.scorer_entries import default_label
from attncli.core.numbers import MISSING, TIE, exact, finite, number, several
from attncli.errors import listed, printable
from attncli.results import LABEL, LAYER, NORMALIZER, PAIR, SCORER, STAGES, Column, Result, Row, tensor_name
from attncli.show.terminal.tables import (
    MANY_ROWS,
    MOST_ROWS,
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
from attncli.show.terminal.weights import Index, Matrix, legend, most_matrices, weight_tables
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
MOST_RANKED = 5  # rows of the heads that differ most,
MOST_LABELS = 3  # that are named as left out
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
    stages, heads, note = result.stage(stage), list[HeadIndex](), ""
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
        note = f"Shown: {chosen.note}{others}" if chosen.note else ""
    by_label = dict[str, list[RenderableType]]()
    for record in result.records:
        facts = [f"scale {exact(result.scales[record['label']])}"]
        facts.append(several(record["parameters"], "parameter") if record["parameters"] else "no parameters")
        if f"{record['label']}/dropped" in result.tensors:
            facts.append("weights before dropout, output after it")
        by_label[record["label"]] = [*heading(record, result.formulas[record["label"]], facts)]
    if stages and most is not None and most < MANY_ROWS:
        versions = _together(result, heads, width, most, stage, note)
        yield Extra(next(versions), name=f"{stage} of {listed([*stages], MOST_LABELS)}", fewer=versions)
        yield Extra(Text(), *itertools.chain(*by_label.values()), name="formulas", fewer=formulas(result))
    else:
        for label in stages:
            by_label[label] = [Text(), *by_label[label], *_matrices([label], result, heads, width, most, stage)]
        yield from remark(note)
        yield from remark(_signs(stage, itertools.chain(*by_label.values())))
        yield from itertools.chain(*by_label.values())
    if most is None:
        return
    yield from titled("Summary", _summary(result.records, width, most))
    if rows := result.comparisons:
        count = len(rows)
        if count > most:
            rows = largest_first(rows, pair_distance(rows) or OF_WEIGHTS)[:MOST_ROWS]
        pairs = record_tables(PAIR, DIFFERENCES[:-1], rows, width)  # without the change
        pairs = titled("Pairwise comparison", [*pairs, *left_out(count - len(rows), count, "pairs")])
        yield Extra(*pairs, name="pairs of scorers")
    yield from _ranking(result, width)


def _together(
    result: Result, heads: Sequence[HeadIndex], width: int, most: int, stage: str, note: str
) -> Iterator[RenderableType]:
    """Yield the weights of all scorers in one table below `note`, then those of fewer and fewer scorers."""
    labels = [*result.stage(stage)]
    for count in range(len(labels), 0, -1):
        matrices = [*_matrices(labels[:count], result, heads, width, most, stage, has_labels=len(labels) > 1)]
        missing = listed(labels[count:], MOST_LABELS)
        names = remark(f"{stage} of {missing} left out; see them with --full" if missing else "")
        yield Group(*remark(note), *remark(_signs(stage, matrices)), Text(), *matrices, *names)


def _signs(stage: str, renderables: Iterable[RenderableType], where: str = "") -> str:
    """Return the stage unless it is the weights, the meaning of the signs in the tables, and where they are."""
    return "   ".join(filter(None, ["" if stage == "weights" else stage, legend(renderables), where]))


def _matrices(
    labels: Sequence[str],
    result: Result,
    chosen: Sequence[HeadIndex],
    width: int,
    most: int | None,
    stage: str,
    layer: str | None = None,
    *,
    has_labels: bool = False,
) -> Iterator[RenderableType]:
    """Yield a stage of scorers with their outputs, and the numbers of queries and keys that are left out."""
    stages, outputs = result.stage(stage, layer), result.stage("output", layer)
    valid = result.inputs[tensor_name("valid", layer=layer)].expand(stages[labels[0]].shape)
    leading, heads, numbers = valid.shape[1:-2], result.head_numbers(layer), batches_and_heads(result, layer)[1]
    axes = ["head"] if len(leading) == 1 else [f"axis {axis}" for axis in range(1, len(leading) + 1)]
    matrices = dict[Index, Matrix]()
    for batch, head in chosen:
        place = (batch, *map(int, np.unravel_index(numbers.index(head), leading)))
        for index, label in enumerate(labels):
            output = outputs[label][place] if label in outputs else None
            matrices[*place, index] = stages[label][place], valid[place], output
    names: dict[int, Sequence[object]] = {1: heads} if heads else {}
    if has_labels:
        names[len(leading) + 1] = [printable(label) for label in labels]
    yield from weight_tables(matrices, ["batch", *axes, "label"], names, result.tokens_in(layer), width, most)


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
        labels = [result.labels[0], label]
        matrices = [*_matrices(labels, result, [index], width, most, stage, layer, has_labels=True)]
        where.insert(0, f"layer {result.layers[layer]} ({printable(layer)})")
        where += [f"the largest {change_distance(result).name}"] * (most is not None)
        place = ", ".join(where)
        yield Extra(Text(), *remark(_signs(stage, matrices, place)), *matrices, name=f"{stage} of {place}")
