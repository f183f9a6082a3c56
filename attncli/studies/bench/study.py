"""Time and memory of scorers against sizes: this package's own, the textbook's code, torch's fused kernel."""

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from attncli.errors import Collector
from attncli.inputs.device import resolve_device
from attncli.scorers import SCORERS
from attncli.studies.bench.calls import cache_size
from attncli.studies.bench.columns import COLUMNS, COMPARISONS, KNOWN, raw_name
from attncli.studies.bench.findings import findings_of
from attncli.studies.bench.measure import Line, get_ready, time_all
from attncli.studies.bench.options import BenchOptions
from attncli.studies.bench.plan import Contender, Plan, cases_of, hidden_units, plan_of, traffic, variants
from attncli.studies.bench.timing import BLOCK, BUDGET, interquartile_range, ratio_of
from attncli.studies.progress import Counter, Progress
from attncli.studies.scoring import build_scorer, formulas_of, outline
from attncli.studies.study import Record, Result, Rows
from attncli.studies.threads import on_threads


@dataclass(frozen=True)
class Prepared:
    """Everything that `run` works on, known to be good; `groups` has the rows in the making of one size and measure."""

    options: BenchOptions
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
    for line in {(line.entry.label, line.case.d): line for lines in groups for line in lines}.values():
        entry, d, index = line.entry, line.case.d, line.contender.index
        with collector.under(*(() if index is None else ("scorers", index))):
            outline(entry, d, d)
            if entry.parameters is not None or entry.scorer not in SCORERS:  # others can be made, as far as memory goes
                build_scorer(entry, d, d, options.seed, getattr(torch, options.dtype))
    collector.check()
    return Prepared(options, plan, groups, device)


def expected_rows(prepared: Prepared) -> Rows:
    """One row for each line, and one for each that has the textbook's code beside it, as far as they are known."""
    rows = [_place(line, prepared) for lines in prepared.groups for line in lines]
    compared = [_compared(line) for lines in prepared.groups for line, _ in _beside_textbook(lines)]
    known = [{key: row[key] for key in KNOWN} for row in rows]
    return Rows(COLUMNS, known, COMPARISONS, compared, "no line has the textbook's code beside it")


def run(prepared: Prepared, progress: Progress) -> Result:
    """Measure group by group; where the user ends the work, what is finished stays.

    Raises:
        InputError: a scorer of the user's own that fails at its first size; at later ones its row says so.
        KeyboardInterrupt: the user ended the work before anything was finished.
    """
    with on_threads(prepared.options.threads):
        return _run(prepared, progress)


def _run(prepared: Prepared, progress: Progress) -> Result:
    options, plan, device = prepared.options, prepared.plan, prepared.device
    finished, interrupted = list[list[Line]](), False
    counter = Counter(sum(map(len, prepared.groups)), progress)

    def begin(line: Line) -> None:
        counter.of(f"n = {line.case.n}, {line.measure}: {line.contender.name}")()

    try:
        for group in prepared.groups:
            lines = [replace(line) for line in group]
            get_ready(lines, options, device, begin)
            time_all(lines, plan.baseline, device)
            finished.append(lines)
    except KeyboardInterrupt:
        if not finished:
            raise
        interrupted = True
    progress.finished()
    done = [line for lines in finished for line in lines]
    records = [_row(line, lines, prepared) for lines in finished for line in lines]
    comparisons = [row for lines in finished for row in _comparisons(lines)]
    return Result(
        "bench",
        options.name,
        settings_of(prepared),
        records,
        comparisons,
        findings_of(records, comparisons, [line.operations for line in done]),
        tensors={
            raw_name(record): torch.tensor(line.seconds, dtype=torch.float64)
            for record, line in zip(records, done, strict=True)
            if line.seconds
        },
        parameters=_parameters_read(prepared),
        interrupted=interrupted,
    )


def _groups(options: BenchOptions, plan: Plan) -> Iterator[list[Line]]:
    for index, case in enumerate(cases_of(options)):
        for measure in options.measure:
            yield [
                Line(contender, entry, case, measure, may_fail=index > 0)
                for contender in plan.contenders
                if contender.gives(measure)
                for entry in variants(options, contender, case.d)
            ]


