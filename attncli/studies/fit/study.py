"""Fit scorers to the attention of a trained model, head by head, and measure the model with them inside."""

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import psutil
import torch
from torch import Tensor

from attncli.catalogue.building import entry_columns, entry_formulas
from attncli.catalogue.fitted import FittedFacts, text_hashes
from attncli.catalogue.scorer_entries import MODEL, ScorerEntry
from attncli.core.device import resolve_device
from attncli.core.numbers import rough_duration, several
from attncli.core.seeding import generator
from attncli.errors import InputError, below, got
from attncli.models.capture import evaluating
from attncli.models.changes import Changes, add_each
from attncli.models.fitted import FittedScorers, check_for_model
from attncli.models.loading import LoadedModel, Request
from attncli.models.outputs import OutputKind, Outputs, Runner
from attncli.models.requests import chosen_calls, load_model
from attncli.models.spool import Spool, SpooledCapture
from attncli.models.swap import Swap, swap_entry
from attncli.models.texts import drawn, text_count, with_texts
from attncli.results import CaptureFacts, Column, Result, Row
from attncli.runtime import Progress, keep_finished
from attncli.sources.opening import open_captured
from attncli.studies.fit.calls import LayerCalls
from attncli.studies.fit.columns import BEFORE, COLUMNS, FitFacts, fit_columns
from attncli.studies.fit.findings import fit_findings
from attncli.studies.fit.fitting import (
    Best,
    KeysAlone,
    LayerFit,
    convex_factor,
    descend,
    mean_losses,
    measure,
    solve,
    starts,
)
from attncli.studies.fit.options import KEYS_ALONE, REFERENCES, UNIFORM, FitOptions, may_drop_keys
from attncli.studies.fit.tables import tables
from attncli.studies.study import Study

CPU = torch.device("cpu")  # everything is fitted there


@dataclass(frozen=True)
class PreparedFit:
    """The validated input of `run`: the calls of the layers, and the numbers of the texts to learn from and held out.

    `held_out_batches` are the model's inputs for the texts held out, if there is a model to run. `texts` are the texts
    themselves, if known.
    """

    options: FitOptions
    calls: Spool
    training: Tensor
    held_out: Tensor
    model: str
    texts: Sequence[str]
    held_out_batches: Sequence[Any]
    originals: Sequence[Outputs]
    seconds: float  # of the run that gave them
    runner: Runner | None
    device: torch.device
    capture: CaptureFacts | None = None

    def __post_init__(self) -> None:
        sizes = {(layer.query_size, layer.key_size) for layer in self.calls.layers.values()}
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
        return {name: layer.number for name, layer in self.calls.layers.items()}


def prepare(options: FitOptions, progress: Progress) -> PreparedFit:
    """Read the captured calls, or load the model and run it once on all texts."""
    progress.step(0, 1, "loading the model")
    device = resolve_device(options.device)
    check_for_model(options.scorers, None, [], progress.note)
    if options.model is not None:
        texts = list(dict.fromkeys(options.texts))  # a text must not be in training and held out
        where = (options.attn, options.revision, options.batch_size)
        loaded = load_model(options, options.model, texts, *where, has_head=True)
        return prepare_loaded(options, loaded, texts, Request(options.model).name, progress)
    assert options.data is not None, "validated"
    source = open_captured(options.data, torch.float32, CPU)
    captured, count = source.captured, len(source.layers[0].inputs.queries)
    assert captured is not None, "opened"
    texts = [*captured.texts] if len(captured.texts) == count else []  # a text may be cut into several batch elements
    calls = Spool()
    for layer in source.layers:
        assert layer.inputs.call is not None, "of a model"
        calls.add(layer.inputs.call, range(count))
    model = Request(str(captured.about.get("model") or captured.path.stem)).name
    split = _split(options, count, texts, "data", progress)
    return PreparedFit(options, calls, *split, model, texts, [], [], 0.0, None, device, captured.facts)


