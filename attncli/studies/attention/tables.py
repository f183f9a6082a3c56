"""What the terminal shows of the study `attention`: every scorer's weights, what sums them up, and how they differ."""

from collections.abc import Iterator, Sequence
from functools import partial
from math import isclose, isnan, prod
from pathlib import Path

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from attncli.common.study import LAYER, TIE, Column, Record, Result, layers_of, stage_of, tensor_name, tokens_of
from attncli.config.normalizer_entries import DEFAULT_NORMALIZER
from attncli.config.scorer_entries import default_label
from attncli.errors import printable
from attncli.numbers import number, several
from attncli.show.tables import FAINT, STRONG, cells, heading, pick, remark, titled
from attncli.show.tables import tables as record_tables
from attncli.show.weights import MASKED, MAXIMUM, lines_of, shown_keys, shown_queries, weight_tables
from attncli.studies.attention.columns import COLUMNS, COMPARISONS, HEAD_COMPARISONS, HEADS, OF_CALLS, in_layers
from attncli.studies.attention.layers import (
    changes_of,
    grids,
    head_numbers,
    layer_numbers,
    means,
    most_changed,
)
from attncli.studies.attention.places import Place, choices, distance_of, largest_first, leading_sizes, shown_places

LEGEND = f"{MAXIMUM} row maximum   {MASKED} masked"
MOST_LINES = 100  # about how long the weight tables of all scorers together become
HEADING_LINES = 4  # of the weights of one scorer in one head
MOST_PLACES = 8  # batch elements and heads, whatever the length of their tables
MOST_RANKED = 10  # rows of the heads that differ most
ENTROPIES = [Column(f"entropy_{of}", f"entropy\n{of} (nats)", f"Entropy of {of}.", "nats") for of in "ab"]
RANKED_BY = {
    "js_divergence": ("that differ most", ["js_divergence", "top1_agreement"]),
    "output_difference": ("whose outputs differ most", ["output_difference"]),
}
CALLS = [
    Column("number", "", "Number of the layer."),
    LAYER,
    Column("class", "class", "Class of the module.", text=True),
    Column("scale", "scale", "Scale of the model."),
    Column("error", "error", "Largest difference between the model's output and the re-scored one."),
]
MEANS = [
    *pick(COLUMNS, ["label"]),
    *pick((*HEADS, *OF_CALLS), ["entropy", "entropy_share", "max_weight", "first_key"]),
    *pick(HEAD_COMPARISONS, ["output_difference"]),
]


def tables(result: Result, *, width: int, full: bool = False, csv: str | None = None) -> Iterator[RenderableType]:
    """Everything to print, from top to bottom, on a console `width` cells wide.

    A row's maximum is marked where it stands out: equal maxima all, but none where all valid keys have the same weight.
    `full` shows every cell of every matrix; else long tables and long series of tables are shortened, with a line that
    says what is left out and that `--full` and the file `csv` have it.
    """
    if "layers" in result.settings:
        yield from _of_layers(result, width, full, csv)
        return
    has_weights = bool(stage_of(result, "weights"))
    places = list[Place]()
    if has_weights:
        yield Text(LEGEND, style=FAINT)
        shown = shown_places(result, _most_places(result, width, full))
        places = list(shown.places)
        others = "" if shown.is_chosen else f"; others with {choices(result)} in the YAML, {_elsewhere(csv)}"
        yield from remark(f"Shown: {shown.note}{others}" if shown.note else "")
    for record in result.records:
        yield from [Text()] if has_weights else []
        yield from heading(record, result.settings["formulas"][record["label"]], list(_facts(result, record)))
        yield from _weights(record["label"], result, places, width, full, csv) if has_weights else []
    yield from titled("Summary", _summary(result.records, width))
    if result.comparisons:
        pairs = record_tables(COMPARISONS[:2], COMPARISONS[2:], result.comparisons, width)
        yield from titled("Pairwise comparison", pairs)
    yield from _ranking(result, width, full, csv)


