"""The main study: several scorers on the same queries, keys, values and mask, and what differs."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attncli.config.scorer_entries import ScorerEntry
from attncli.config.tensors import FileTensor, TokenNames
from attncli.errors import Collector, InputError, below
from attncli.inputs.build import Inputs, Shapes, build_inputs
from attncli.inputs.device import resolve_device
from attncli.studies.attention.columns import COLUMNS, COMPARISONS
from attncli.studies.attention.findings import findings_of
from attncli.studies.attention.options import AttentionOptions
from attncli.studies.attention.stages import WEIGHT_FIGURES, ScorerRun, run_scorer, warn_of_numbers
from attncli.studies.attention.statistics import OF_WEIGHTS, compare
from attncli.studies.memory import PROGRAM, estimate_attention, in_words, require_memory
from attncli.studies.progress import Progress
from attncli.studies.scoring import build_scorer, compile_scorer, outline, worth_compiling
from attncli.studies.study import STAGES, Record, Result, Rows

WORTH_SAYING = 256 * 2**20  # bytes of tensors from which the estimate is told
CURE = "use fewer queries, keys or batch elements, or fewer scorers"
MOST_CELLS = 2**24  # of the mask that is saved beside outputs alone


@dataclass(frozen=True)
class Prepared:
    """Everything that `run` works on, known to be good."""

    options: AttentionOptions
    inputs: Inputs
    scorers: Sequence[nn.Module]
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
        )
    collector.check()
    _refuse_empty_rows(options, inputs)
    q, k = inputs.queries.shape[-1], inputs.keys.shape[-1]
    scorers = _each(options, lambda entry: build_scorer(entry, q, k, options.seed, inputs.queries.dtype))
    return Prepared(options, inputs, [scorer.to(device) for scorer in scorers], device)


def expected_rows(prepared: Prepared) -> Rows:
    """One row per scorer, one per pair, and the stages of every scorer."""
    options, entries = prepared.options, prepared.options.scorers
    unknown = [*WEIGHT_FIGURES, *OF_WEIGHTS, *STAGES[:-1]] if not options.weights else []
    return Rows(
        COLUMNS,
        [{"scorer": entry.scorer, "label": entry.label} for entry in entries],
        COMPARISONS,
        [{"a": a.label, "b": b.label} for a, b in itertools.combinations(entries, 2)],
        "there is only one scorer",
        {entry.label: _shapes(prepared, entry) for entry in entries},
        dict.fromkeys(unknown, "weights: false"),
    )


def _shapes(prepared: Prepared, entry: ScorerEntry) -> dict[str, tuple[int, ...]]:
    """The stages that an entry will have, and their shapes."""
    options, scores = prepared.options, prepared.inputs.valid.shape
    output = {"output": (*scores[:-1], prepared.inputs.values.shape[-1])}
    if not options.weights:
        return output
    capped = {"capped": scores} if entry.softcap is not None else {}
    dropped = {"dropped": scores} if options.train and entry.dropout > 0 else {}
    return {"scores": scores, **capped, "weights": scores, **dropped, **output}


@torch.no_grad()
def run(prepared: Prepared, progress: Progress) -> Result:
    """Run every scorer of the config on its inputs.

    Raises:
        InputError: a scorer of the user's own that fails.
    """
    options, inputs = prepared.options, prepared.inputs
    empty = inputs.valid.empty_rows.cpu()
    if options.compile:
        _compile(prepared.scorers, progress)
    runs = []
    for index, (entry, scorer) in enumerate(zip(options.scorers, prepared.scorers, strict=True)):
        progress.step(index, len(options.scorers), entry.label)
        with below("scorers", index):
            runs.append(run_scorer(options, entry, scorer, inputs))
        warn_of_numbers(runs[-1], empty, progress)
    progress.step(len(runs), len(runs), "comparisons")
    comparisons = [_compare(a, b, empty) for a, b in itertools.combinations(runs, 2)]
    return Result(
        options.study,
        options.name,
        {
            "formulas": {run.label: run.formula for run in runs},
            "scales": {run.label: run.scale for run in runs},
            "tokens": _tokens(options.tokens, inputs.valid.shape[0]),
        },
        [run.record for run in runs],
        comparisons,
        findings_of(comparisons),
        _kept(options, inputs),
        {f"{run.label}/{stage}": tensor for run in runs for stage, tensor in run.stages.items()},
        {f"{run.label}/{name}": tensor for run in runs for name, tensor in run.state.items()},
    )


def _kept(options: AttentionOptions, inputs: Inputs) -> dict[str, Tensor]:
    """The inputs that are saved: those of every run, and lengths and mask that came from a file."""
    kept = {"queries": inputs.queries, "keys": inputs.keys, "values": inputs.values}
    if options.weights or math.prod(inputs.valid.shape) <= MOST_CELLS:
        kept["valid"] = inputs.valid.whole
    if isinstance(options.data.valid_lens, FileTensor) and inputs.valid.lengths is not None:
        kept["valid_lens"] = inputs.valid.lengths
    if inputs.valid.mask is not None:
        kept["mask"] = inputs.valid.mask
    return {name: tensor.cpu() for name, tensor in kept.items()}


def _check_size(options: AttentionOptions, shapes: Shapes, device: torch.device, progress: Progress) -> None:
    """Refuse what the scorers cannot take or the memory cannot hold, before anything is drawn."""
    dtype = getattr(torch, options.dtype)
    stages = [
        2 + (entry.softcap is not None) + (options.train and entry.dropout > 0) if options.weights else 0
        for entry in options.scorers
    ]
    require_memory(estimate_attention(shapes, dtype, stages, []), device, CURE)  # before sizes that torch cannot count
    scorers = _each(options, lambda entry: outline(entry, shapes["queries"][-1], shapes["keys"][-1]))
    needed = estimate_attention(shapes, dtype, stages, scorers)
    require_memory(needed, device, CURE)
    if sum(needed.values()) - PROGRAM > WORTH_SAYING:
        progress.note(f"memory: about {in_words(needed)}")


def _each(options: AttentionOptions, make: Callable[[ScorerEntry], nn.Module]) -> list[nn.Module]:
    """What `make` gives for every entry, or the problems of all of them at once."""
    collector = Collector()
    scorers = []
    for index, entry in enumerate(options.scorers):
        with collector.under("scorers", index):
            scorers.append(make(entry))
    collector.check()
    return scorers


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


def _compare(a: ScorerRun, b: ScorerRun, empty: Tensor) -> Record:
    figures = compare(a.stages.get("weights"), b.stages.get("weights"), empty, a.stages["output"], b.stages["output"])
    return {"a": a.label, "b": b.label, **figures}


def _tokens(names: TokenNames, b: int) -> Record:
    """The names of queries and keys, one list per batch element."""

    def per_example(given: Sequence[Any] | None) -> Sequence[Sequence[str]] | None:
        if given is None:
            return None
        return given if any(isinstance(row, list) for row in given) else [given] * b

    return {"queries": per_example(names.queries), "keys": per_example(names.keys)}
