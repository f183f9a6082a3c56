"""Captured attention calls of a model: additional metrics of the calls, and the joined result of all layers."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from attncli.catalogue.normalizer_entries import DEFAULT_NORMALIZER
from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.core.numbers import finite, number, several
from attncli.errors import printable
from attncli.models.call import AttentionCall
from attncli.models.inputs import Inputs, with_model_defaults
from attncli.results import (
    CallFacts,
    CaptureFacts,
    Finding,
    Result,
    Row,
    by_label,
    in_sentence,
    place_in_words,
    signed_weights,
    tensor_name,
)
from attncli.sources.layers import Source
from attncli.studies.attention.columns import DIFFERENCES, OF_CALLS, AttentionFacts
from attncli.studies.attention.findings import fault_findings
from attncli.studies.attention.heads import OF_OUTPUTS, Distance, HeadIndex, head_index, largest_first, pair_distance
from attncli.studies.attention.options import AttentionOptions

AVERAGED = ("entropy", "entropy_share", "max_weight", "first_key")  # over the heads of all layers
CALL_FACTS = ("class", "how", "scale", "pre_scale", "groups", "softcap", "empty_row", "error")


def head_variances(inputs: Inputs) -> list[float | None]:
    """Return the variance of q . k over the valid keys of each batch element and head; None if no key is valid."""
    variances: list[float | None] = []
    valid = inputs.valid.whole.flatten(0, 1).cpu()
    for queries, keys, allowed in zip(inputs.queries.flatten(0, 1), inputs.keys.flatten(0, 1), valid, strict=True):
        products = (queries.cpu().double() @ keys.cpu().double().mT)[allowed]
        variances.append(float(products.var(correction=0)) if products.numel() else None)
    return variances


def joined_layers(options: AttentionOptions, source: Source, results: Sequence[Result]) -> Result:
    """Join the results of the first layers of a captured model, with facts about the capture, also in the findings.

    If a scorer entry repeats the model's computation, the entry's output is compared with the model's output.
    """
    first, captured, facts = results[0], source.captured, dict[str, CallFacts]()
    assert captured is not None
    for layer, result in zip(source.layers, results, strict=False):
        call = layer.inputs.call
        assert call is not None
        of_call: Row = {"number": captured.numbers[call.name]}
        of_call |= {key: captured.layers[call.name].get(key) for key in CALL_FACTS}
        of_call["heads"] = call.heads and [*call.heads]
        same = next((entry for entry in options.scorers if _is_as_the_model(entry, call, options.train)), None)
        if same is not None and same.label in result.labels:
            output = result.tensors[tensor_name(same.label, "output", layer=layer.name)]
            of_call["rescored"] = call.difference(output)
        facts[call.name] = CallFacts(**of_call)
    left_out = {name: entry["problem"] for name, entry in captured.layers.items() if entry["problem"] is not None}
    capture = captured.facts.model_copy(update={"calls": facts, "left_out": left_out})
    if not source.numbers:
        return replace(first, capture=capture, findings=[_about_capture(capture), *first.findings])
    joined: dict[str, Any] = {kind: [row for result in results for row in result.rows[kind]] for kind in first.rows}
    changes = changes_by_label(joined["head_comparisons"], first.labels)
    of_layers = [finding for result in results for finding in result.findings]
    signed = [finding for finding in map(signed_weights, first.labels) if finding in of_layers]
    faults = _layer_faults(source, len(results))
    for name in ("scales", "tokens", "inputs", "tensors"):  # whose keys begin with the layer
        joined[name] = {key: value for result in results for key, value in getattr(result, name).items()}
    return replace(
        first,
        capture=capture,
        layers={name: captured.numbers[name] for name in facts},
        facts=AttentionFacts(**first.facts.data, summary=means(joined["heads"], changes)),
        findings=[_about_capture(capture), *faults, *signed, *_about_changes(changes, captured.numbers, first.random)],
        **joined,
    )


def _layer_faults(source: Source, count: int) -> list[Finding]:
    """Return the findings on numbers that are not finite in the first such layer of `count` layers."""
    broken = [layer for layer in source.layers[:count] if layer.inputs.faults]
    if not broken:
        return []
    first = f"layer {broken[0].number}"
    which = f", the first of {len(broken)} layers with such numbers" if len(broken) > 1 else ""
    return fault_findings(broken[0].inputs, f"{first}{which}: ")


def _is_as_the_model(entry: ScorerEntry, call: AttentionCall, train: bool) -> bool:
    """Whether an entry repeats the model's computation in this call, judged by the entry's options."""
    changes = [
        key for key in ("position_bias", "qk_norm", "rope", "window", "dtype") if getattr(entry, key) is not None
    ]
    is_plain = not changes and entry.normalizer.normalizer == DEFAULT_NORMALIZER
    has_dropout = train and entry.dropout > 0
    return (
        entry.has_models_scale
        and with_model_defaults(entry, call).softcap == call.softcap
        and is_plain
        and not has_dropout
    )


def grids(result: Result) -> dict[str, tuple[str, list[list[float]]]]:
    """Return a mapping from titles to (name of the quantity, matrix of layers by heads).

    The matrices show metrics of the first scorer, by default the model's own, and the changes that the other scorers
    make. Each value is a mean over batch elements, NaN if a layer lacks the head.
    """
    first = printable(result.labels[0])
    heads = by_label(result.heads)[result.labels[0]]
    quantities = {  # rows and column of each matrix
        f"Entropy over ln m of {first}": (heads, "entropy_share"),
        f"Weight on the first key of {first}": (heads, "first_key"),
        "Variance of q . k over d": (heads, "variance_over_d"),
        "Scale that gives q . k the variance 1": (heads, "unit_scale"),
    }
    for label, rows in changes_by_label(result.head_comparisons, result.labels).items():
        quantities[f"Change of the output: {printable(label)} in place of {first}"] = (rows, "output_difference")
    layers = list(result.layers)
    names = {column.key: column.name for column in (*OF_CALLS, *DIFFERENCES)}
    by_title = {title: (names[key], _values(rows, key, layers)) for title, (rows, key) in quantities.items()}
    return {title: grid for title, grid in by_title.items() if finite(value for row in grid[1] for value in row)}


def _values(rows: Sequence[Row], key: str, layers: Sequence[str]) -> list[list[float]]:
    cells: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        value = row[key]
        cells.setdefault((row["layer"], row["head"]), []).append(math.nan if value is None else value)
    heads = head_numbers(rows)
    return [[fmean(cells.get((layer, head), [math.nan])) for head in heads] for layer in layers]


def head_numbers(rows: Sequence[Row]) -> list[int]:
    """Return the sorted numbers of the heads that occur in any layer."""
    return sorted({row["head"] for row in rows})


def means(heads: Sequence[Row], changes: Mapping[str, Sequence[Row]]) -> list[Row]:
    """Return a row for each scorer: its metrics averaged over the rows `heads`, and the mean change of the output.

    The change is the difference from the first scorer's output, None for the first scorer itself. `changes` has the
    rows of the other scorers, by label.
    """
    averages = []
    for label, of_label in by_label(heads).items():
        row: Row = {"label": label}
        for rows, keys in ((of_label, AVERAGED), (changes.get(label, []), ["output_difference"])):
            for key in keys:
                values = [row_of_head[key] for row_of_head in rows if row_of_head[key] is not None]
                row[key] = fmean(values) if values else None
        averages.append(row)
    return averages


def most_changed(result: Result) -> list[tuple[str, HeadIndex, str]]:
    """Return the heads, sorted by how much another scorer changes the first scorer's weights, the largest change first.

    Changes of weights are divergences. Relative changes of outputs, which are large where an output is small, count
    only where all weights are equal. Each item is (layer, (batch element, head), label), where `label` names the
    scorer that changes the head most.
    """
    changed = dict[tuple[str, HeadIndex], str]()
    for row in largest_first(output_changes(result), change_distance(result)):
        changed.setdefault((row["layer"], head_index(row)), row["b"])
    return [(layer, index, label) for (layer, index), label in changed.items()]


def change_distance(result: Result) -> Distance:
    """Return the distance that ranks the heads in `most_changed`."""
    return pair_distance(output_changes(result)) or OF_OUTPUTS


def output_changes(result: Result) -> list[Row]:
    """Return the rows by head that compare the first scorer with another, the largest change of the output first."""
    first = result.labels[0]
    return largest_first([row for row in result.head_comparisons if row["a"] == first], OF_OUTPUTS)


def changes_by_label(rows: Sequence[Row], labels: Sequence[str]) -> dict[str, list[Row]]:
    """Return a mapping from each label but the first to the rows that compare the first label with it."""
    return {label: [row for row in rows if (row["a"], row["b"]) == (labels[0], label)] for label in labels[1:]}


def _about_capture(capture: CaptureFacts) -> Finding:
    calls, left_out = capture.calls.values(), capture.left_out
    here = all(call.rescored is not None for call in calls)
    errors = [(call.error if call.rescored is None else call.rescored) or 0.0 for call in calls]
    differ = f"differ from the model's by {number(max(errors), 2)} at most" if any(errors) else "equal the model's"
    what = f"re-scored {'here' if here else 'when captured'}, outputs {differ}"
    text = f"{capture.file}: {several(len(calls), 'attention call')}; {what}."
    if left_out:
        why = "; ".join(f"{name}: {problem}" for name, problem in left_out.items())
        text += f" Not re-scored: {why}."
    return Finding(text, numbers={"calls": len(calls), "error": max(errors), "left_out": len(left_out)})


def _about_changes(
    changes: Mapping[str, Sequence[Row]], layers: Mapping[str, int], random: Collection[str]
) -> Iterator[Finding]:
    """Yield a finding for each scorer in `changes`: how much it changes the first scorer's outputs, and where most."""
    for label, rows in changes.items():
        differences = finite(row["output_difference"] for row in rows)
        if differences:
            most, mean = largest_first(rows, OF_OUTPUTS)[0], fmean(differences)
            where = place_in_words(most, layers)
            changed, first = (in_sentence(name, random) for name in (label, most["a"]))
            text = f"{changed} changes the outputs of {first} by {number(100 * mean, 2)} %,"
            heads = {(row["layer"], row["head"]) for row in rows if finite([row["output_difference"]])}
            text += f" mean of {several(len(heads), 'head')};"
            text = f"{text} most in {where}: {number(100 * most['output_difference'], 2)} %."
            if most["output_difference"] == 0:
                text = f"{changed} gives the same outputs as {first}, in {several(len(heads), 'head')}."
            numbers: Row = {"output_difference": mean, **{key: most[key] for key in ("layer", "batch", "head")}}
            yield Finding(text, label, numbers | {"most": most["output_difference"]})