def _facts(result: Result, record: Record) -> Iterator[str]:
    yield f"scale {number(result.settings['scales'][record['label']], trim=True)}"
    parameters = record["parameters"]
    yield several(parameters, "parameter") if parameters else "no parameters"
    if f"{record['label']}/dropped" in result.tensors:
        yield "weights before dropout, output after it"


def _most_places(result: Result, width: int, full: bool) -> int:
    """Return the number of batch elements and heads that the tables of all scorers have room for."""
    if full:
        return prod(leading_sizes(result))
    weights, outputs = stage_of(result, "weights"), stage_of(result, "output")
    label = next(iter(weights))
    lines = lines_of(weights[label], outputs.get(label), width, full) * len(result.labels)
    return max(min(MOST_LINES // lines, MOST_PLACES), 1)


def _elsewhere(csv: str | None) -> str:
    """Where what is left out stands."""
    return "with --full" + (f" or in {printable(csv)}" if csv else "")


def _weights(
    label: str,
    result: Result,
    places: Sequence[Place],
    width: int,
    full: bool,
    csv: str | None,
    layer: str | None = None,
) -> Iterator[RenderableType]:
    """Yield the weights and outputs of a scorer, and the numbers of queries and keys that are left out."""
    weights = result.tensors[tensor_name(label, "weights", layer=layer)]
    output = result.tensors.get(tensor_name(label, "output", layer=layer))  # which may not be kept
    valid = result.inputs[tensor_name("valid", layer=layer)].expand(weights.shape)
    axes = weights.shape[1:-2]
    indices = [(batch, *map(int, np.unravel_index(head, axes))) if weights.ndim > 2 else () for batch, head in places]
    yield from weight_tables(weights, valid, output, indices, tokens_of(result, layer), width, full)
    n, m = weights.shape[-2:]
    gone = [(n - len(shown_queries(n, full)), n, "queries"), (m - len(shown_keys(m, full)), m, "keys")]
    cells = " and ".join(f"{count} of {size} {name}" for count, size, name in gone if count)
    if cells:
        yield Text()
        yield from remark(f"{cells} left out; see them {_elsewhere(csv)}")


def _summary(records: Sequence[Record], width: int) -> Iterator[RenderableType]:
    """One row per scorer, without the columns that say nothing new: its name, softmax, and weights that sum to 1."""
    normalizers = [record.get("normalizer", DEFAULT_NORMALIZER) for record in records]  # runs of old have none
    sums = [record.get("weight_sum") for record in records]
    usual = {
        "scorer": all(r["label"] == default_label(r["scorer"], of) for r, of in zip(records, normalizers, strict=True)),
        "normalizer": set(normalizers) == {DEFAULT_NORMALIZER},
        "weight_sum": all(each is None or isclose(each, 1.0, rel_tol=TIE) for each in sums),
    }
    names = [key for key in ("label", "scorer", "normalizer") if not usual.get(key)]
    figures = [column for column in COLUMNS if not column.text and not usual.get(column.key)]
    yield from record_tables(pick(COLUMNS, names), figures, records, width)


def _ranking(result: Result, width: int, full: bool, csv: str | None) -> Iterator[RenderableType]:
    """The heads, or batch elements, that differ most, where there are several worth ranking."""
    batches, heads = leading_sizes(result)
    key = distance_of(result.head_comparisons)
    if key is None or (heads == 1 and batches <= 2):
        return
    which, figures = RANKED_BY[key]
    rows = largest_first(result.head_comparisons, key)
    entropies = {(row["label"], row["batch"], row["head"]): row["entropy"] for row in result.heads}
    shown = [
        {**row, **{f"entropy_{of}": entropies.get((row[of], row["batch"], row["head"])) for of in "ab"}}
        for row in (rows if full else rows[:MOST_RANKED])
    ]
    names = pick(HEAD_COMPARISONS, ["a", "b", *["batch"] * (batches > 1), *["head"] * (heads > 1)])
    columns = pick(HEAD_COMPARISONS, figures)
    wider = [*columns, *ENTROPIES] if key == "js_divergence" else columns
    if sum(each.width + 1 for each in cells([*names, *wider], shown)) <= width:
        columns = wider
    title = f"{'Heads' if heads > 1 else 'Batch elements'} {which}"
    yield from titled(title, record_tables(names, columns, shown, width))
    yield from _left_out(len(rows) - len(shown), len(rows), csv)


def _left_out(rows: int, of: int, csv: str | None) -> Iterator[RenderableType]:
    folder = f" or in {printable(str(Path(csv).with_name('results.json')))}" if csv else ""
    yield from remark(f"{rows} of {of} rows left out; see them with --full{folder}" if rows else "")


def _of_layers(result: Result, width: int, full: bool, csv: str | None) -> Iterator[RenderableType]:
    """What was captured; scorers; layers x heads; the heads that change most, and the weights of the first of these."""
    known, layers = result.settings["capture"], result.settings["layers"]
    text = f', "{known["text"]}"' if known["text"] else ""
    yield Text(printable(f"{known['file']}: {known['model'] or 'a model'}{text}"))
    yield from remark(result.findings[0].text)
    numbers = layer_numbers(result)
    calls = [{"layer": name, **known["calls"][name]} for name in layers]
    yield from titled("Layers", record_tables(CALLS[:2], CALLS[2:], calls, width, full))
    yield Text()
    for record in result.records[: len(result.labels)]:
        formula = result.settings["formulas"][record["label"]]
        own_scale = [f"scale {number(each['scales'][record['label']], trim=True)}" for each in layers.values()]
        yield from heading(record, formula, [own_scale[0]] if len(set(own_scale)) == 1 else [])
    yield from titled("Summary, means over layers and heads", record_tables(MEANS[:1], MEANS[1:], means(result), width))
    names = [Column("layer", "layer", "Number of the layer.")]
    heads = [
        Column(str(head), str(head), f"Head {head}.", format=partial(number, digits=2))
        for head in head_numbers(result.heads)
    ]
    for title, (_, grid) in grids(result).items():
        rows = [
            {
                "layer": number,
                **{head.key: None if isnan(value) else value for head, value in zip(heads, row, strict=True)},
            }
            for number, row in zip(numbers.values(), grid, strict=True)
        ]
        yield from titled(f"{title}, by layer and head", record_tables(names, heads, rows, width, full))
    rows = changes_of(result)
    if not rows:
        return
    shown = [{**row, "layer": numbers[str(row["layer"])]} for row in (rows if full else rows[:MOST_RANKED])]
    several_elements = len({row["batch"] for row in rows}) > 1
    keys = ["a", "b", "layer", *["batch"] * several_elements, "head"]
    names = pick(in_layers(HEAD_COMPARISONS), keys)
    columns = pick(in_layers(HEAD_COMPARISONS), ["output_difference", "js_divergence", "top1_agreement"])
    yield from titled("Heads whose outputs change most", record_tables(names, columns, shown, width))
    yield from _left_out(len(rows) - len(shown), len(rows), csv)
    yield from _changed_weights(result, width, full, csv)


def _changed_weights(result: Result, width: int, full: bool, csv: str | None) -> Iterator[RenderableType]:
    """Yield the weights of the first scorer and of the scorer with the largest change, in the heads that change most.

    There are as many heads as have room, and at least one.
    """
    layers, lines = layers_of(result), 0
    for layer, place, label in most_changed(result):
        weights, output = (stage_of(result, stage, layer).get(label) for stage in ("weights", "output"))
        if weights is None:
            return
        more = 2 * (lines_of(weights, output, width, full) + HEADING_LINES)
        if lines and lines + more > MOST_LINES:
            return
        lines += more
        yield Text()
        batches, heads = leading_sizes(result, layer)
        where = [f"batch {place[0]}"] * (batches > 1) + [f"head {place[1]}"] * (heads > 1)
        name = f"layer {layers.index(layer)} ({printable(layer)})"
        yield Text(f"{LEGEND}   {', '.join([name, *where])}", style=FAINT)
        for each in (result.labels[0], label):
            yield Text(printable(each), style=STRONG)
            yield from _weights(each, result, [place], width, full, csv, layer)
