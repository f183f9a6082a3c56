"""Run a model with its attention replaced, everywhere or layer by layer, and compare its outputs with its own."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import psutil
import torch
from torch import nn

from attncli.catalogue.building import entry_columns, entry_formulas, random_labels
from attncli.catalogue.plans import PlanEntry
from attncli.catalogue.scorer_entries import MODEL, ScorerEntry
from attncli.config.values import layer_choice
from attncli.core.numbers import number, rough_duration
from attncli.errors import Collector, InputError, below
from attncli.models.call import AttentionCall
from attncli.models.capture import evaluating
from attncli.models.changes import Changes, add_each
from attncli.models.fitted import check_for_model
from attncli.models.loading import LoadedModel
from attncli.models.outputs import Metric, Outputs, Runner
from attncli.models.requests import calls_in, chosen_calls, load_model
from attncli.models.swap import UNIFORM, ZERO, Swap, swap_entry
from attncli.results import Result, Row
from attncli.runtime import Counter, Progress, keep_finished
from attncli.scorers import Scorer
from attncli.studies.study import Study
from attncli.studies.swap.blocks import KEPT, Blocks
from attncli.studies.swap.columns import COLUMNS, SwapFacts
from attncli.studies.swap.findings import swap_findings
from attncli.studies.swap.options import REFERENCES, By, SwapOptions
from attncli.studies.swap.tables import tables
from attncli.studies.swap.within import candidates, longest_prefix, split, written_plan

TOLERANCE, ROUNDINGS = 1e-4, 16  # relative L2 of the model's own scorer inside: in float32; in eps of other dtypes
GROUP = 8  # runs that are compared together, with the model's own logits made once for them
NO_OUTPUT: Row = {"scorer": ZERO, "label": ZERO, "normalizer": "none"}


@dataclass(frozen=True)
class Target:
    """Where an entry is put: in all layers, in one layer or head, or in all layers up to or from a layer."""

    by: By | Literal["within"]
    layers: Sequence[str]
    layer: str | None = None
    head: int | None = None

    @property
    def record(self) -> Row:
        """Return the columns that name the target."""
        return {"by": self.by, "layer": self.layer, "head": self.head}


class EntryRun(NamedTuple):
    """An entry with its columns and where it is put; `path` is its place in the config, empty for a reference."""

    path: tuple[str | int, ...]
    columns: Row
    entry: ScorerEntry | str
    target: Target


@dataclass(frozen=True)
class PreparedSwap:
    """The validated input of `run`: the model, its own outputs for each batch, and its attention calls.

    `runner` runs the model on a batch. `heads` has the number of heads of each call by name, in the order of the calls.
    `readings` has, for each batch, the reading (interpretation of arguments) that reproduces the output of each call,
    by name. `problems` has why other attention keeps its own outputs, by layer. `chosen` has the
    names of the calls to replace. `blocks` are the blocks of the model, if it consists of blocks.
    """

    options: SwapOptions
    loaded: LoadedModel
    runner: Runner
    originals: Sequence[Outputs]
    heads: Mapping[str, int]
    problems: Mapping[str, str]
    readings: Sequence[Mapping[str, AttentionCall]]
    chosen: Sequence[str]
    blocks: Blocks
    held_out: "PreparedSwap | None" = None  # the same for the texts held out

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return self.loaded.device

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each call, in the order of the calls, by name."""
        return {name: number for number, name in enumerate(self.heads)}

    def plain(self, batch: Any, own: Outputs) -> Outputs:
        """Run a batch as the model is, but watched, as in the run that gave the outputs `own`."""
        with Survey() as survey:
            survey.take_names(self.loaded.model)
            return self.runner.run(batch, own)

    def estimate(self, seconds: float) -> str:
        """Return the time and memory of all passes in words, given the time of the first one."""
        shares = [1.0, *(self.blocks.share(target.layers[0]) for *_, target in self.runs)]
        shares += [1.0] * self.joint_passes
        total, (main, head) = seconds * sum(shares), (self.originals[0].main, self.originals[0].head)
        size = sum(own.main.nbytes for own in self.originals if own.main is not None)
        added = size * (1 if head is None else GROUP)
        added += min(size * len(self.blocks.modules), KEPT) if min(shares) < 1 else 0
        added += 0 if main is None or head is None else main.nbytes // head.in_features * head.out_features
        memory = f"{(psutil.Process().memory_info().rss + added) / 2**30:.1f} GiB"
        each, whole = rough_duration(total / len(shares)), rough_duration(total)
        text = f"{len(shares):,} passes of about {each}: {whole} and {memory}"
        is_long = {*self.options.by} != {"all"}
        entries = len(self.options.scorers) + 2
        return f"{text}; `--by all` alone {rough_duration(seconds * (1 + entries))}" if is_long else text

    @property
    def joint_passes(self) -> int:
        """About how many passes the plans of all entries take."""
        is_searching = self.options.within is not None
        return len(self.options.scorers) * (len(self.chosen).bit_length() + 1) if is_searching else 0

    @property
    def runs(self) -> list[EntryRun]:
        """The runs of the config's entries, then of the references.

        The references choose no plan: with `within` they are not put into each layer.
        """
        entries: list[tuple[Row, ScorerEntry | str]] = [
            *((entry_columns(entry), entry) for entry in (*self.options.scorers, swap_entry(UNIFORM))),
            (NO_OUTPUT, ZERO),
        ]
        runs = list[EntryRun]()
        for index, (columns, entry) in enumerate(entries):
            path: tuple[str | int, ...] = ("scorers", index) if index < len(self.options.scorers) else ()
            for by in self.options.by:
                if path or by != "layer" or self.options.within is None:
                    runs += [EntryRun(path, columns, entry, target) for target in self._targets(by)]
        return runs

    def _targets(self, by: By) -> Iterator[Target]:
        """Yield where an entry is put in turn, in the order of the layers."""
        chosen = self.chosen
        if by == "all":
            yield Target(by, chosen)
            return
        for index, layer in enumerate(chosen):
            if by == "head":
                wanted = self.options.heads
                for head in range(self.heads[layer]) if wanted is None else wanted:
                    yield Target(by, [layer], layer, head)
                continue
            yield Target(by, {"layer": [layer], "up_to": chosen[: index + 1], "from": chosen[index:]}[by], layer)