def _place(line: Line, prepared: Prepared) -> Record:
    """The row of a line, with what is known before the work."""
    options = prepared.options
    return dict.fromkeys(column.key for column in COLUMNS) | {
        **_names(line),
        "dtype": options.dtype,
        "device": str(prepared.device),
        "backward": options.backward,
        "status": line.status,
        "reason": line.reason,
        "baseline": options.baseline,
    }


def _names(line: Line) -> Record:
    sizes = {axis: getattr(line.case, axis) for axis in ("n", "m", "d", "batch")} | {"heads": line.case.heads or 1}
    names = {"scorer": line.entry.scorer, "label": line.entry.label, "implementation": line.contender.implementation}
    return {**names, "measure": line.measure, **sizes, "num_hiddens": hidden_units(line.entry)}


def _row(line: Line, lines: Sequence[Line], prepared: Prepared) -> Record:
    """A whole row; what was not measured is None."""
    record = _place(line, prepared)
    if not line.seconds:
        return record
    options, seconds = prepared.options, median(line.seconds)
    moved = traffic(line.case, line.measure, options.backward, getattr(torch, options.dtype).itemsize)
    ratio, interval = _ratio(line, lines, prepared.plan.baseline)
    return record | {
        "seconds": seconds,
        "seconds_iqr": interquartile_range(line.seconds),
        "peak_bytes": line.peak,
        "gflops": None if line.operations is None else line.operations / seconds / 1e9,
        "gbytes_per_second": moved / seconds / 1e9,
        "rounds": len(line.seconds),
        "ratio": ratio,
        "ratio_ci": interval,
    }


def _ratio(line: Line, lines: Sequence[Line], baseline: Contender) -> tuple[float | None, list[float] | None]:
    """To the baseline with as many hidden units where there is one, else to the first."""
    candidates = [each for each in lines if each.contender == baseline]
    alike = (each for each in candidates if hidden_units(each.entry) == hidden_units(line.entry))
    other = next(alike, candidates[0])
    if line is other:
        return 1.0, [1.0, 1.0]
    return ratio_of(line.seconds, other.seconds) if other.seconds else (None, None)


def _comparisons(lines: Sequence[Line]) -> Iterator[Record]:
    """How many times as fast as the textbook's code of the same entry the others are; None where one has no time."""
    for line, textbook in _beside_textbook(lines):
        timed = line.seconds and textbook.seconds
        ratio, interval = ratio_of(textbook.seconds, line.seconds) if timed else (None, None)
        yield {**_compared(line), "times_as_fast": ratio, "times_as_fast_ci": interval}


def _beside_textbook(lines: Sequence[Line]) -> Iterator[tuple[Line, Line]]:
    """Every line of a group with the textbook's line of the same entry, where there is one."""
    textbook = {
        (line.entry.label, hidden_units(line.entry)): line
        for line in lines
        if line.contender.implementation == "textbook"
    }
    for line in lines:
        other = textbook.get((line.entry.label, hidden_units(line.entry)), line)
        if other is not line:
            yield line, other


def _compared(line: Line) -> Record:
    """What is known of a comparison before the work."""
    names = _names(line) | {"against": "textbook"}
    return {column.key: names[column.key] for column in COMPARISONS if column.key in names}


def settings_of(prepared: Prepared) -> Record:
    """On what machine and how was measured, without which times mean nothing."""
    options, device = prepared.options, prepared.device
    entries = {line.entry.label: line.entry for lines in prepared.groups for line in lines}
    return {
        "baseline": options.baseline,
        "backward": options.backward,
        "compile": options.compile,
        "measure": list(options.measure),
        "dtype": options.dtype,
        "device": str(device),
        "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else _processor(),
        "threads": torch.get_num_threads(),
        "cache_bytes": cache_size(device),
        "block_seconds": BLOCK,
        "budget_seconds": BUDGET,
        "ratio_ci": "95 %, Student's t of the logarithms of the ratios round by round",
        "formulas": formulas_of(entries.values()),
    }


def _processor() -> str:
    """As Linux calls it, else the kind of machine."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _parameters_read(prepared: Prepared) -> dict[str, Tensor]:
    """The parameters that came from files, which fit one size."""
    options, found = prepared.options, dict[str, Tensor]()
    for line in prepared.groups[0]:
        if line.entry.parameters is not None:
            d = line.case.d
            scorer = build_scorer(line.entry, d, d, options.seed, getattr(torch, options.dtype))
            found |= {f"{line.entry.label}/{name}": each for name, each in scorer.state_dict().items()}
    return found
