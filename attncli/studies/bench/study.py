"""Time and memory of scorers against sizes: this package's own, the textbook's code, torch's fused kernel."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from attncli.attention import computing_dtype
from attncli.config.scorer_entries import ScorerEntry
from attncli.errors import Collector
from attncli.inputs.device import resolve_device
from attncli.runs.records import BenchResult
from attncli.scorers import SCORERS
from attncli.studies.bench.group import get_ready, time_all
from attncli.studies.bench.inputs import copies_of, draw_inputs
from attncli.studies.bench.memory import too_large_at_rest
from attncli.studies.bench.options import BenchOptions
from attncli.studies.bench.plan import Plan, plan_of, variants
from attncli.studies.bench.records import (
    COLUMNS,
    COMPARED,
    KNOWN,
    TOO_LARGE,
    Line,
    beside_textbook,
    comparisons_of,
    place_of,
    record_of,
)
from attncli.studies.bench.setting import setting_of
from attncli.studies.bench.sizes import Case, cases_of
from attncli.studies.progress import Counter, Progress
from attncli.studies.scoring import build_scorer, formula_of, outline
from attncli.studies.study import Column, Record, Rows
from attncli.studies.threads import on_threads

TEXTS = (
    "scorer",
    "label",
    "implementation",
    "measure",
    "dtype",
    "device",
    "backward",
    "status",
    "reason",
    "against",
    "baseline",
)


@dataclass(frozen=True)
class Prepared:
    """Everything that `run` works on, known to be good; `groups` has the rows in the making of one size and measure."""

    options: Any
    plan: Plan
    groups: Sequence[Sequence[Line]]
    device: torch.device


def prepare(options: BenchOptions, progress: Progress) -> Prepared:
    """What is measured at which sizes; everything that can be refused is refused here.

    Raises:
        InputError: a device, patterns, a baseline or scorers that make no sense. Sizes that do not fit into memory are
            no mistake: their rows say so.
    """
    collector = Collector()
    with collector.under():
        device = resolve_device(options.device, getattr(torch, options.dtype))
    with collector.under():
        plan = plan_of(options)
    collector.check()
    groups = list(_groups(options, plan))
    asked = {(line.entry.label, line.case.d): line for lines in groups for line in lines}
    for line in asked.values():
        with collector.under(*_place(line)):
            _check(line.entry, line.case.d, options)
    collector.check()
    return Prepared(options, plan, groups, device)


def expected_rows(prepared: Prepared) -> Rows:
    """One row for each line, and one for each that has the textbook's code beside it, as far as they are known."""
    options, plan, device = prepared.options, prepared.plan, prepared.device
    lines = [line for group in prepared.groups for line in group]
    rows = [record_of(line, [line], plan.baseline, options, device) for line in lines]
    compared = [place_of(line) for group in prepared.groups for line, _ in beside_textbook(group)]
    columns, summary = ([Column(key, key, "", text=key in TEXTS) for key in keys] for keys in (COLUMNS, COMPARED))
    known = [{name: row[name] for name in KNOWN} for row in rows]
    return Rows(columns, known, summary, compared, "no line has the textbook's code beside it")


def run(prepared: Prepared, progress: Progress) -> BenchResult:
    """Measure group by group; where the user ends the work, what is finished stays.

    Raises:
        InputError: a scorer of the user's own that fails at its first size; at later ones its row says so.
        KeyboardInterrupt: the user ended the work before anything was finished.
    """
    with on_threads(prepared.options.threads):
        return _run(prepared, progress)


def _run(prepared: Prepared, progress: Progress) -> BenchResult:
    options, plan = prepared.options, prepared.plan
    records, times, interrupted = list[Record](), dict[str, Tensor](), False
    counter = Counter(sum(map(len, prepared.groups)), progress)
    first, comparisons = dict[str, Case](), list[Record]()
    try:
        for group in prepared.groups:
            lines = [replace(line) for line in group]
            _measure(lines, prepared, counter, first)
            records += [record_of(line, lines, plan.baseline, options, prepared.device) for line in lines]
            comparisons += comparisons_of(lines)
            times |= {line.name: torch.tensor(line.seconds, dtype=torch.float64) for line in lines if line.seconds}
    except KeyboardInterrupt:
        if not records:
            raise
        interrupted = True
    progress.finished()
    entries = {line.entry.label: line.entry for group in prepared.groups for line in group}
    types = {label: type(outline(entry, 1, 1)) for label, entry in entries.items() if entry.scorer in SCORERS}
    return BenchResult(
        records,
        setting_of(options, prepared.device),
        {label: formula_of(types[label]) if label in types else entry.scorer for label, entry in entries.items()},
        times,
        states={label: _state(entry, prepared) for label, entry in entries.items() if entry.parameters},
        comparisons=comparisons,
        interrupted=interrupted,
    )


def _groups(options: BenchOptions, plan: Plan) -> Iterator[list[Line]]:
    for case in cases_of(options):
        for measure in options.measure:
            yield [
                Line(contender, entry, case, measure)
                for contender in plan.contenders
                if contender.gives(measure)
                for entry in variants(options, contender, case.d)
            ]


def _measure(lines: Sequence[Line], prepared: Prepared, counter: Counter, first: dict[str, Case]) -> None:
    """One group; `first` has the size that each contender was tried at first."""
    options, device, case = prepared.options, prepared.device, lines[0].case
    for line in lines:
        reason = too_large_at_rest(_at_rest(line, options), device)
        if reason is not None:
            line.drop(TOO_LARGE, reason)
    if any(line.reason is None for line in lines):
        copies = copies_of(draw_inputs(options, case, device), device)
        for line in lines:
            counter.of(f"n = {case.n}, {line.measure}: {line.contender.name}")()
            if line.reason is None:
                line.may_fail = first.setdefault(line.contender.name, case) != case
                get_ready(line, _scorer(line.entry, case.d, options, device), copies, options, device)
        time_all(lines, prepared.plan.baseline, device)


def _at_rest(line: Line, options: BenchOptions) -> int:
    """Bytes of inputs, parameters and results, without which nothing can be measured."""
    case, dtype = line.case, getattr(torch, options.dtype)
    results = case.n * case.d if line.measure == "output" else case.n * case.m
    parameters: int = sum(parameter.numel() for parameter in outline(line.entry, case.d, case.d).parameters())
    computing: int = computing_dtype(dtype).itemsize
    return case.numbers * int(dtype.itemsize) + (case.matrices * results + 2 * parameters) * computing


def _scorer(entry: ScorerEntry, d: int, options: BenchOptions, device: torch.device) -> nn.Module:
    return build_scorer(entry, d, d, options.seed, getattr(torch, options.dtype)).to(device)


def _check(entry: ScorerEntry, d: int, options: BenchOptions) -> None:
    """Refuse what cannot be made; scorers of the catalogue without a file are, as far as memory goes."""
    outline(entry, d, d)
    if entry.parameters is not None or entry.scorer not in SCORERS:
        build_scorer(entry, d, d, options.seed, getattr(torch, options.dtype))


def _place(line: Line) -> tuple[str | int, ...]:
    return () if line.contender.index is None else ("scorers", line.contender.index)


def _state(entry: ScorerEntry, prepared: Prepared) -> dict[str, Tensor]:
    """The parameters that were read, which fit one size."""
    return dict(_scorer(entry, prepared.groups[0][0].case.d, prepared.options, torch.device("cpu")).state_dict())