class Survey(Swap):
    """Records the heads and the right reading of each attention call of a model, and leaves all outputs unchanged."""

    def __init__(self) -> None:
        super().__init__(MODEL)
        self.counts = dict[str, int]()
        self.stacks = dict[str, list[nn.Module]]()  # the modules that run at each call
        self.readings = dict[str, AttentionCall]()

    def compute(self, call: AttentionCall) -> torch.Tensor:
        """Return the model's own output."""
        assert self.monitor is not None
        self.counts[call.name], self.readings[call.name] = call.queries.shape[1], call.reading
        self.stacks[call.name] = self.monitor.modules
        return call.output

    def check(self) -> None:
        """Raise an InputError if no attention ran that can be replaced."""
        if not self.swapped:
            super().check()


class Placed(Swap):
    """A `Swap` with the numbers of all calls, also if they do not run."""

    numbers: Mapping[str, int]

    def _begin_run(self) -> None:
        super()._begin_run()
        self._numbers |= self.numbers


def prepare(options: SwapOptions, progress: Progress) -> PreparedSwap:
    """Load the model and run it once unchanged."""
    progress.step(0, 1, "loading the model")
    texts = options.texts if options.within is None else list(dict.fromkeys(options.texts))  # none of both kinds
    where, has_head = (options.attn, options.revision, options.batch_size), options.outputs != "states"
    return prepare_loaded(options, load_model(options, options.model, texts, *where, has_head=has_head), progress)


def prepare_loaded(
    options: SwapOptions, loaded: LoadedModel, progress: Progress, metric: Metric | None = None
) -> PreparedSwap:
    """Run a loaded model once unchanged, and check its outputs and the chosen layers and heads.

    Args:
        options: the options; the model and its texts are loaded already.
        loaded: the model and its batches.
        progress: receives the progress.
        metric: a function of the model and a batch that runs the batch, and returns a number.
    """
    check_for_model(options.scorers, options.model, options.texts, progress.note)
    runner = Runner(loaded, options.outputs, metric)
    if options.within is None:
        return _surveyed(options, loaded, runner, progress)
    chosen, others = split(loaded, options.held_out, options.seed)
    held_out = _surveyed(options, others, runner, progress)
    return _surveyed(options, chosen, runner, progress, held_out)


def _surveyed(
    options: SwapOptions,
    loaded: LoadedModel,
    runner: Runner,
    progress: Progress,
    held_out: PreparedSwap | None = None,
) -> PreparedSwap:
    """Run the model once as it is, and check its outputs and the chosen layers and heads."""
    stacks, started = dict[str, list[nn.Module]](), time.perf_counter()
    originals, readings = list[Outputs](), list[Mapping[str, AttentionCall]]()
    heads, problems = dict[str, int](), dict[str, str]()
    with evaluating(loaded.model), below("model"):
        for index, batch in enumerate(loaded.batches):
            progress.step(index, len(loaded.batches), "the model as it is")
            with Survey() as survey:
                survey.take_names(loaded.model)
                originals.append(runner.run(batch))
            if originals[-1].nans:
                message = f"{originals[-1].nans:,} numbers of its output for batch {index} are NaN without any change"
                raise InputError.of(f"{message}; expected numbers; check the model and its inputs")
            readings.append(survey.readings)
            stacks |= survey.stacks
            missed = {missed.layer: missed.problem for missed in survey.missed}
            heads, problems = heads | survey.counts, problems | survey.problems | missed
    for name, problem in problems.items() if held_out is None else ():
        progress.note(f"warning: {name} keeps its own attention: {problem}")
    chosen = chosen_calls(options.layers, options.heads, heads, problems, loaded.prefix)
    _check_plans(options, heads, problems, loaded.prefix)
    blocks = Blocks(loaded.model, stacks if runner.metric is None else {}, len(loaded.batches))
    calls = (originals, heads, problems, readings, chosen)
    prepared = PreparedSwap(options, loaded, runner, *calls, blocks, held_out)
    if (options.within is None) == (held_out is None):
        progress.note(prepared.estimate(time.perf_counter() - started))
    return prepared


