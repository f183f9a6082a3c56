"""Check the attention of every head for faults and remarkable patterns."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from attncli.catalogue.building import (
    entry_formulas,
    random_labels,
    scorer_scale,
    stored_parameters,
)
from attncli.config.tensors import Data
from attncli.core.seeding import seeded
from attncli.errors import below, in_ranges
from attncli.models.call import four_axes
from attncli.models.fitted import check_for_model
from attncli.models.inputs import Scored
from attncli.models.requests import load_model
from attncli.models.summaries import call_summaries
from attncli.results import Finding, Result, Row, signed_weights
from attncli.runtime import Progress, keep_finished
from attncli.sources.build import saved_inputs
from attncli.sources.layers import Layer, Prepared, Source
from attncli.sources.opening import note_without_weights, open_data, open_model
from attncli.studies.doctor.batch import batch_rows, padded_batch
from attncli.studies.doctor.checks import BATCH, CHECKS, OVERFLOW
from attncli.studies.doctor.columns import COLUMNS, HEADS, DoctorFacts
from attncli.studies.doctor.findings import doctor_findings
from attncli.studies.doctor.heads import Call, Head, checked_heads
from attncli.studies.doctor.options import DoctorOptions
from attncli.studies.doctor.tables import tables
from attncli.studies.study import Study

UNKNOWN_PADDING = "Padding was not checked: without an attention mask or names of tokens it is unknown."


@dataclass(frozen=True)
class PreparedDoctor(Prepared[DoctorOptions]):
    """The checked input of `run`, with the summaries of a model's layers and the rows of the check `batch`."""

    summaries: Mapping[str, Row] = field(default_factory=dict)
    rows: Sequence[Row] = ()


@torch.no_grad()
def prepare(options: DoctorOptions, progress: Progress) -> PreparedDoctor:
    """Read or make the inputs, or run the model once; build the scorers."""
    progress.step(0, 1, "inputs")
    summaries, rows = dict[str, Row](), list[Row]()
    if options.model is not None:
        source, summaries, rows = _open_model(options, options.model, progress)
    else:
        assert options.data is not None, "validated"
        source = open_data(options, options.data, options.mask, options.tokens, 2, progress.note)  # scores and weights
    if source.captured is not None:
        note_without_weights(source.captured.about.get("without_weights"), progress.note)
        calls = [layer.inputs.call for layer in source.layers if layer.inputs.call is not None]
        summaries = {call.name: source.captured.summary(call) for call in calls}
    empty_row = "zero" if options.mask.empty_row == "error" else options.mask.empty_row  # a finding, not an error
    return PreparedDoctor(options, source.with_scorers(options.scorers, options.seed, empty_row), summaries, rows)


def _open_model(options: DoctorOptions, model: str, progress: Progress) -> tuple[Source, dict[str, Row], list[Row]]:
    """Run the model on all texts at once, and some alone; return its source, summaries, and the rows of `batch`."""
    progress.step(0, 1, "the model")
    check_for_model(options.scorers, model, options.texts, progress.note)
    count = max(len(options.texts), 1)
    loaded = load_model(options, model, options.texts, options.attn, options.revision, count)
    source = open_model(loaded, progress.note)
    calls = [layer.inputs.call for layer in source.layers if layer.inputs.call is not None]
    summaries = call_summaries(calls, loaded.tokens, [layer.padding for layer in source.layers])
    if (padded := padded_batch(loaded)) is None:
        return source, summaries, []
    with below("model"):
        return source, summaries, batch_rows(padded, {call.name: call.output for call in calls}, progress)


