"""Fit scorers to the attention of a trained model, head by head, and measure the model with them inside."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attncli.catalogue.building import entry_columns, formulas_of
from attncli.catalogue.fitted import FittedFacts, FittedLayer, text_hashes
from attncli.catalogue.scorer_entries import MODEL, ScorerEntry
from attncli.core.device import resolve_device
from attncli.core.numbers import several
from attncli.core.seeding import generator
from attncli.errors import InputError, below, got
from attncli.models.capture import Capture, evaluating
from attncli.models.changes import Changes
from attncli.models.fitted import FittedScorers, check_for_model
from attncli.models.inputs import Inputs, inputs_of
from attncli.models.loading import LoadedModel, Request, load
from attncli.models.outputs import OutputKind, Outputs, Runner
from attncli.models.requests import chosen_calls, request_of
from attncli.models.swap import Swap, swap_entry
from attncli.models.texts import drawn, text_count, with_texts
from attncli.results import CaptureFacts, Column, Result, Row
from attncli.runtime import Progress, keep_finished
from attncli.sources.captured import read_calls
from attncli.studies.fit.calls import LayerCalls
from attncli.studies.fit.columns import BEFORE, COLUMNS, FitFacts, fit_columns
from attncli.studies.fit.findings import fit_findings
from attncli.studies.fit.fitting import Best, KeysAlone, LayerFit, convex_factor, descend, measure, solve, starts
from attncli.studies.fit.options import KEYS_ALONE, REFERENCES, UNIFORM, FitOptions, may_drop_keys
from attncli.studies.fit.tables import tables
from attncli.studies.study import Study

CPU = torch.device("cpu")  # everything is fitted there


@dataclass(frozen=True)
class PreparedFit:
    """The validated input of `run`: the calls of each layer, and the numbers of the texts to learn from and held out.

    `held_out_batches` are the model's inputs for the texts held out, if there is a model to run. `texts` are the texts
    themselves, if known.
    """

    options: FitOptions
    calls: Sequence[LayerCalls]
    training: Tensor
    held_out: Tensor
    model: str
    texts: Sequence[str]
    held_out_batches: Sequence[Any]
    originals: Sequence[Outputs]
    runner: Runner | None
    device: torch.device
    capture: CaptureFacts | None = None

    def __post_init__(self) -> None:
        sizes = {(calls.inputs.queries.shape[-1], calls.inputs.keys.shape[-1]) for calls in self.calls}
        if self.options.per == "all" and len(sizes) > 1:
            cure = "use per: layer, or choose `layers` of one size"
            raise InputError.of(got("all", "the layers have queries and keys of different sizes", cure), ["per"])

    @property
    def kind(self) -> OutputKind | None:
        """The kind of the model's outputs; None if there is no model to run."""
        return self.originals[0].kind if self.originals else None

    @property
    def columns(self) -> Sequence[Column]:
        """The columns of the rows."""
        return fit_columns(*([] if self.kind is None else [self.kind]))

    @property
    def layers(self) -> dict[str, int]:
        """The number of each layer by name."""
        return {calls.name: calls.number for calls in self.calls}


def prepare(options: FitOptions, progress: Progress) -> PreparedFit:
    """Read the captured calls, or load the model and run it once on all texts."""
    progress.step(0, 1, "loading the model")
    device = resolve_device(options.device)
    check_for_model(options.scorers, None, [], progress.note)
    if options.model is not None:
        texts = list(dict.fromkeys(options.texts))  # the same text must not be in both parts
        more = {"dtype": options.dtype, "revision": options.revision, "device": device, "has_head": True}
        request = request_of(options.model, texts, options.attn, **more)
        with below("model"):
            loaded = load(request, options.batch_size)
        return prepare_loaded(options, loaded, texts, request.name, progress)
    assert options.data is not None, "validated"
    with below("data"):
        captured, inputs = read_calls(options.data, torch.float32, CPU)
    count = len(inputs[0].queries)
    texts = [*captured.texts] if len(captured.texts) == count else []  # a text may be cut into several batch elements
    calls = [_joined([layer], captured.numbers, [count]) for layer in inputs]
    model = Request(str(captured.about.get("model") or captured.path.stem)).name
    about = CaptureFacts(file=captured.path.name, **{key: captured.about.get(key) for key in ("model", "text")})
    parts = _split(options, count, texts, "data", progress)
    return PreparedFit(options, calls, *parts, model, texts, [], [], None, device, about)