def _check_plans(options: SwapOptions, heads: Mapping[str, int], problems: Mapping[str, str], prefix: str) -> None:
    """Raise an InputError if layers of a plan choose no attention call, or one that is not recognised."""
    collector = Collector()
    for index, entry in enumerate(options.scorers):
        for layers in entry.plan if isinstance(entry, PlanEntry) else ():
            with collector.under("scorers", index, "plan", layers):
                calls_in(layer_choice(layers), list(heads), problems, prefix)
    collector.check()


class _Runs(NamedTuple):
    """The new outputs of all batches with an entry inside, its scorers in the last one, and the seconds they took."""

    news: Sequence[Outputs]
    scorers: Sequence[Scorer]
    seconds: float


def _runs(
    prepared: PreparedSwap, entry: ScorerEntry | str, target: Target, step: Callable[[], None] = lambda: None
) -> _Runs:
    """Run all batches with `entry` at `target`; `step` is called after each."""
    started, news, heads = time.perf_counter(), list[Outputs](), None if target.head is None else [target.head]
    each = zip(prepared.loaded.batches, prepared.originals, prepared.readings, strict=True)
    for index, (batch, original, readings) in enumerate(each):
        swap = Placed(entry, layers=target.layers, heads=heads, seed=prepared.options.seed, known=readings)
        swap.numbers, plain = prepared.numbers, partial(prepared.plain, batch, original)
        with prepared.blocks.below(target.layers[0], index, original, plain), swap:
            swap.take_names(prepared.loaded.model)
            news.append(prepared.runner.run(batch, original))
        step()
    return _Runs(news, swap.scorers, time.perf_counter() - started)


def _changes(prepared: PreparedSwap, runs: Sequence[_Runs]) -> list[Changes]:
    """Return the changes of the outputs by each of some runs, for which the model's own logits are made once."""
    changes = [Changes(prepared.loaded.pooling) for _ in runs]
    for original, *news in zip(prepared.originals, *(each.news for each in runs), strict=True):
        add_each(changes, original, news)
    return changes


@torch.no_grad()
def run(prepared: PreparedSwap, progress: Progress) -> Result:
    """Run the model with every entry at every place; finished rows are kept if the user stops the run.

    Raises:
        InputError: the model's own scorer does not reproduce the model's own output; or a scorer fails.
    """
    options, everywhere = prepared.options, Target("all", prepared.chosen)
    model, uniform, entry_runs = swap_entry(MODEL), swap_entry(UNIFORM), prepared.runs
    passes = 1 + len(entry_runs) + prepared.joint_passes
    counter = Counter(passes * len(prepared.loaded.batches), progress)
    records, random, plans = list[Row](), list[str](), list[dict[str, Any]]()
    finished, group = list[tuple[Row, _Runs]](), 1 if prepared.originals[0].head is None else GROUP
    with keep_finished(records) as kept, evaluating(prepared.loaded.model):
        runs = _runs(prepared, model, everywhere, partial(counter.step, MODEL))
        (reference,) = _changes(prepared, [runs])
        _verify(prepared, reference.error)
        names = {**entry_columns(model), **everywhere.record}
        records.append({**names, **reference.record(), "seconds": runs.seconds})

        def compare() -> None:
            changes = _changes(prepared, [runs for _, runs in finished])
            for (names, runs), change in zip(finished, changes, strict=True):
                records.append({**names, **change.record(reference), "seconds": runs.seconds})
            finished.clear()

        try:
            for path, names, entry, target in entry_runs:
                words = (names["label"], *target.record.values())
                text = " ".join(str(word) for word in words if word is not None)
                with below(*path):
                    runs = _runs(prepared, entry, target, partial(counter.step, text))
                finished.append(({**names, **target.record}, runs))
                if isinstance(entry, ScorerEntry):
                    random += random_labels([entry] * len(runs.scorers), runs.scorers)
                if len(finished) == group:
                    compare()
        except KeyboardInterrupt:
            compare()
            raise
        compare()
        if prepared.held_out is not None:
            (held_out,) = _changes(prepared.held_out, [_runs(prepared.held_out, model, everywhere)])
            for index, entry in enumerate(options.scorers):
                step = partial(counter.step, f"{entry.label} within {options.within:g}")
                with below("scorers", index):
                    row, layers = _within(prepared, entry, records, reference, held_out, step)
                records.append(row)
                if layers:
                    plans.append(written_plan(entry, layers, prepared.numbers, prepared.loaded.prefix))
    judged: Any = {}
    if prepared.held_out is not None:
        judged = {"within": options.within, "held_out": len(prepared.held_out.loaded.order), "plans": plans}
    facts = SwapFacts(
        model="/".join(Path(options.model).parts[-2:]),
        texts=len(options.texts),
        kind=prepared.originals[0].kind,
        metric=prepared.runner.metric_name,
        pooling=prepared.loaded.pooling,
        heads=dict(prepared.heads),
        chosen=len(prepared.chosen) if len(prepared.chosen) < len(prepared.heads) else None,
        missed=dict(prepared.problems),
        **judged,
    )
    result = Result(
        options.study,
        options.name,
        records,
        interrupted=kept.interrupted,
        formulas={**entry_formulas([model, *options.scorers, uniform]), ZERO: "no output: all zeros"},
        random=list(dict.fromkeys(random)),
        layers=prepared.numbers,
        facts=facts,
    )
    return replace(result, findings=swap_findings(result))


