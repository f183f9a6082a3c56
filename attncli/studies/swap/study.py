"""Run a model with its attention replaced, everywhere or layer by layer, and compare its outputs with its own."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

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
from attncli.studies.swap.blocks import STORED, Blocks
from attncli.studies.swap.columns import COLUMNS, SwapFacts, limited_keys
from attncli.studies.swap.findings import swap_findings
from attncli.studies.swap.options import REFERENCES, SwapOptions
from attncli.studies.swap.tables import tables
from attncli.studies.swap.within import candidates, cheapest_plan, split, written_plan

TOLERANCE, ROUNDINGS = 1e-4, 16  # relative L2 of the model's own scorer inside: in float32; in eps of other dtypes
GROUP = 8  # runs that are compared together, with the model's own logits made once for them
NO_OUTPUT: Row = {"scorer": ZERO, "label": ZERO, "normalizer": "none"}


class EntryRun(NamedTuple):
    """An entry and the layers where it is put; `columns` name both, and the head, in the row of the run.

    `path` is the place of the entry in the config, empty for a reference.
    """

    path: tuple[str | int, ...]
    columns: Row
    entry: ScorerEntry | str
    layers: Sequence[str]


@dataclass(frozen=True)
class PreparedSwap:
    """The validated input of `run`: the model, its own outputs for each batch, and its attention calls.

    `runner` runs the model on a batch; all batches took these `seconds`. `heads` has the number of heads of each call
    by name, in the order of the calls. `readings` has, for each batch, the reading (interpretation of arguments) that
    reproduces the output of each call, by name. `problems` has why other attention keeps its own outputs, by layer.
    `chosen` has the names of the calls to replace. `blocks` are the blocks of the model, if it consists of blocks.
    `held_out` is the same for the texts held out.
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
    seconds: float
    held_out: "PreparedSwap | None" = None

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

    @property
    def shares(self) -> list[float]:
        """The share of the model that each pass of `run` computes, with about as many passes as plans take."""
        searches = 0 if self.options.within is None else len(self.options.scorers)
        joint = searches * (len(self.chosen).bit_length() + 1)
        return [*(self.blocks.share(run.layers[0]) for run in self.runs), *[1.0] * joint]

    @property
    def estimate(self) -> str:
        """The time and memory of all passes in words."""
        shares, (main, head) = self.shares, (self.originals[0].main, self.originals[0].head)
        size = sum(own.main.nbytes for own in self.originals if own.main is not None)
        added = size * (1 if head is None else GROUP)
        added += min(size * len(self.blocks.modules), STORED) if min(shares) < 1 else 0
        added += 0 if main is None or head is None else main.nbytes // head.in_features * head.out_features
        memory = f"{(psutil.Process().memory_info().rss + added) / 2**30:.1f} GiB"
        whole = self.seconds * sum(shares)
        each = rough_duration(whole / len(shares))
        text = f"{len(shares):,} passes of about {each}: {rough_duration(whole)} and {memory}"
        least = rough_duration(self.seconds * (1 + len(self.options.scorers) + 2))
        return text if {*self.options.by} == {"all"} else f"{text}; `--by all` alone {least}"

    @property
    def runs(self) -> list[EntryRun]:
        """The run of the model's own scorer, of the config's entries, then of the other references.

        The references choose no plan: with `within` they are not put into each layer.
        """
        entries: Sequence[Any] = (swap_entry(MODEL), *self.options.scorers, swap_entry(UNIFORM), ZERO)
        runs = list[EntryRun]()
        for index, entry in enumerate(entries, -1):
            names = NO_OUTPUT if entry == ZERO else entry_columns(entry)
            path: tuple[str | int, ...] = ("scorers", index) if 0 <= index < len(self.options.scorers) else ()
            for by in ["all"] if index < 0 else self.options.by:
                if path or by != "layer" or self.options.within is None:
                    runs += [EntryRun(path, names | place, entry, layers) for place, layers in self._places(by)]
        return runs

    def _places(self, by: str) -> Iterator[tuple[Row, Sequence[str]]]:
        """Yield the columns of each place of an entry, in the order of the calls, and its layers."""
        if by == "all":
            yield {"by": by, "layer": None, "head": None}, self.chosen
            return
        for index, layer in enumerate(self.chosen):
            layers = {"up_to": self.chosen[: index + 1], "from": self.chosen[index:]}.get(by, [layer])
            every = range(self.heads[layer]) if self.options.heads is None else self.options.heads
            for head in every if by == "head" else [None]:
                yield {"by": by, "layer": layer, "head": head}, layers


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
        prepared = _surveyed(options, loaded, runner, progress)
    else:
        chosen, others = (
            _surveyed(options, texts, runner, progress) for texts in split(loaded, options.held_out, options.seed)
        )
        prepared = replace(chosen, held_out=others)
    for name, problem in prepared.problems.items():
        progress.note(f"warning: {name} keeps its own attention: {problem}")
    progress.note(prepared.estimate)
    return prepared