def prepare_loaded(
    options: FitOptions, loaded: LoadedModel, texts: Sequence[str], model: str, progress: Progress
) -> PreparedFit:
    """Run a loaded model on its batches, and keep its attention calls."""
    counts = [text_count(batch) for batch in loaded.batches]
    if texts and len(texts) != sum(counts):
        expected = f"expected {sum(counts)}, one for each entry of the batches"
        raise InputError.of(f"got {several(len(texts), 'text')}; {expected}", ["texts"])
    training, held_out = _split(options, sum(counts), texts, "texts", progress)
    captured, problems = dict[str, list[Inputs]](), dict[str, str]()
    with evaluating(loaded.model), below("model"), torch.no_grad():
        for index, batch in enumerate(loaded.batches):
            progress.step(index, len(loaded.batches), "the model as it is")
            with Capture() as seen:
                seen.take_names(loaded.model)
                loaded.outputs(batch)
            seen.check()
            for record in seen.records:
                if record.problem is None:
                    captured.setdefault(record.name, []).append(inputs_of(record, torch.float32, CPU))
            problems |= {call.name: str(call.problem) for call in seen.records if call.problem is not None}
            problems |= {call.layer: call.problem for call in seen.missed}
        for name, problem in problems.items():
            progress.note(f"warning: {name} is left out: {problem}")
            captured.pop(name, None)
        starts_at = torch.tensor([0, *counts]).cumsum(0).tolist()
        batches, runner = [], Runner(loaded)
        for first, count, batch in zip(starts_at, counts, loaded.batches, strict=False):
            inside = held_out[(held_out >= first) & (held_out < first + count)] - first
            if len(inside):
                batches.append(with_texts(batch, inside, count))
        originals = [runner.run(batch) for batch in batches]
    heads = {name: inputs[0].queries.shape[1] for name, inputs in captured.items()}
    numbers = {name: number for number, name in enumerate(captured)}
    calls = list[LayerCalls]()
    for name in chosen_calls(options.layers, options.heads, heads, problems, loaded.prefix):
        parts_of_call = captured[name]
        if options.heads is not None:
            some = [part.call.of_heads(options.heads) for part in parts_of_call if part.call is not None]
            parts_of_call = [inputs_of(call, torch.float32, CPU) for call in some]
        calls.append(_joined(parts_of_call, numbers, counts))
    device = next((parameter.device for parameter in loaded.model.parameters()), CPU)
    parts = (training, held_out, model, texts, batches, originals, runner, device)
    return PreparedFit(options, calls, *parts)


def _joined(batches: Sequence[Inputs], numbers: Mapping[str, int], counts: Sequence[int]) -> LayerCalls:
    call = batches[0].call
    assert call is not None, "of a model"
    return LayerCalls.joined(call.name, numbers[call.name], batches, counts)


def _split(
    options: FitOptions, count: int, texts: Sequence[str], where: str, progress: Progress
) -> tuple[Tensor, Tensor]:
    """Return the numbers of the texts to learn from and of the texts held out, drawn from the seed."""
    if count < 2:
        cure = "expected at least two, one of them to be held out"
        raise InputError.of(f"got {several(count, 'text')}; {cure}", [where])
    training, rest = drawn(count, options.held_out, options.seed)
    if texts and (both := {texts[index] for index in training.tolist()} & {texts[index] for index in rest.tolist()}):
        what = several(len(both), "text") + (" is" if len(both) == 1 else " are")
        progress.note(f"warning: {what} in training and held out, too; figures would be worse for other texts")
    return training, rest


def run(prepared: PreparedFit, progress: Progress) -> Result:
    """Fit every entry, and run the model with it inside; finished entries are kept if the user stops the run.

    Raises:
        InputError: a scorer fails.
    """
    options, alone = prepared.options, swap_entry({"scorer": KeysAlone, "label": KEYS_ALONE})
    entries = [(entry_columns(entry), entry) for entry in (swap_entry(MODEL), *options.scorers, swap_entry(UNIFORM))]
    entries.append(({**entry_columns(alone), "scorer": KEYS_ALONE}, alone))
    records, parameters = list[Row](), dict[str, Tensor]()
    facts = _facts(prepared)
    places: list[Row] = [
        {"by": "head", "layer": calls.name, "head": head} for calls in prepared.calls for head in calls.heads
    ]
    places += [{"by": "all", "layer": None, "head": None}] if prepared.originals else []
    reference: Changes | None = None
    with keep_finished(records) as kept:
        for index, (names, entry) in enumerate(entries):
            with below(*(("scorers", index - 1) if 0 < index <= len(options.scorers) else ())):

                def step(share: float, label: str = names["label"], before: int = index) -> None:
                    progress.step(int(100 * (before + share)), 100 * len(entries), label)

                rows, learnt = _fitted(prepared, entry, step)
                if prepared.runner is not None:
                    after = _inside(prepared, entry, FittedScorers(facts, learnt))
                    reference = reference or after
                    unfitted = _inside(prepared, entry, None) if learnt else after
                    new, old = after.record(reference), unfitted.record(reference)
                    rows.append({**new, **{key + BEFORE: value for key, value in old.items()}})
                made = [{**names, **place, **row} for place, row in zip(places, rows, strict=True)]
                parameters |= learnt if names["label"] in facts.entries else {}
                records += [{column.key: row.get(column.key) for column in prepared.columns} for row in made]
    finished = [label for label in facts.entries if any(row["label"] == label for row in records)]
    result = Result(
        options.study,
        options.name,
        records,
        parameters=parameters,
        interrupted=kept.interrupted,
        formulas=formulas_of([entry for _, entry in entries]),
        layers=prepared.layers,
        capture=prepared.capture,
        facts=FitFacts(
            model=prepared.model,
            texts=len(prepared.training),
            held_out=len(prepared.held_out),
            kind=prepared.kind,
            fitted=facts.model_copy(update={"entries": {label: facts.entries[label] for label in finished}}),
        ),
    )
    return replace(result, findings=fit_findings(result))