def _within(
    prepared: PreparedSwap,
    entry: ScorerEntry,
    records: Sequence[Row],
    reference: Changes,
    held_out: Changes,
    step: Callable[[], None],
) -> tuple[Row, list[str]]:
    """Return the row of the plan with an entry in as many layers as were found within the limit, and these layers.

    `records` has the rows of the entry by layer; `reference` and `held_out` are of the model's own scorer.
    """
    others, limit, started = prepared.held_out, prepared.options.within, time.perf_counter()
    assert others is not None
    assert limit is not None
    key, chosen_key = ("loss_change", "chosen_change") if reference.kind == "language" else ("relative_l2", "chosen_l2")
    rows = {row["layer"]: row for row in records if row["label"] == entry.label and row["by"] == "layer"}
    worst = {layer: math.inf if row[key] is None or math.isnan(row[key]) else row[key] for layer, row in rows.items()}
    possible = candidates(entry, prepared.chosen, prepared.numbers, prepared.loaded.prefix)
    order = sorted(possible, key=lambda layer: worst[layer])
    measured = dict(enumerate([Row(), *(rows[layer] for layer in order[:1])]))  # by number of layers

    def layers_of(count: int) -> list[str]:
        return [layer for layer in prepared.chosen if layer in order[:count]]

    def record(of: PreparedSwap, count: int, own: Changes) -> Row:
        (changes,) = _changes(of, [_runs(of, entry, Target("within", layers_of(count)), step)])
        return changes.record(own)

    def holds(count: int) -> bool:
        if count not in measured:
            measured[count] = record(prepared, count, reference)
        value = measured[count][key]
        return value is not None and value <= limit

    count = longest_prefix(len(order), holds)
    judged = record(others, count, held_out) if count else {}
    found: Row = {"layers": count, key: judged.get(key, 0.0), chosen_key: measured[count].get(key, 0.0)}
    if key == "loss_change":
        found |= {f"{name}_se": of.get("loss_change_se") for name, of in ((key, judged), (chosen_key, measured[count]))}
    found |= {"passes": len(order) + sum(count > 1 for count in measured), "seconds": time.perf_counter() - started}
    place: Row = {"by": "within", "layer": None, "head": None}
    return {**entry_columns(entry), **place, **found}, layers_of(count)


def _verify(prepared: PreparedSwap, total: float) -> None:
    """Raise an InputError that names the worst layer if the model's own scorer changes its output by too much."""
    main = prepared.originals[0].main
    limit = TOLERANCE if main is None else max(TOLERANCE, ROUNDINGS * torch.finfo(main.dtype).eps)

    def error(layer: str) -> float:
        (changes,) = _changes(prepared, [_runs(prepared, swap_entry(MODEL), Target("layer", [layer]))])
        return math.inf if math.isnan(changes.error) else changes.error

    if not total <= limit:
        worst = max(prepared.chosen, key=error)
        message = f"the model's own scorer, put into it, changes its output by {number(total, 2)}, most in {worst}"
        raise InputError.of(f"{message}; expected at most {limit:.1g}; choose other `layers`", ["model"])


STUDY = Study(prepare, run, tables, SwapFacts, {"records": COLUMNS}, "relative_l2", references=REFERENCES)