def _surveyed(options: SwapOptions, loaded: LoadedModel, runner: Runner, progress: Progress) -> PreparedSwap:
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
    chosen = chosen_calls(options.layers, options.heads, heads, problems, loaded.prefix)
    _check_plans(options, heads, problems, loaded.prefix)
    blocks = Blocks(loaded.model, stacks if runner.metric is None else {}, len(loaded.batches))
    calls, seconds = (originals, heads, problems, readings, chosen), time.perf_counter() - started
    return PreparedSwap(options, loaded, runner, *calls, blocks, seconds)


def _check_plans(options: SwapOptions, heads: Mapping[str, int], problems: Mapping[str, str], prefix: str) -> None:
    """Raise an InputError if layers of a plan choose no attention call, or one that is not recognised."""
    collector = Collector()
    for index, entry in enumerate(options.scorers):
        for layers in entry.plan if isinstance(entry, PlanEntry) else ():
            with collector.under("scorers", index, "plan", layers):
                calls_in(layer_choice(layers), list(heads), problems, prefix)
    collector.check()


class _Passes(NamedTuple):
    """The new outputs of all batches with an entry inside, its scorers in the last one, and the seconds they took."""

    news: Sequence[Outputs]
    scorers: Sequence[Scorer]
    seconds: float


def _passes(
    prepared: PreparedSwap,
    entry: ScorerEntry | str,
    layers: Sequence[str],
    head: int | None = None,
    step: Callable[[], None] = lambda: None,
) -> _Passes:
    """Run all batches with an entry in some layers, and in one head of them or all; `step` is called after each."""
    started, news, heads = time.perf_counter(), list[Outputs](), None if head is None else [head]
    first = min(layers, key=prepared.numbers.__getitem__)
    each = zip(prepared.loaded.batches, prepared.originals, prepared.readings, strict=True)
    for index, (batch, original, readings) in enumerate(each):
        swap = Placed(entry, layers=layers, heads=heads, seed=prepared.options.seed, known=readings)
        swap.numbers, plain = prepared.numbers, partial(prepared.plain, batch, original)
        with prepared.blocks.below(first, index, original, plain), swap:
            swap.take_names(prepared.loaded.model)
            news.append(prepared.runner.run(batch, original))
        step()
    return _Passes(news, swap.scorers, time.perf_counter() - started)


def _changes(prepared: PreparedSwap, passes: Sequence[_Passes]) -> list[Changes]:
    """Return the changes of the outputs by each entry, for which the model's own logits are made once."""
    changes = [Changes(prepared.loaded.pooling) for _ in passes]
    for original, *news in zip(prepared.originals, *(each.news for each in passes), strict=True):
        add_each(changes, original, news)
    return changes


@torch.no_grad()
def run(prepared: PreparedSwap, progress: Progress) -> Result:
    """Run the model with every entry at every place; finished rows are kept if the user stops the run.

    Raises:
        InputError: the model's own scorer does not reproduce the model's own output; or a scorer fails.
    """
    options, runs, reference = prepared.options, prepared.runs, Changes()
    counter = Counter(len(prepared.shares) * len(prepared.loaded.batches), progress)
    records, random, plans = list[Row](), list[str](), list[dict[str, Any]]()
    size = 1 if prepared.originals[0].head is None else GROUP
    groups = [runs[:1], *(runs[start : start + size] for start in range(1, len(runs), size))]
    with keep_finished(records) as outcome, evaluating(prepared.loaded.model):
        for group in groups:
            finished, interrupt = list[_Passes](), None
            try:
                for path, columns, entry, layers in group:
                    words = [columns[key] for key in ("label", "by", "layer", "head") if columns[key] is not None]
                    step = partial(counter.step, " ".join(map(str, words)))
                    with below(*path):
                        finished.append(_passes(prepared, entry, layers, columns["head"], step))
                    if isinstance(entry, ScorerEntry):
                        random += random_labels([entry] * len(finished[-1].scorers), finished[-1].scorers)
            except KeyboardInterrupt as error:  # the finished passes of the group are kept
                interrupt = error
            changes = _changes(prepared, finished)
            if group is groups[0] and changes:
                (reference,) = changes
                _verify(prepared, reference.error)
            for each, change, passes in zip(group, changes, finished, strict=False):
                records.append({**each.columns, **change.record(reference), "seconds": passes.seconds})
            if interrupt is not None:
                raise interrupt
        for row, plan in _plans(prepared, reference, records, counter):
            records.append(row)
            plans += plan
    result = Result(
        options.study,
        options.name,
        records,
        interrupted=outcome.interrupted,
        formulas={
            **entry_formulas([swap_entry(MODEL), *options.scorers, swap_entry(UNIFORM)]),
            ZERO: "no output: all zeros",
        },
        random=list(dict.fromkeys(random)),
        layers=prepared.numbers,
        facts=_facts(prepared, plans),
    )
    return replace(result, findings=swap_findings(result))