def prepare_loaded(
    options: FitOptions, loaded: LoadedModel, texts: Sequence[str], model: str, progress: Progress
) -> PreparedFit:
    """Run a loaded model on its batches, and keep its attention calls."""
    counts = [text_count(batch) for batch in loaded.batches]
    if texts and len(texts) != sum(counts):
        expected = f"expected {sum(counts)}, one for each entry of the batches"
        raise InputError.of(f"got {several(len(texts), 'text')}; {expected}", ["texts"])
    training, held_out = _split(options, sum(counts), texts, "texts", progress)
    calls, problems, runner = Spool(options.layers, options.heads, loaded.prefix), dict[str, str](), Runner(loaded)
    batch_numbers = torch.split(torch.tensor(loaded.order or range(sum(counts))), counts)  # of the texts in each batch
    with evaluating(loaded.model), below("model"), torch.no_grad():
        inside = [torch.isin(numbers, held_out).nonzero()[:, 0] for numbers in batch_numbers]
        batches = [
            with_texts(batch, chosen, count)
            for batch, chosen, count in zip(loaded.batches, inside, counts, strict=False)
            if len(chosen)
        ]
        started = time.perf_counter()
        originals = [runner.run(batch) for batch in batches]
        seconds = time.perf_counter() - started
        for index, (batch, numbers) in enumerate(zip(loaded.batches, batch_numbers, strict=False)):
            progress.step(index, len(counts), "the model as it is")
            with SpooledCapture(calls, numbers.tolist()) as seen:
                seen.take_names(loaded.model)
                runner.run(batch, originals[0])
            seen.check()
            problems |= {call.name: str(call.problem) for call in seen.records if call.problem is not None}
            problems |= {call.layer: call.problem for call in seen.missed}
    for name, problem in problems.items():
        progress.note(f"warning: {name} is left out: {problem}")
        calls.layers.pop(name, None)
        calls.counts.pop(name, None)
    chosen_calls(options.layers, options.heads, calls.counts, problems, loaded.prefix)
    split = (training, held_out, model, texts, batches, originals, seconds, runner)
    return PreparedFit(options, calls, *split, loaded.device)


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
    """Fit every entry, layer by layer, and run the model with it inside.

    If the user stops the run, finished layers are kept, or else finished labels inside the model.

    Raises:
        InputError: a scorer fails.
    """
    options, layers, entries = prepared.options, prepared.layers, fit_entries(prepared.options)
    groups = [[*layers]] if options.per == "all" else [[name] for name in layers]
    records, parameters, facts, reference = list[Row](), dict[str, Tensor](), _facts(prepared), None
    total = len(entries) * (len(groups) + bool(prepared.originals))

    def stepped(number: int, index: int, share: float = 0.0) -> None:
        """Report the progress: the share of an entry that is done, in a group of layers or, last, in the model."""
        progress.step(int(100 * (len(entries) * number + index + share)), 100 * total, entries[index].entry.label)

    def is_learnt(label: str) -> bool:
        return any(name.startswith(f"{label}/") for name in parameters)

    if options.per == "all":
        memory = psutil.Process().memory_info().rss + sum(prepared.calls.sizes.values())
        progress.note(f"`per: all` holds all {several(len(layers), 'layer')} in memory: {memory / 2**30:.1f} GiB")
    started = time.perf_counter()
    with keep_finished(records) as ending:
        for number, group in enumerate(groups):
            rows, learnt = _fit_layers(prepared, entries, group, partial(stepped, number))
            records += rows
            parameters |= learnt
            if number == 0 and options.per != "all":
                runs = len(entries) + sum(is_learnt(each.entry.label) for each in entries)
                progress.note(_estimate(prepared, time.perf_counter() - started, runs))
        for index, each in enumerate(entries if prepared.originals else ()):
            stepped(len(groups), index)
            unfitted = [None] * is_learnt(each.entry.label)
            with below(*each.path):
                after, *others = _inside(prepared, each.entry, [FittedScorers(facts, parameters), *unfitted])
            reference = reference or after
            new, old = (changes.record(reference) for changes in (after, *others, after)[:2])
            place = {"by": "all", "layer": None, "head": None}
            records.append({**each.columns, **place, **new, **{key + BEFORE: value for key, value in old.items()}})
    labels = [each.entry.label for each in entries]
    records.sort(key=lambda row: labels.index(row["label"]))
    finished = {row["layer"] for row in records}
    layers_of_file = {name: layer for name, layer in facts.layers.items() if name in finished}
    result = Result(
        options.study,
        options.name,
        [{column.key: row.get(column.key) for column in prepared.columns} for row in records],
        parameters={name: each for name, each in parameters.items() if not name.startswith(f"{KEYS_ALONE}/")},
        interrupted=ending.interrupted,
        formulas=entry_formulas([each.entry for each in entries]),
        layers={name: number for name, number in layers.items() if name in finished},
        capture=prepared.capture,
        facts=FitFacts(
            model=prepared.model,
            texts=len(prepared.training),
            held_out=len(prepared.held_out),
            kind=prepared.kind,
            fitted=facts.model_copy(update={"layers": layers_of_file}),
        ),
    )
    return replace(result, findings=fit_findings(result))


@dataclass(frozen=True)
class FitEntry:
    """An entry of the config or a reference: its columns in the rows, and its path in the config, if any."""

    entry: ScorerEntry
    columns: Row
    path: Sequence[str | int] = ()


def fit_entries(options: FitOptions) -> list[FitEntry]:
    """Return the model's own scorer, the entries of the config, uniform weights, and keys alone."""
    own, uniform = (FitEntry(entry, entry_columns(entry)) for entry in map(swap_entry, (MODEL, UNIFORM)))
    alone = swap_entry({"scorer": KeysAlone, "label": KEYS_ALONE})
    written = [FitEntry(entry, entry_columns(entry), ("scorers", index)) for index, entry in enumerate(options.scorers)]
    return [own, *written, uniform, FitEntry(alone, {**entry_columns(alone), "scorer": KEYS_ALONE})]


