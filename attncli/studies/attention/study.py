"""The main study: several scorers on the same queries, keys, values and mask, and what differs."""

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from attncli.attention import Bias, Rules, dropped, weighted_sum
from attncli.config.scorer_entries import ScorerEntry
from attncli.config.tensors import FileTensor
from attncli.errors import Collector, InputError, Problem, below, got
from attncli.inputs.build import Inputs, Shapes, build_inputs
from attncli.inputs.device import resolve_device
from attncli.inputs.seeding import generator, seeded
from attncli.normalizers import NORMALIZERS
from attncli.scorers import SCORERS
from attncli.show.numbers import several
from attncli.studies.attention.columns import COLUMNS, COMPARISONS, HEAD_COMPARISONS, HEADS
from attncli.studies.attention.findings import findings_of
from attncli.studies.attention.options import AttentionOptions
from attncli.studies.attention.rows import OutputRows, PairRows, ScorerRows, output_rows, pair_rows, scorer_rows
from attncli.studies.attention.statistics import OF_WEIGHTS, Groups, places
from attncli.studies.attention.tiles import pool_with_rows
from attncli.studies.memory import PROGRAM, estimate_attention, in_words, require_memory
from attncli.studies.progress import Progress
from attncli.studies.scoring import (
    build_normalizer,
    build_scorer,
    compile_scorer,
    formulas_of,
    outline,
    raw_scores,
    scale_of,
    worth_compiling,
)
from attncli.studies.study import STAGES, Record, Result, Rows

NOTED = 256 * 2**20  # bytes of tensors from which the estimate of the memory is a note
CHOSEN = ("save", "heads", "batch")  # options that say what is kept and shown: settings where they are given
CURE = "use fewer queries, keys or batch elements, or fewer scorers"
MOST_CELLS = 2**24  # of the mask that is saved beside outputs alone
Stages = Mapping[str, Tensor]
Made = TypeVar("Made")


@dataclass(frozen=True)
class Prepared:
    """Everything that `run` works on, known to be good."""

    options: AttentionOptions
    inputs: Inputs
    scorers: Sequence[nn.Module]
    rules: Sequence[Rules]
    device: torch.device


@torch.no_grad()
def prepare(options: AttentionOptions, progress: Progress) -> Prepared:
    """Inputs and scorers; everything that can be refused is refused here, all problems of one stage at once.

    Raises:
        InputError: inputs or scorers that do not fit together, or that do not fit into memory.
    """
    progress.step(0, len(options.scorers), "inputs")
    dtype = getattr(torch, options.dtype)
    collector = Collector()
    device = torch.device("cpu")
    with collector.under():
        device = resolve_device(options.device, dtype)
    with collector.under():
        inputs = build_inputs(
            options.data,
            options.mask,
            options.tokens,
            seed=options.seed,
            dtype=dtype,
            device=device,
            check_size=lambda shapes: _check_size(options, shapes, device, progress),
            note=progress.note,
        )
    collector.check()
    _refuse_empty_rows(options, inputs)
    _check_places(options, inputs)
    q, k = inputs.queries.shape[-1], inputs.keys.shape[-1]
    scorers = _each(options, lambda entry: build_scorer(entry, q, k, options.seed, inputs.queries.dtype))
    rules = _each(options, lambda entry: _rules_of(entry, options, inputs))
    return Prepared(options, inputs, [scorer.to(device) for scorer in scorers], rules, device)


def _rules_of(entry: ScorerEntry, options: AttentionOptions, inputs: Inputs) -> Rules:
    """What turns the scores of an entry into weights."""
    n, m = inputs.valid.shape[-2:]
    bias = None
    if _is_biased(entry, options):
        first = m - n if inputs.valid.causal == "bottom_right" else 0
        bias = Bias(inputs.valid.shape, inputs.bias, entry.bias == "alibi", first)
    return Rules(inputs.valid, entry.softcap, options.mask.empty_row, bias, build_normalizer(entry))


def _is_biased(entry: ScorerEntry, options: AttentionOptions) -> bool:
    return entry.bias is not None or options.data.bias is not None


