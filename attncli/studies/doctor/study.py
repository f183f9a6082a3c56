"""Check the attention of every head for faults and remarkable patterns."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from attncli.attention import Rules
from attncli.catalogue.building import (
    entry_formulas,
    random_labels,
    scorer_scale,
    scoring_function,
    stored_parameters,
)
from attncli.catalogue.guarding import raw_scores
from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.config.tensors import CapturedData, Data
from attncli.core.device import resolve_device
from attncli.core.numbers import several
from attncli.core.seeding import seeded
from attncli.errors import below, in_ranges
from attncli.models.call import four_axes
from attncli.models.capture import Capture, evaluating
from attncli.models.fitted import check_for_model
from attncli.models.inputs import Inputs, build_for_inputs, call_inputs
from attncli.models.loading import load
from attncli.models.requests import model_request
from attncli.models.summaries import call_summaries
from attncli.models.tokens import padding_in
from attncli.results import CaptureFacts, Result, Row, signed_weights
from attncli.runtime import Progress, keep_finished
from attncli.scorers import Scorer
from attncli.sources.build import build_inputs, saved_inputs
from attncli.sources.captured import read_calls
from attncli.studies.doctor.batch import batch_rows, padded_batch
from attncli.studies.doctor.checks import BATCH, CHECKS, OVERFLOW
from attncli.studies.doctor.columns import COLUMNS, HEADS, DoctorFacts
from attncli.studies.doctor.findings import doctor_findings
from attncli.studies.doctor.heads import Call, Head, checked_heads
from attncli.studies.doctor.options import DoctorOptions
from attncli.studies.doctor.tables import tables
from attncli.studies.study import Study

Masks = tuple[Tensor | None, Tensor | None]  # (b, m) each: padding, and repeated words; None if there are none


@dataclass(frozen=True)
class CheckedCalls:
    """The inputs of one layer, with the scorer and the rules of each entry.

    `padding` (b, m) is True at padding, and `repeated` at words that may be.
    """

    inputs: Inputs
    layer: str | None
    padding: Tensor | None
    repeated: Tensor | None
    scorers: Sequence[Scorer]
    rules: Sequence[Rules]


@dataclass(frozen=True)
class PreparedDoctor:
    """The validated input of `run`; of a model `layers` has each layer's number, `summaries` what it does.

    `rows` are the findings of the check `batch`.
    """

    options: DoctorOptions
    calls: Sequence[CheckedCalls]
    device: torch.device
    layers: Mapping[str, int]
    capture: CaptureFacts | None = None
    summaries: Mapping[str, Row] = field(default_factory=dict)
    rows: Sequence[Row] = ()


@torch.no_grad()
def prepare(options: DoctorOptions, progress: Progress) -> PreparedDoctor:
    """Read or make the inputs, or run the model once; build the scorers."""
    progress.step(0, 1, "inputs")
    device = resolve_device(options.device)
    dtype: torch.dtype = getattr(torch, options.dtype or "float32")
    masked: list[tuple[Inputs, str | None, Masks]]
    layers, capture, summaries, rows = dict[str, int](), None, dict[str, Row](), list[Row]()
    if options.model is not None:
        masked, summaries, rows = _model_calls(options, device, progress)
        layers = {name: number for number, (_, name, _) in enumerate(masked) if name is not None}
    elif isinstance(options.data, CapturedData):
        with below("data"):
            captured, calls = read_calls(options.data, dtype, device)
        check_for_model(options.scorers, captured.about.get("model"), captured.texts, progress.note)
        masked = []
        for inputs in calls:
            assert inputs.call is not None, "captured"
            by_tokens, repeated = padding_in(inputs.tokens.get("keys"), len(inputs.keys))
            recorded = captured.padding(inputs.call)
            masked.append((inputs, inputs.call.name, (by_tokens, repeated) if recorded is None else (recorded, None)))
            summaries[inputs.call.name] = captured.summary(inputs.call)
        note_without_weights(captured.about.get("without_weights"), progress)
        about = {key: captured.about.get(key) for key in ("model", "text")}
        layers = {name: captured.numbers[name] for name in summaries}
        capture = CaptureFacts(file=captured.path.name, **about)
    else:
        assert options.data is not None, "validated"
        inputs = build_inputs(
            options.data,
            options.mask,
            options.tokens,
            seed=options.seed,
            dtype=dtype,
            device=device,
            matrices=2,  # scores and weights
            note=progress.note,
        )
        masked = [(inputs, None, padding_in(options.tokens.keys, len(inputs.keys)))]
    empty_row = "zero" if options.mask.empty_row == "error" else options.mask.empty_row  # a finding, not an error
    checked = [
        CheckedCalls(inputs, layer, *masks, *build_for_inputs(options.scorers, inputs, options.seed, empty_row))
        for inputs, layer, masks in masked
    ]
    return PreparedDoctor(options, checked, device, layers, capture, summaries, rows)


def _model_calls(
    options: DoctorOptions, device: torch.device, progress: Progress
) -> tuple[list[tuple[Inputs, str | None, Masks]], dict[str, Row], list[Row]]:
    """Run the model on all texts at once, and some alone.

    Return each call's inputs, name and padding, its summary by name, and the rows of the check `batch`.
    """
    assert options.model is not None, "validated"
    progress.step(0, 1, "the model")
    loading = {"dtype": options.dtype, "revision": options.revision, "device": device}
    request = model_request(options.model, options.texts, options.attn, **loading)
    check_for_model(options.scorers, request.name, options.texts, progress.note)
    with below("model"):
        loaded = load(request, max(len(options.texts), 1))
        (batch,) = loaded.batches
        with evaluating(loaded.model), Capture() as seen:
            seen.take_names(loaded.model)
            loaded.outputs(batch)
        seen.check()
    left_out = {call.name: call.problem for call in seen.records if call.problem is not None}
    for name, problem in {**left_out, **{missed.layer: missed.problem for missed in seen.missed}}.items():
        progress.note(f"warning: {name} is left out: {problem}")
    calls = [call for call in seen.records if call.problem is None]
    config = getattr(loaded.model, "config", None)
    special = {getattr(config, f"{name}_token_id", None) for name in ("pad", "eos")}
    note_without_weights(seen.without_weights, progress)
    masked: list[tuple[Inputs, str | None, Masks]] = [
        (call_inputs(call, torch.float32, device), call.name, _padding_in(batch, _size(call.keys), special))
        for call in calls
    ]
    summaries = call_summaries(calls, loaded.tokens, [padding for *_, (padding, _) in masked])
    padded = padded_batch(loaded, _padding_of_tokens(batch, special))
    names, outputs = (loaded.tokens or {}).get("keys"), {call.name: call.output for call in calls}
    with below("model"):
        return masked, summaries, [] if padded is None else batch_rows(padded, outputs, names, progress)


def _size(keys: Tensor) -> tuple[int, int]:
    return keys.shape[0], keys.shape[-2]


def _padding_of_tokens(batch: object, special: Collection[int | None]) -> Tensor | None:
    """Return the mask (b, width) of a batch's tokens at padding; without padding in its mask, repeated special ones."""
    inputs = batch if isinstance(batch, Mapping) else {}
    for key in ("attention_mask", "input_ids"):
        tokens = inputs.get(key)
        if isinstance(tokens, Tensor) and tokens.ndim == 2:
            padding, _ = _padding_in(batch, (tokens.shape[0], tokens.shape[1]), special)
            if padding is not None and bool(padding.any()):
                return padding
            without = {name: value for name, value in inputs.items() if name != "attention_mask"}
            return _padding_in(without, (tokens.shape[0], tokens.shape[1]), special)[0]
    return None