def _facts(prepared: PreparedSwap, plans: list[dict[str, Any]]) -> SwapFacts:
    """Return the facts about a run, with facts about plans only if it searched for plans."""
    options, searched = prepared.options, dict[str, Any]()
    if prepared.held_out is not None:
        searched = {"within": options.within, "held_out": len(prepared.held_out.loaded.order), "plans": plans}
    return SwapFacts(
        model="/".join(Path(options.model).parts[-2:]),
        texts=len(options.texts),
        kind=prepared.originals[0].kind,
        metric=prepared.runner.metric_name,
        pooling=prepared.loaded.pooling,
        heads=dict(prepared.heads),
        chosen=len(prepared.chosen) if len(prepared.chosen) < len(prepared.heads) else None,
        missed=dict(prepared.problems),
        **searched,
    )


def _plans(
    prepared: PreparedSwap, reference: Changes, records: Sequence[Row], counter: Counter
) -> Iterator[tuple[Row, list[dict[str, Any]]]]:
    """Yield the row of each entry by `within`, and its plan if any layer takes it.

    `reference` has the changes by the model's own scorer, and `records` the rows by layer.
    """
    others, limit, prefix = prepared.held_out, prepared.options.within, prepared.loaded.prefix
    if others is None or limit is None:
        return
    (own,) = _changes(others, [_passes(others, swap_entry(MODEL), prepared.chosen)])

    def changed(texts: PreparedSwap, before: Changes, entry: ScorerEntry, layers: Sequence[str]) -> Row:
        """Return the changes of some texts by an entry in some layers."""
        step = partial(counter.step, f"{entry.label} within {limit:g}")
        (changes,) = _changes(texts, [_passes(texts, entry, layers, step=step)])
        return changes.record(before)

    for index, entry in enumerate(prepared.options.scorers):
        possible = candidates(entry, prepared.chosen, prepared.numbers, prefix)
        of_entry = [row for row in records if (row["label"], row["by"]) == (entry.label, "layer")]
        rows = [row for row in of_entry if row["layer"] in possible]
        measures = partial(changed, prepared, reference, entry), partial(changed, others, own, entry)
        with below("scorers", index):
            row, layers = cheapest_plan(rows, limit, limited_keys(reference.kind), *measures)
        plans = [written_plan(entry, layers, prepared.numbers, prefix)] if layers else []
        yield {**entry_columns(entry), "by": "within", "layer": None, "head": None, **row}, plans


def _verify(prepared: PreparedSwap, total: float) -> None:
    """Raise an InputError that names the worst layer if the model's own scorer changes its output by too much."""
    main = prepared.originals[0].main
    limit = TOLERANCE if main is None else max(TOLERANCE, ROUNDINGS * torch.finfo(main.dtype).eps)

    def error(layer: str) -> float:
        """Return the change of the output by the model's own scorer in one layer."""
        (changes,) = _changes(prepared, [_passes(prepared, swap_entry(MODEL), [layer])])
        return math.inf if math.isnan(changes.error) else changes.error

    if not total <= limit:
        worst = max(prepared.chosen, key=error)
        message = f"the model's own scorer, put into it, changes its output by {number(total, 2)}, most in {worst}"
        raise InputError.of(f"{message}; expected at most {limit:.1g}; choose other `layers`", ["model"])


STUDY = Study(prepare, run, tables, SwapFacts, {"records": COLUMNS}, "relative_l2", references=REFERENCES)