def _facts(prepared: PreparedFit) -> FittedFacts:
    config = prepared.options.model_dump(
        mode="json", by_alias=True, exclude_none=True, serialize_as_any=True, exclude=prepared.options.unused()
    )
    hashes = text_hashes(prepared.texts)
    return FittedFacts(
        model=prepared.model,
        texts=hashlib.sha256("\n".join(prepared.texts).encode()).hexdigest() if prepared.texts else None,
        trained_on=[hashes[text] for text in prepared.training.tolist()] if hashes else [],
        entries={written["label"]: written for written in config["scorers"]},
        layers={
            calls.name: FittedLayer(
                number=calls.number,
                heads=[*calls.heads],
                query_size=calls.inputs.queries.shape[-1],
                key_size=calls.inputs.keys.shape[-1],
            )
            for calls in prepared.calls
        },
    )


def _fitted(
    prepared: PreparedFit, entry: ScorerEntry, step: Callable[[float], None]
) -> tuple[list[Row], dict[str, Tensor]]:
    """Fit an entry to all layers; return a row of figures for each head, and the learnt parameters."""
    options = prepared.options
    drops = may_drop_keys(entry)
    by_output = options.objective == "output" or (options.objective == "auto" and drops)
    fits = starts(entry, prepared.calls, swap_entry(MODEL), options.per, options.seed, by_output=by_output)
    texts = [
        [torch.isin(calls.texts, some).nonzero()[:, 0] for some in (prepared.training, prepared.held_out)]
        for calls in prepared.calls
    ]
    before = [measure(fit, held_out) for fit, (_, held_out) in zip(fits, texts, strict=True)]
    groups = [[*range(len(fits))]] if options.per == "all" else [[index] for index in range(len(fits))]
    for number, group in enumerate(groups):

        def done(share: float, before: int = number) -> None:
            step((before + share) / len(groups))

        done(0.0)
        some = [fits[index] for index in group]
        _fit(options, some, texts[group[0]][0], by_output, done)
    rows, learnt = list[Row](), dict[str, Tensor]()
    for fit, old, (training, held_out) in zip(fits, before, texts, strict=True):
        new, trained = measure(fit, held_out), measure(fit, training)
        calls, heads = fit.calls.calls, len(fit.calls.calls.heads)
        values = {
            name: tensor.detach().expand(heads, *tensor.shape[1:]).clone() for name, tensor in fit.learnt.values.items()
        }
        learnt |= {f"{entry.label}/{calls.name}/{name}": tensor for name, tensor in values.items()}
        count = sum(tensor[0].numel() for tensor in values.values())
        for head in range(heads):
            row: Row = {"parameters": count} | {key: new[key][head] for key in ("outside", "top1_agreement")}
            row |= {"output_l2": new["output_l2"][head], "output_l2_before": old["output_l2"][head]}
            if not drops:
                row |= {"kl": new["kl"][head], "kl_before": old["kl"][head], "kl_train": trained["kl"][head]}
            rows.append(row)
    return rows, learnt


def _fit(
    options: FitOptions, fits: Sequence[LayerFit], texts: Tensor, by_output: bool, done: Callable[[float], None]
) -> None:
    """Fit in place: a factor alone by Newton's method, anything else from there by gradient descent.

    The best numbers that were seen are kept, so no head is worse on these texts than before.
    """
    label, names = fits[0].calls.entry.label, {*fits[0].learnt.raw}
    if not names:
        return
    best = Best(fits, texts, by_output)
    best.look()
    option = None if by_output else convex_factor(fits[0])
    if option is not None:
        solve(fits, option, texts)
        best.look()
        names.discard(option)
    if names:
        where = "" if options.per == "all" else f".{fits[0].calls.calls.name}"
        descend(fits, texts, options.steps, by_output, generator(options.seed, f"fit.{label}{where}"), done)
        best.look()
    best.put()


def _inside(prepared: PreparedFit, entry: ScorerEntry, fitted: FittedScorers | None) -> Changes:
    """Run the model on the texts held out with an entry in the fitted layers, and return the changes of its outputs."""
    assert prepared.runner is not None, "a model"
    loaded, options = prepared.runner.loaded, prepared.options
    changes = Changes(loaded.pooling)
    with evaluating(loaded.model), torch.no_grad():
        for batch, original in zip(prepared.held_out_batches, prepared.originals, strict=True):
            with Swap(entry, None, [*prepared.layers], options.heads, seed=options.seed, fitted=fitted) as swap:
                swap.take_names(loaded.model)
                new = prepared.runner.run(batch)
            changes.add(original, new)
    return changes


STUDY = Study(prepare, run, tables, FitFacts, {"records": COLUMNS}, "kl", references=REFERENCES)