def note_without_weights(names: object, progress: Progress) -> None:
    """Note how many layers of a model have no attention weights, if any."""
    if isinstance(names, list) and names:
        progress.note(f"{several(len(names), 'layer')} without attention weights (linear attention, for example)")


def _padding_in(batch: object, size: tuple[int, int], special: Collection[int | None]) -> Masks:
    """Return masks (b, m) of padding and of repeated words, from a batch; None if they are unknown or do not fit.

    A fast tokenizer's output has the mask even if the mask was left out of the model's inputs. Without a mask, tokens
    that repeat at an end of a text may be padding; the model pads with `special` ones.
    """
    encoded = [encoding.attention_mask for encoding in getattr(batch, "encodings", None) or ()]
    inputs = batch if isinstance(batch, Mapping) else {}
    masks = encoded or inputs.get("attention_mask")
    if masks is not None:
        mask = torch.as_tensor(masks).cpu()
        return (mask == 0, None) if tuple(mask.shape) == size else (None, None)
    tokens = inputs.get("input_ids")
    if not isinstance(tokens, Tensor) or tuple(tokens.shape) != size:
        return None, None
    names = [[f"<{token}>" if token in special else str(token) for token in text] for text in tokens.tolist()]
    return padding_in(names, len(names))


@torch.no_grad()
def run(prepared: PreparedDoctor, progress: Progress) -> Result:
    """Check every head of every layer with every scorer; finished layers are kept if the user stops the run."""
    options, calls = prepared.options, prepared.calls
    records, heads, unjudged = list[Row](), list[Row](), list[str | None]()
    parameters, signed = dict[str, Tensor](), list[str]()
    with keep_finished(heads) as outcome:
        for index, call in enumerate(calls):
            progress.step(index, len(calls), call.layer or "heads")
            for position, (entry, scorer) in enumerate(zip(options.scorers, call.scorers, strict=True)):
                with below("scorers", position):
                    checked = checked_heads(_call(options, entry, call, position))
                place = {"scorer": entry.scorer, "label": entry.label, "layer": call.layer}
                names = [{**place, "head": head} for head in call.inputs.heads]
                for name, head in zip(names, checked, strict=True):
                    heads.append(name | {check.key: head.numbers.get(check.key) for check in CHECKS})
                records += _records(names, checked, call)
                parameters |= stored_parameters(entry, scorer)
                if any(head.is_signed for head in checked):
                    signed.append(entry.label)
                if not all(head.is_judged or head.is_signed for head in checked):
                    unjudged.append(call.layer)
    entry, of_batch = options.scorers[0], {(row["layer"], row["head"]): row["value"] for row in prepared.rows}
    records += [{"scorer": entry.scorer, "label": entry.label, **row} for row in prepared.rows]
    heads = [{**row, BATCH.key: of_batch.get((row["layer"], row["head"]))} for row in heads]
    facts = DoctorFacts(checked=len(heads) // len(options.scorers), unjudged=list(dict.fromkeys(unjudged)))
    findings = [signed_weights(label) for label in dict.fromkeys(signed)]
    if options.model is not None:
        model = "/".join(Path(options.model).parts[-2:])
        facts = DoctorFacts(model=model, texts=len(options.texts), **facts.data)
    result = Result(
        options.study,
        options.name,
        records,
        inputs=saved_inputs(options.data, calls[0].inputs) if isinstance(options.data, Data) else {},
        parameters=parameters,
        heads=heads,
        interrupted=outcome.interrupted,
        formulas=entry_formulas(options.scorers),
        random=random_labels(options.scorers, calls[0].scorers),
        layers=prepared.layers,
        capture=prepared.capture,
        summaries=prepared.summaries,
        facts=facts,
    )
    return replace(result, findings=[*findings, *doctor_findings(result)])


def _call(options: DoctorOptions, entry: ScorerEntry, call: CheckedCalls, position: int) -> Call:
    """Return the attention of a scorer entry, the entry at this position, in a layer, on the CPU."""
    inputs, rules, scorer = call.inputs, call.rules[position], call.scorers[position]
    queries, keys = inputs.of_entry(entry)
    with seeded(options.seed, f"forward.{entry.seed_name}", queries.device):  # a scorer may have dropout
        scores = raw_scores(scoring_function(entry, scorer), queries, keys)
    weights = rules.stages(scores)["weights"]
    output = rules.pooled(weights, rules.rounding.values(inputs.values))
    scores, weights, output, valid = (
        four_axes(tensor.cpu()) for tensor in (scores, weights, output, rules.valid.whole)
    )
    before = inputs.call.scale if inputs.call is not None and entry.has_models_scale else scorer_scale(scorer)
    factor = max(1.0, 1 / abs(before)) if before else 1.0  # a product is larger than its score if the scale is below 1
    largest = factor * scores.abs().masked_fill(~valid, 0.0).amax((0, 2, 3))
    documents = None if rules.valid.documents is None else rules.valid.documents.cpu()
    return Call(weights, output, valid, largest, call.padding, inputs.first_query, call.repeated, documents)


def _records(names: Sequence[Row], heads: Sequence[Head], call: CheckedCalls) -> list[Row]:
    """Return a row for each finding in the heads; dead queries share a row if all heads have equally many."""
    rows = list[Row]()
    for name, head in zip(names, heads, strict=True):
        for check, value, limit in head.found:
            kind, meaning = check.kind, check.meaning
            if check.key == "duplicate" and head.twin is not None:
                meaning = f"As head {names[head.twin]['head']}. {meaning}"
            elif check is OVERFLOW and not math.isfinite(value):
                causes = [fault for role, fault in call.inputs.faults.items() if role != "values"]
                if math.isnan(value):
                    meaning = f"Scores are NaN: {'; '.join(causes) or 'the scorer gave them'}."
                elif causes:
                    meaning = f"Scores are infinite: {'; '.join(causes)}."
            elif check.key == "padding" and head.on_words:
                kind, meaning = "remark", f"{_keys_in(call.repeated)} repeat, and may be padding. {meaning}"
            elif check.key == "padding":
                meaning = f"{_keys_in(call.padding)} are padding. {meaning}"
            rows.append({**name, "check": check.key, "kind": kind, "value": value, "limit": limit, "about": meaning})
        if not head.is_finite and not any(check is OVERFLOW for check, *_ in head.found):
            cause = call.inputs.faults.get("values", "the normaliser gave such weights")
            row = {"check": OVERFLOW.key, "kind": OVERFLOW.kind, "value": math.nan, "limit": OVERFLOW.limit}
            rows.append({**name, **row, "about": f"Outputs are not finite: {cause}."})
    dead = [row for row in rows if row["check"] == "dead_query"]
    if len(names) > 1 and len(dead) == len(names) and len({row["value"] for row in dead}) == 1:
        rows = [{**dead[0], "head": None}, *(row for row in rows if row["check"] != "dead_query")]
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