@torch.no_grad()
def run(prepared: PreparedDoctor, progress: Progress) -> Result:
    """Check every head of every layer with every scorer; finished layers are kept if the user stops the run."""
    options, layers = prepared.options, prepared.layers
    records, heads, unjudged = list[Row](), list[Row](), list[str | None]()
    parameters, signed = dict[str, Tensor](), list[str]()
    with keep_finished(heads) as outcome:
        for index, layer in enumerate(layers):
            progress.step(index, len(layers), layer.name or "heads")
            for position, scored in enumerate(layer.scored):
                entry = scored.entry
                with below("scorers", position):
                    checked = checked_heads(_call(options, layer, scored))
                place = {"scorer": entry.scorer, "label": entry.label, "layer": layer.name}
                names = [{**place, "head": head} for head in layer.inputs.heads]
                for name, head in zip(names, checked, strict=True):
                    heads.append(name | {check.key: head.numbers.get(check.key) for check in CHECKS})
                records += _records(names, checked, layer)
                parameters |= stored_parameters(entry, scored.scorer)
                if any(head.is_signed for head in checked):
                    signed.append(entry.label)
                if not all(head.is_judged or head.is_signed for head in checked):
                    unjudged.append(layer.name)
    entry, of_batch = options.scorers[0], {(row["layer"], row["head"]): row["value"] for row in prepared.rows}
    records += [{"scorer": entry.scorer, "label": entry.label, **row} for row in prepared.rows]
    heads = [{**row, BATCH.key: of_batch.get((row["layer"], row["head"]))} for row in heads]
    facts: Row = {"checked": len(heads) // len(options.scorers), "unjudged": list(dict.fromkeys(unjudged))}
    if options.model is not None:
        facts |= {"model": "/".join(Path(options.model).parts[-2:]), "texts": len(options.texts)}
    result = Result(
        options.study,
        options.name,
        records,
        inputs=saved_inputs(options.data, layers[0].inputs) if isinstance(options.data, Data) else {},
        parameters=parameters,
        heads=heads,
        interrupted=outcome.interrupted,
        formulas=entry_formulas(options.scorers),
        random=random_labels(options.scorers, [scored.scorer for scored in layers[0].scored]),
        layers=prepared.source.numbers,
        capture=None if prepared.source.captured is None else prepared.source.captured.facts,
        summaries=prepared.summaries,
        facts=DoctorFacts(**facts),
    )
    texts = [layer for layer in layers if layer.name is not None and len(layer.inputs.keys) > 1]
    is_unknown = any(layer.padding is None and not layer.inputs.tokens.get("keys") for layer in texts)
    findings = [*map(signed_weights, dict.fromkeys(signed)), *doctor_findings(result)]
    return replace(result, findings=[*findings, Finding(UNKNOWN_PADDING)] if is_unknown else findings)


def _call(options: DoctorOptions, layer: Layer, scored: Scored) -> Call:
    """Return the attention of a scorer entry in a layer, on the CPU."""
    inputs, entry, rules = layer.inputs, scored.entry, scored.rules
    queries, keys, values = scored.seen(inputs)
    with seeded(options.seed, f"forward.{entry.seed_name}", queries.device):  # a scorer may have dropout
        scores = scored.scores(queries, keys)
    weights = rules.stages(scores)["weights"]
    output = rules.pooled(weights, values)
    scores, weights, output, valid = (
        four_axes(tensor.cpu()) for tensor in (scores, weights, output, rules.valid.whole)
    )
    before = inputs.call.scale if inputs.call is not None and entry.has_models_scale else scorer_scale(scored.scorer)
    factor = max(1.0, 1 / abs(before)) if before else 1.0  # a product is larger than its score if the scale is below 1
    largest = factor * scores.abs().masked_fill(~valid, 0.0).amax((0, 2, 3))
    documents = None if rules.valid.documents is None else rules.valid.documents.cpu()
    return Call(weights, output, valid, largest, layer.padding, inputs.first_query, layer.repeated, documents)


def _records(names: Sequence[Row], heads: Sequence[Head], layer: Layer) -> list[Row]:
    """Return a row for each finding in the heads."""
    rows = list[Row]()
    for name, head in zip(names, heads, strict=True):
        for check, value, limit in head.found:
            kind, meaning = check.kind, check.meaning
            if check.key == "duplicate" and head.twin is not None:
                meaning = f"As head {names[head.twin]['head']}. {meaning}"
            elif check is OVERFLOW and not math.isfinite(value):
                causes = [fault for role, fault in layer.inputs.faults.items() if role != "values"]
                if math.isnan(value):
                    meaning = f"Scores are NaN: {'; '.join(causes) or 'the scorer gave them'}."
                elif causes:
                    meaning = f"Scores are infinite: {'; '.join(causes)}."
            elif check.key == "padding" and head.on_words:
                kind, meaning = "remark", f"{_keys_in(layer.repeated)} repeat, and may be padding. {meaning}"
            elif check.key == "padding":
                meaning = f"{_keys_in(layer.padding)} are padding. {meaning}"
            rows.append({**name, "check": check.key, "kind": kind, "value": value, "limit": limit, "about": meaning})
        if not head.is_finite and not any(check is OVERFLOW for check, *_ in head.found):
            cause = layer.inputs.faults.get("values", "the normaliser gave such weights")
            row = {"check": OVERFLOW.key, "kind": OVERFLOW.kind, "value": math.nan, "limit": OVERFLOW.limit}
            rows.append({**name, **row, "about": f"Outputs are not finite: {cause}."})
    return rows


def _keys_in(padding: Tensor | None) -> str:
    """Return words for the keys (b, m) at padding in the first text that has any, such as `Text 1, keys 0 to 2`."""
    assert padding is not None, "there is weight on it"
    text = int(padding.any(-1).int().argmax())
    return f"Text {text}, keys {in_ranges(padding[text].nonzero()[:, 0].tolist())}"


# Sweeps collect the heads, since points differ in their findings.
STUDY = Study(
    prepare,
    run,
    tables,
    DoctorFacts,
    {"records": COLUMNS, "heads": HEADS},
    "uniform",
    swept="heads",
    titles={"records": "Found", "heads": "All heads"},
)