def expected_rows(prepared: Prepared) -> Rows:
    """One row per scorer, one per pair, the same by head, and the stages of every scorer."""
    options, entries = prepared.options, prepared.options.scorers
    unknown = [*OF_WEIGHTS, *STAGES[:-1]] if not options.weights else []
    listed = _chosen(places(prepared.inputs.valid.shape[:-2]), options)
    names = [_names(entry) for entry in entries]
    pairs = [{"a": a.label, "b": b.label} for a, b in itertools.combinations(entries, 2)]
    return Rows(
        COLUMNS,
        names,
        COMPARISONS,
        pairs,
        "there is only one scorer",
        {entry.label: _shapes(prepared, entry) for entry in entries},
        dict.fromkeys(unknown, "weights: false"),
        HEADS,
        [each | place for each in names for place in listed],
        HEAD_COMPARISONS,
        [each | place for each in pairs for place in listed],
    )


def _names(entry: ScorerEntry) -> Record:
    return {"scorer": entry.scorer, "label": entry.label, "normalizer": entry.normalizer.normalizer}


def _chosen(rows: Sequence[Record], options: AttentionOptions) -> list[Record]:
    """The rows of the batch elements and heads that the config asks for."""
    chosen = {"batch": options.batch, "head": options.heads}
    return [row for row in rows if all(wanted is None or row[axis] in wanted for axis, wanted in chosen.items())]


def _check_places(options: AttentionOptions, inputs: Inputs) -> None:
    """Refuse batch elements and heads that the inputs do not have."""
    b, *heads, _, _ = inputs.valid.shape
    collector = Collector()
    if options.heads is not None and not heads:
        shape = list(inputs.queries.shape)
        cure = "expected queries of shape (b, heads, n, q), or no `heads`"
        collector.problems.append(
            Problem(f"got heads beside queries {shape}, which have no axis of heads; {cure}", ("heads",))
        )
    sizes = [
        ("batch", options.batch, b, "batch element"),
        ("heads", options.heads if heads else None, math.prod(heads), "head"),
    ]
    for axis, wanted, size, name in sizes:
        for index, place in enumerate(wanted or []):
            if place >= size:
                expected = f"expected 0 to {size - 1}" if size > 1 else "expected 0"
                collector.problems.append(Problem(got(place, f"{expected}, of {several(size, name)}"), (axis, index)))
    collector.check()


def _shapes(prepared: Prepared, entry: ScorerEntry) -> dict[str, tuple[int, ...]]:
    options, scores = prepared.options, prepared.inputs.valid.shape
    output = {"output": (*scores[:-1], prepared.inputs.values.shape[-1])}
    if not options.weights:
        return output
    capped = {"capped": scores} if entry.softcap is not None else {}
    biased = {"biased": scores} if _is_biased(entry, options) else {}
    dropped = {"dropped": scores} if options.train and entry.dropout > 0 else {}
    return {"scores": scores, **capped, **biased, "weights": scores, **dropped, **output}


