"""The main study: several scorers on the same queries, keys, values and mask, compared."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from attncli.attention import Rules, dropped
from attncli.catalogue.building import (
    compile_scorer,
    entry_columns,
    entry_formulas,
    random_labels,
    scorer_scale,
    scoring_function,
)
from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.config.looks import check_ranges
from attncli.config.tensors import CapturedData
from attncli.core.numbers import several
from attncli.core.seeding import generator, seeded
from attncli.errors import InputError, Problem, below, got, in_ranges
from attncli.models.inputs import Inputs, Scored
from attncli.pooling import is_softmax
from attncli.results import Finding, Result, Row, signed_weights, tensor_name
from attncli.runtime import Progress, keep_finished, signals
from attncli.scorers import SCORERS
from attncli.sources.build import check_tokens, saved_inputs
from attncli.sources.layers import Layer, Prepared
from attncli.sources.opening import open_data
from attncli.studies.attention.between import between
from attncli.studies.attention.columns import OF_CALLS, ROWS, AttentionFacts
from attncli.studies.attention.explaining import explain
from attncli.studies.attention.findings import attention_findings, fault_findings
from attncli.studies.attention.layers import head_variances, joined_layers
from attncli.studies.attention.lessons import even_labels, proven_lessons
from attncli.studies.attention.options import AttentionOptions
from attncli.studies.attention.rows import ScorerRows, output_rows, pair_rows, scorer_rows
from attncli.studies.attention.statistics import Groups
from attncli.studies.attention.tables import tables
from attncli.studies.attention.tiles import pool_with_rows
from attncli.studies.study import Study

MOST_CELLS = 2**24  # larger masks are not saved without weights
LOGITS = ("biased", "capped", "scores")  # an entry normalises the first of these stages that it has
Stages = Mapping[str, Tensor]


@torch.no_grad()
def prepare(options: AttentionOptions, progress: Progress) -> Prepared[AttentionOptions]:
    """Build inputs and scorers; raise an InputError with all problems of the first step that fails."""
    progress.step(0, len(options.scorers), "inputs")
    matrices = 2 * len(options.scorers) * options.weights  # scores and weights
    source = open_data(options, options.data, options.mask, options.tokens, matrices, progress.note)
    source = replace(source, layers=[_checked(options, layer) for layer in source.layers])
    return Prepared(options, source.with_scorers(options.scorers, options.seed, options.mask.empty_row))


def _checked(options: AttentionOptions, layer: Layer) -> Layer:
    """Return the layer with the tokens of the options; raise an InputError if the options do not fit its inputs.

    A single layer that the config chooses as `layer` is as a run without layers, and needs no name.
    """
    inputs = layer.inputs
    with below("tokens"):
        check_tokens(options.tokens, inputs.queries.shape, inputs.keys.shape)
    tokens = {**inputs.tokens, **{side: names for side, names in options.tokens if names is not None}}
    if options.mask.empty_row == "error" and bool((empty := inputs.valid.empty_rows).any()):
        message = f"{int(empty.sum())} queries have no valid key, the first at index {empty.nonzero()[0].tolist()}"
        cure = "expected at least one key each, or empty_row: zero, uniform or nan"
        raise InputError.of(f"{message}; {cure}", ["mask", "empty_row"])
    _check_indices(options, inputs)
    with below("figure"):
        check_ranges(options.figure, *inputs.valid.shape[-2:])
    is_single = isinstance(options.data, CapturedData) and options.data.layer is not None
    return replace(layer, inputs=replace(inputs, tokens=tokens), name=None if is_single else layer.name)


def _chosen(rows: Sequence[Row], options: AttentionOptions) -> list[Row]:
    """Return the rows of the batch elements and heads that the config chooses."""
    chosen = {"batch": options.batch, "head": options.heads}
    return [row for row in rows if all(wanted is None or row[axis] in wanted for axis, wanted in chosen.items())]


def _check_indices(options: AttentionOptions, inputs: Inputs) -> None:
    """Raise an InputError if the config chooses batch elements or heads that the inputs do not have."""
    heads, problems = [head for head in inputs.heads if head is not None], list[Problem]()
    if options.heads is not None and not heads:
        message = f"got heads beside queries {list(inputs.queries.shape)}, which have no axis of heads"
        problems.append(Problem(f"{message}; expected queries of shape (b, heads, n, q), or no `heads`", ("heads",)))
    checked: dict[str, tuple[Sequence[int] | None, Sequence[int], str]] = {
        "batch": (options.batch, range(len(inputs.queries)), "batch element"),
        "heads": (options.heads if heads else None, heads, "head"),
    }
    for axis, (wanted, numbers, name) in checked.items():
        for index, chosen in enumerate(wanted or []):
            if chosen not in numbers:
                expected = f"expected {in_ranges(numbers)}, of {several(len(numbers), name)}"
                problems.append(Problem(got(chosen, expected), (axis, index)))
    if problems:
        raise InputError(problems)


@torch.no_grad()
def run(prepared: Prepared[AttentionOptions], progress: Progress) -> Result:
    """Run every scorer of the config on its inputs.

    The stages of a scorer are, in order, `scores`, `capped` (with softcap), `biased` (with a bias), `weights` (before
    dropout), `dropped` (after active dropout) and `output`; each (b, n, m) or (b, heads, n, m), `output` with v in
    place of m. If the option `weights` is false, `output` is the only stage.
    """
    if prepared.options.compile:
        scorers = [scored.scorer for layer in prepared.layers for scored in layer.scored]
        scorers = [scorer for scorer in scorers if scorer.worth_compiling]
        for reason in sorted({reason for reason in map(compile_scorer, scorers) if reason is not None}):
            progress.note(f"warning: not compiled: {reason}; continuing without, only slower")
    results, options = list[Result](), prepared.options
    with keep_finished(results) as outcome:
        for layer in prepared.layers:
            results.append(_run_layer(options, layer, progress, keeps_scorers=len(prepared.layers) == 1))
    result = results[0] if prepared.source.captured is None else joined_layers(options, prepared.source, results)
    return replace(
        result,
        heads=_chosen(result.heads, options),
        head_comparisons=_chosen(result.head_comparisons, options),
        interrupted=outcome.interrupted or results[0].interrupted,
    )


@dataclass(frozen=True)
class ScorerRun:
    """The stages of a scorer on the CPU, the metrics of its rows of weights, and its rows of the result."""

    label: str
    rules: Rules
    stages: Stages
    rows: ScorerRows
    empty: Tensor  # (..., n): queries without a valid key, of the inputs and more with a window
    record: Row
    heads: Sequence[Row]


def _run_layer(options: AttentionOptions, layer: Layer, progress: Progress, keeps_scorers: bool) -> Result:
    """Run all scorers on the inputs of a layer. With `keeps_scorers`, an interruption keeps finished scorers."""
    inputs, entries, runs = layer.inputs, options.scorers, list[ScorerRun]()
    variances = None if inputs.call is None else head_variances(inputs)
    with keep_finished(runs if keeps_scorers else ()) as outcome:
        for index, scored in enumerate(layer.scored):
            progress.step(index, len(entries), " ".join([*layer.columns.values(), scored.entry.label]))
            with below("scorers", index):
                runs.append(_run_scorer(options, layer, scored, variances))
    if not inputs.faults:
        _warn_about_numbers(runs, progress)
    comparisons, head_comparisons, findings = list[Row](), list[Row](), list[Finding]()
    stages = {run.label: run.stages for run in runs}
    random = random_labels(entries, [scored.scorer for scored in layer.scored])
    with keep_finished(runs if keeps_scorers else ()) as compared:
        for a, b in itertools.combinations(runs, 2):
            progress.step(len(entries), len(entries), "comparisons")
            whole, by_head = _compared(a, b, layer)
            comparisons += whole
            head_comparisons += by_head
        lessons, even = _lessons(options.scorers, inputs, stages)
        findings += [
            *fault_findings(inputs),
            *(signed_weights(run.label) for run in runs if bool((run.rows.is_signed & ~run.empty).any())),
            *attention_findings(lessons, comparisons, head_comparisons, random, even),  # about all pairs
        ]
    elements, with_valid = inputs.valid.shape[0], options.weights or math.prod(inputs.valid.shape) <= MOST_CELLS
    in_layer = partial(tensor_name, layer=layer.name)
    tokens = {  # a list for each batch element
        in_layer(side): names if any(isinstance(row, list) for row in names) else [names] * elements
        for side in ("queries", "keys")
        if (names := inputs.tokens.get(side))
    }
    dtype = inputs.queries.dtype  # in which parameters were made
    finished = [(run, scored.scorer) for run, scored in zip(runs, layer.scored, strict=False)]
    return Result(
        options.study,
        options.name,
        [run.record for run in runs],
        comparisons,
        findings,
        inputs={in_layer(role): tensor for role, tensor in saved_inputs(options.data, inputs, with_valid).items()},
        tensors={in_layer(run.label, stage): tensor for run in runs for stage, tensor in run.stages.items()},
        parameters={
            f"{run.label}/{name}": tensor.to("cpu", dtype if tensor.is_floating_point() else tensor.dtype)
            for run, scorer in finished
            for name, tensor in scorer.state_dict().items()
        },
        heads=[row for run in runs for row in run.heads],
        head_comparisons=head_comparisons,
        interrupted=outcome.interrupted or compared.interrupted,
        formulas=entry_formulas(entries),
        random=random,
        scales={in_layer(run.label): scorer_scale(scorer) for run, scorer in finished},
        tokens=tokens,
        save=options.save,
        facts=AttentionFacts(
            **options.model_dump(include={"heads", "batch"}, exclude_none=True),
            **({} if inputs.key_heads is None else {"key_heads": inputs.key_heads}),
        ),
    )


def _compared(a: ScorerRun, b: ScorerRun, layer: Layer) -> tuple[list[Row], list[Row]]:
    """Return the rows that compare two scorers: a row for all heads together, and by batch element and head."""
    names, weights, empty = {"a": a.label, "b": b.label} | layer.columns, None, a.empty & b.empty
    if "weights" in a.stages:
        weights = pair_rows(a.stages["weights"], b.stages["weights"], a.rows, b.rows, (a.rules, b.rules))
    outputs = output_rows(a.stages["output"], b.stages["output"])
    groups = (Groups(empty), Groups(empty, layer.inputs.heads))
    whole, by_head = ([names | row for row in group.of_pair(weights, outputs)] for group in groups)
    return whole, by_head


def _warn_about_numbers(runs: Sequence[ScorerRun], progress: Progress) -> None:
    """Warn once of NaN or infinite numbers in scores of valid keys, or else in outputs; at padding they are allowed."""
    labels: dict[str, list[str]] = {"scores of valid keys": [], "outputs": []}
    for run in runs:
        output = run.stages["output"]
        finite = output.amax(-1).isfinite() & output.amin(-1).isfinite()  # ... n; without a copy of the output
        if not bool((run.rows.is_finite & run.rows.mean.isfinite() | run.empty).all()):
            labels["scores of valid keys"].append(run.label)
        elif not bool((finite | run.empty).all()):
            labels["outputs"].append(run.label)
    for place, names in labels.items():
        if names:
            progress.note(f"warning: {', '.join(names)}: NaN or infinite numbers in the {place}")


def _lessons(
    entries: Sequence[ScorerEntry], inputs: Inputs, stages: Mapping[str, Stages]
) -> tuple[list[Finding], list[str]]:
    """Return the findings that logits and weights prove, and the labels with even weights; none without weights."""
    if any("weights" not in stored for stored in stages.values()):
        return [], []
    valid = inputs.valid.joined
    valid = torch.ones(1, 1, dtype=torch.bool) if valid is None else valid.cpu()
    weights = {label: stored["weights"] for label, stored in stages.items()}
    logits = {label: next(stored[name] for name in LOGITS if name in stored) for label, stored in stages.items()}
    last = inputs.valid.shape[-2] - 1
    positioned = [entry for entry in entries if inputs.bias is None and (entry.rope or entry.position_bias)]
    positions = [(entry.label, inputs.first_of(entry) + last) for entry in positioned if entry.label in weights]
    lessons = proven_lessons(inputs.queries.cpu(), inputs.keys.cpu(), valid, logits, weights, positions)
    return lessons, even_labels(valid, weights)


def _run_scorer(
    options: AttentionOptions, layer: Layer, scored: Scored, variances: Sequence[float | None] | None
) -> ScorerRun:
    """Run a scorer, and compute its metrics; `variances` are of the heads of a captured call."""
    inputs, rules = layer.inputs, scored.rules
    stages, rows = _stages_and_rows(options, scored, inputs)
    empty, is_bounded = rules.valid.empty_rows.cpu(), rules.cap is None and rules.bias is None and is_softmax(rules)
    (figures,) = Groups(empty).of_scorer(rows, is_bounded)
    heads = Groups(empty, inputs.heads)
    by_head = heads.of_scorer(rows, is_bounded)
    names = entry_columns(scored.entry) | layer.columns
    count = sum(parameter.numel() for parameter in scored.scorer.parameters())
    if variances is not None:
        first_weights = None
        if (weights := stages.get("weights")) is not None:
            first = rules.valid.first_key().cpu()  # ... n|1 1
            first_weights = weights.gather(-1, first.expand(*weights.shape[:-1], 1))[..., 0]
        of_call = heads.of_call(rows, first_weights, variances, inputs.queries.shape[-1])
        by_head = [row | metrics for row, metrics in zip(by_head, of_call, strict=True)]
    record = {**names, "parameters": count, **figures}
    return ScorerRun(scored.entry.label, rules, stages, rows, empty, record, [names | row for row in by_head])


def _stages_and_rows(options: AttentionOptions, scored: Scored, inputs: Inputs) -> tuple[Stages, ScorerRows]:
    """Return all stages on the CPU, or only the output if the option `weights` is false, and the metrics of rows."""
    entry, rules = scored.entry, scored.rules
    scored.scorer.train(options.train)
    queries, keys, values = scored.seen(inputs)
    with seeded(options.seed, f"forward.{entry.seed_name}", queries.device):  # a scorer may have dropout
        if not options.weights:
            score = scoring_function(entry, scored.scorer)
            checked = score if entry.scorer in SCORERS else scored.scores
            output, rows = pool_with_rows(checked, queries, keys, values, rules)
            return {"output": output.cpu()}, rows
        scores = scored.scores(queries, keys).detach()
        signals.check()
        stages = {"scores": scores, **rules.stages(scores)}
        signals.check()
        used = stages["weights"]
        if options.train and entry.dropout > 0:
            used = stages["dropped"] = dropped(
                used, entry.dropout, generator(options.seed, f"dropout.{entry.seed_name}")
            )
        stages["output"] = rules.pooled(used, values)
    stages = {name: stage.cpu() for name, stage in stages.items()}  # waits for the device, too
    return stages, scorer_rows(stages["scores"], stages["weights"], rules)


STUDY = Study(prepare, run, tables, AttentionFacts, ROWS, "entropy", OF_CALLS, explain, between)