def _fit_layers(
    prepared: PreparedFit, entries: Sequence[FitEntry], names: Sequence[str], stepped: Callable[..., None]
) -> tuple[list[Row], dict[str, Tensor]]:
    """Fit every entry to layers; return the rows of their heads, and the learnt parameters by label, layer and name.

    `stepped` is called with the number of an entry, and with the share that is done if that is not 0.
    """
    calls = [LayerCalls.read(prepared.calls, name, prepared.training, prepared.held_out) for name in names]
    rows, learnt = list[Row](), dict[str, Tensor]()
    for index, each in enumerate(entries):
        stepped(index)
        with below(*each.path):
            of_entry, tensors = _fitted(prepared, calls, each.entry, partial(stepped, index))
        rows += [{**each.columns, **row} for row in of_entry]
        learnt |= {f"{each.entry.label}/{name}": tensor for name, tensor in tensors.items()}
    return rows, learnt


def _estimate(prepared: PreparedFit, seconds: float, runs: int) -> str:
    """Return the time and memory of all the work in words, given the time of the first layer and the runs after it."""
    text = f"{several(len(prepared.layers), 'layer')} of about {rough_duration(seconds)}"
    if prepared.originals:
        text += f" and {several(runs, 'run')} of the model of about {rough_duration(prepared.seconds)}"
    whole = rough_duration(len(prepared.layers) * seconds + runs * prepared.seconds)
    return f"{text}: {whole} and {psutil.Process().memory_info().rss / 2**30:.1f} GiB"


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
        layers=prepared.calls.layers,
    )


def _fitted(
    prepared: PreparedFit, calls: Sequence[LayerCalls], entry: ScorerEntry, step: Callable[[float], None]
) -> tuple[list[Row], dict[str, Tensor]]:
    """Fit an entry to layers; return a row of figures for each head, and the learnt parameters by layer and name."""
    options = prepared.options
    drops = may_drop_keys(entry)
    by_output = options.objective == "output" or (options.objective == "auto" and drops)
    fits = starts(entry, calls, options.per, options.seed, by_output=by_output)
    before = [measure(fit) for fit in fits]
    best = _fit(options, entry.label, fits, by_output, step)
    rows, learnt = list[Row](), dict[str, Tensor]()
    for index, (fit, old) in enumerate(zip(fits, before, strict=True)):
        heads = prepared.calls.layers[fit.name].heads
        figures = {**(measure(fit) if fit.learnt.raw else old), **{key + BEFORE: value for key, value in old.items()}}
        figures["kl_train"] = mean_losses(fit, False) if by_output or best is None else best[index]
        values = {
            name: tensor.detach().expand(fit.heads, *tensor.shape[1:]).clone()
            for name, tensor in fit.learnt.values.items()
        }
        learnt |= {f"{fit.name}/{name}": tensor for name, tensor in values.items()}
        count = sum(tensor[0].numel() for tensor in values.values())
        for position, head in enumerate(heads):
            row: Row = {"by": "head", "layer": fit.name, "head": head, "parameters": count}
            of_head = {key: float(values[position]) for key, values in figures.items()}
            row |= {key: None if math.isnan(value) else value for key, value in of_head.items()}
            rows.append(row | (dict.fromkeys(("kl", "kl" + BEFORE, "kl_train")) if drops else {}))
    return rows, learnt


def _fit(
    options: FitOptions, label: str, fits: Sequence[LayerFit], by_output: bool, done: Callable[[float], None]
) -> Tensor | None:
    """Fit in place: a factor alone by Newton's method, anything else from there by gradient descent.

    The best numbers that were seen are kept, so no head is worse on these texts than before. Return their losses
    (layers, heads); None if there is nothing to learn.
    """
    names = {*fits[0].learnt.raw}
    if not names:
        return None
    best = Best(fits, by_output)
    best.look()
    option = None if by_output else convex_factor(fits[0])
    if option is not None:
        solve(fits, option)
        best.look()
        names.discard(option)
    if names:
        where = "" if options.per == "all" else f".{fits[0].name}"
        descend(fits, options.steps, by_output, generator(options.seed, f"fit.{label}{where}"), done)
        best.look()
    best.put()
    return best.figures


def _inside(prepared: PreparedFit, entry: ScorerEntry, each: Sequence[FittedScorers | None]) -> list[Changes]:
    """Run the model on the texts held out with an entry in the fitted layers, fitted in each way or (None) unfitted.

    Return the changes of its outputs.
    """
    assert prepared.runner is not None, "a model"
    loaded, options = prepared.runner.loaded, prepared.options
    changes = [Changes(loaded.pooling) for _ in each]
    with evaluating(loaded.model), torch.no_grad():
        for batch, original in zip(prepared.held_out_batches, prepared.originals, strict=True):
            news = list[Outputs]()
            for fitted in each:
                with Swap(entry, None, [*prepared.layers], options.heads, seed=options.seed, fitted=fitted) as swap:
                    swap.take_names(loaded.model)
                    news.append(prepared.runner.run(batch, original))
            add_each(changes, original, news)
    return changes


STUDY = Study(prepare, run, tables, FitFacts, {"records": COLUMNS}, "kl", references=REFERENCES)