@torch.no_grad()
def run(prepared: Prepared, progress: Progress) -> Result:
    """Run every scorer of the config on its inputs.

    The stages of a scorer are, in the order of the work, `scores`, `capped` (with softcap), `biased` (with
    a bias), `weights` (before dropout), `dropped` (the weights after dropout, where it is active) and `output`; each
    (b, n, m) or (b, heads, n, m), `output` with v in place of m. Without weights, `output` is the only one.

    Raises:
        InputError: a scorer of the user's own that fails or gives another shape.
    """
    options, inputs, entries = prepared.options, prepared.inputs, prepared.options.scorers
    empty = inputs.valid.empty_rows.cpu()
    whole, single = Groups(empty, by_head=False), Groups(empty, by_head=True)
    if options.compile:
        _compile(prepared.scorers, progress)
    stages, rows, parameters = dict[str, Stages](), dict[str, ScorerRows](), dict[str, Tensor]()
    records, heads, comparisons, head_comparisons = (list[Record]() for _ in range(4))
    for index, (entry, scorer, rules) in enumerate(zip(entries, prepared.scorers, prepared.rules, strict=True)):
        progress.step(index, len(entries), entry.label)
        start = time.perf_counter()
        with below("scorers", index):
            stages[entry.label], found = _run_scorer(options, entry, scorer, rules, inputs)
        seconds = time.perf_counter() - start
        rows[entry.label] = found or _rows_of(stages[entry.label], inputs)
        count = sum(parameter.numel() for parameter in scorer.parameters())
        figures = whole.of_scorer(rows[entry.label])[0]
        records.append({**_names(entry), "parameters": count, **figures, "seconds": seconds})
        heads += [_names(entry) | each for each in single.of_scorer(rows[entry.label])]
        _warn_of_numbers(records[-1], stages[entry.label], empty, progress)
        for name, tensor in scorer.state_dict().items():  # parameters were rounded to the inputs' dtype when made
            dtype = inputs.queries.dtype if tensor.is_floating_point() else tensor.dtype
            parameters[f"{entry.label}/{name}"] = tensor.to("cpu", dtype)
    progress.step(len(entries), len(entries), "comparisons")
    for a, b in itertools.combinations(stages, 2):
        weights, outputs = _pair_of(stages[a], stages[b], rows[a], rows[b])
        comparisons.append({"a": a, "b": b, **whole.of_pair(weights, outputs)[0]})
        head_comparisons += [{"a": a, "b": b, **each} for each in single.of_pair(weights, outputs)]
    elements = inputs.valid.shape[0]
    return Result(
        options.study,
        options.name,
        {
            "formulas": formulas_of(entries),
            "scales": dict(zip(stages, map(scale_of, prepared.scorers), strict=True)),
            "tokens": {
                "queries": _by_batch(options.tokens.queries, elements),
                "keys": _by_batch(options.tokens.keys, elements),
            },
            **{key: value for key in CHOSEN if (value := getattr(options, key)) is not None},
        },
        records,
        comparisons,
        findings_of(comparisons, head_comparisons),
        _saved_inputs(options, inputs),
        {f"{label}/{name}": tensor for label, each in stages.items() for name, tensor in each.items()},
        parameters,
        heads=_chosen(heads, options),
        head_comparisons=_chosen(head_comparisons, options),
    )


def _rows_of(stages: Stages, inputs: Inputs) -> ScorerRows:
    return scorer_rows(stages["scores"], stages["weights"], inputs.valid.whole.cpu())


def _pair_of(stages_a: Stages, stages_b: Stages, a: ScorerRows, b: ScorerRows) -> tuple[PairRows | None, OutputRows]:
    known = "weights" in stages_a
    weights = pair_rows(stages_a["weights"], stages_b["weights"], a, b) if known else None
    return weights, output_rows(stages_a["output"], stages_b["output"])


def _run_scorer(
    options: AttentionOptions, entry: ScorerEntry, scorer: nn.Module, rules: Rules, inputs: Inputs
) -> tuple[Stages, ScorerRows | None]:
    """All stages on the CPU, or without weights the output alone and its rows; in training mode only where asked."""
    scorer.train(options.train)
    with seeded(options.seed, f"forward.{entry.stream}", inputs.queries.device):  # it may have dropout inside
        if options.weights:
            stages, rows = _stages(options, entry, scorer, rules, inputs), None
        else:
            checked = scorer if entry.scorer in SCORERS else partial(raw_scores, scorer)
            output, rows = pool_with_rows(checked, inputs.queries, inputs.keys, inputs.values, rules)
            stages = {"output": output}
    return {name: stage.cpu() for name, stage in stages.items()}, rows  # waits for the device, too


def _stages(options: AttentionOptions, entry: ScorerEntry, scorer: nn.Module, rules: Rules, inputs: Inputs) -> Stages:
    """Scores, softcap, bias, mask and normaliser, dropout, weighted sum of the values."""
    scores = raw_scores(scorer, inputs.queries, inputs.keys).detach()
    stages = {"scores": scores, **rules.stages(scores)}
    weights = stages["weights"]
    if options.train and entry.dropout > 0:
        randomness = generator(options.seed, f"dropout.{entry.stream}")
        weights = stages["dropped"] = dropped(weights, entry.dropout, randomness)
    return stages | {"output": weighted_sum(weights, inputs.values)}


def _warn_of_numbers(record: Record, stages: Stages, empty: Tensor, progress: Progress) -> None:
    """NaN or infinity in padding is nobody's business; at valid keys it is."""
    figures = [record[name] for name in ("score_mean", "entropy")]
    output = stages["output"]
    finite = output.amax(-1).isfinite() & output.amin(-1).isfinite()  # ... n; isfinite of all would take a copy
    if any(figure is not None and not math.isfinite(figure) for figure in figures):
        where = "scores"
    elif not bool((finite | empty).all()):
        where = "values"
    else:
        return
    progress.note(f"warning: {record['label']}: NaN or infinite numbers in the {where} of valid keys")


def _saved_inputs(options: AttentionOptions, inputs: Inputs) -> dict[str, Tensor]:
    """The inputs that are saved: the tensors of every run, the bias, lengths that came from a file, and other masks."""
    saved = {"queries": inputs.queries, "keys": inputs.keys, "values": inputs.values}
    if options.weights or math.prod(inputs.valid.shape) <= MOST_CELLS:
        saved["valid"] = inputs.valid.whole
    if isinstance(options.data.valid_lens, FileTensor) and inputs.valid.lengths is not None:
        saved["valid_lens"] = inputs.valid.lengths
    if inputs.valid.mask is not None:
        saved["mask"] = inputs.valid.mask
    if inputs.bias is not None:
        saved["bias"] = inputs.bias
    return {name: tensor.cpu() for name, tensor in saved.items()}


def _check_size(options: AttentionOptions, shapes: Shapes, device: torch.device, progress: Progress) -> None:
    """Refuse what the scorers cannot take or the memory cannot hold, before anything is drawn."""
    dtype = getattr(torch, options.dtype)
    stages = [
        sum([2, entry.softcap is not None, _is_biased(entry, options), options.train and entry.dropout > 0])
        if options.weights
        else 0
        for entry in options.scorers
    ]
    require_memory(estimate_attention(shapes, dtype, stages, []), device, CURE)  # before sizes that torch cannot count
    scorers = _each(options, lambda entry: outline(entry, shapes["queries"][-1], shapes["keys"][-1]))
    normalizers = (NORMALIZERS[entry.normalizer.normalizer] for entry in options.scorers)
    matrices = max(getattr(normalizer, "matrices", 0) for normalizer in normalizers)
    needed = estimate_attention(shapes, dtype, stages, scorers, matrices)
    require_memory(needed, device, CURE)
    if sum(needed.values()) - PROGRAM > NOTED:
        progress.note(f"memory: about {in_words(needed)}")


def _each(options: AttentionOptions, make: Callable[[ScorerEntry], Made]) -> list[Made]:
    """What `make` gives for every entry, or the problems of all of them at once."""
    collector = Collector()
    made = list[Made]()
    for index, entry in enumerate(options.scorers):
        with collector.under("scorers", index):
            made.append(make(entry))
    collector.check()
    return made


def _refuse_empty_rows(options: AttentionOptions, inputs: Inputs) -> None:
    empty = inputs.valid.empty_rows
    if options.mask.empty_row == "error" and bool(empty.any()):
        place = [int(index) for index in empty.nonzero()[0]]
        message = f"{int(empty.sum())} queries have no valid key, the first at index {place}"
        cure = "expected at least one key each, or empty_row: zero, uniform or nan"
        raise InputError.of(f"{message}; {cure}", ["mask", "empty_row"])


def _compile(scorers: Sequence[nn.Module], progress: Progress) -> None:
    """Compile what is worth it; where that cannot be, say so once and go on without."""
    reasons = {compile_scorer(scorer) for scorer in scorers if worth_compiling(scorer)}
    for reason in sorted(reason for reason in reasons if reason is not None):
        progress.note(f"warning: not compiled: {reason}; continuing without, only slower")


def _by_batch(names: Sequence[Any] | None, b: int) -> Sequence[Any] | None:
    """One list of tokens per batch element."""
    if names is None or any(isinstance(row, list) for row in names):
        return names
    return [names] * b
