"""Time and memory of scorers against sizes, for this package's code, textbook code, and torch's fused kernel."""

import gc
import platform
import re
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import torch
from torch import Tensor

from attncli.catalogue.building import (
    build_normalizer,
    build_scorer,
    entry_columns,
    entry_formulas,
    outline,
    random_labels,
    stored_parameters,
)
from attncli.catalogue.guarding import raw_scores
from attncli.core.device import resolve_device, too_large
from attncli.core.threads import on_threads
from attncli.errors import Collector, InputError, ran_out
from attncli.results import Result, Row
from attncli.runtime import Counter, Progress, keep_finished, signals
from attncli.scorers import SCORERS
from attncli.scorers._custom import raised
from attncli.studies.bench.columns import AXES, COLUMNS, COMPARISONS, BenchFacts, raw_name
from attncli.studies.bench.implementations import BenchTask, Call, Inputs, disagreement, make_call
from attncli.studies.bench.measure import (
    BLOCK,
    BUDGET,
    COPIES_BYTES,
    MOST_PAIRS,
    MOST_ROUNDS,
    call_seconds,
    draw_inputs,
    input_copies,
    peak_memory,
    rounds_for,
    time_ratio,
    within_memory,
)
from attncli.studies.bench.options import HIDDEN, BenchOptions
from attncli.studies.bench.plan import (
    Case,
    Contender,
    baseline_name,
    bench_cases,
    bench_plan,
    entry_variants,
    operations,
    traffic,
)
from attncli.studies.bench.rows import bench_findings, is_larger, mark_noisy, size_words
from attncli.studies.bench.tables import tables
from attncli.studies.study import Study


@dataclass(frozen=True)
class PreparedBench:
    """The validated input of `run`; `parameters` are the parameters read from files, by `label/name`."""

    options: BenchOptions
    contenders: Sequence[Contender]
    parameters: dict[str, Tensor]
    device: torch.device


@dataclass(eq=False)
class TimedTrial:
    """A row under construction: `call` is None before it is ready and once it is dropped or timed.

    `record` has the columns known so far; `is_random` is whether the scorer has random parameters.
    """

    contender: Contender
    case: Case
    record: Row
    call: Call | None = None
    operations: int | None = None
    rounds: int = 0
    seconds: list[float] = field(default_factory=list)  # of a call, in each round
    is_random: bool = False

    def drop(self, status: str, reason: str) -> None:
        """Give up timing this trial, with a status and a reason for its row."""
        self.call, self.seconds = None, []
        self.record |= {"status": status, "reason": reason, "peak_bytes": None}


def prepare(options: BenchOptions, progress: Progress) -> PreparedBench:
    """Check all options and return the plan.

    A user's scorer is tried on two queries and three keys. Sizes that do not fit into memory are no error; their rows
    get the status `too large`.
    """
    collector = Collector()
    dtype = getattr(torch, options.dtype)
    with collector.under():
        device = resolve_device(options.device, dtype)
    with collector.under():
        contenders = bench_plan(options)
    collector.check()
    parameters: dict[str, Tensor] = {}
    for contender in {other.entry.label: other for other in contenders}.values():
        for d in options.d:
            entry = entry_variants(contender, options, d)[-1].entry
            with collector.under("scorers", contender.index):
                outline(entry, d, d)
                build_normalizer(entry)
                if entry.scorer in SCORERS and entry.parameters is None:
                    continue  # it can only fail for lack of memory
                scorer = build_scorer(entry, d, d, options.seed, dtype)
                parameters |= stored_parameters(entry, scorer)
                if d == options.d[0]:
                    raw_scores(scorer, torch.ones(1, 2, d, dtype=dtype), torch.ones(1, 3, d, dtype=dtype))
    collector.check()
    return PreparedBench(options, contenders, parameters, device)


def run(prepared: PreparedBench, progress: Progress) -> Result:
    """Time the trials group by group and return the result; if the user stops the run, finished groups are kept."""
    options, groups = prepared.options, list(_groups(prepared))
    finished = list[list[TimedTrial]]()
    counter = Counter(sum(map(len, groups)), progress)
    with keep_finished(finished) as outcome, on_threads(options.threads):
        for group in groups:
            with within_memory(prepared.device):
                get_ready(group, prepared, counter, [trial.record for other in finished for trial in other])
                time_all(group, prepared.device)
            finished.append(group)
    records = [_row(trial, group, options) for group in finished for trial in group]
    mark_noisy(records)
    comparisons = [row for group in finished for row in _comparisons(group)]
    timed = [trial for group in finished for trial in group if trial.seconds]
    random = list(dict.fromkeys(trial.record["label"] for group in finished for trial in group if trial.is_random))
    return Result(
        "bench",
        options.name,
        records,
        comparisons,
        bench_findings(records, comparisons, random),
        tensors={raw_name(trial.record): torch.tensor(trial.seconds, dtype=torch.float64) for trial in timed},
        parameters=prepared.parameters,
        interrupted=outcome.interrupted,
        formulas=entry_formulas(contender.entry for contender in prepared.contenders),
        random=random,
        facts=bench_facts(prepared),
    )


def _groups(prepared: PreparedBench) -> Iterator[list[TimedTrial]]:
    """Yield groups of trials to time against each other: all contenders for one measure at one size."""
    options = prepared.options
    for case, measure in product(bench_cases(options), options.measure):
        contenders, group = [other for other in prepared.contenders if other.gives(measure)], []
        for contender in [variant for other in contenders for variant in entry_variants(other, options, case.d)]:
            hidden = contender.entry.options.get(HIDDEN)
            record = {
                **entry_columns(contender.entry),
                "implementation": contender.implementation,
                "measure": measure,
                **case._asdict(),
                "num_hiddens": hidden if isinstance(hidden, int) else None,
                "dtype": options.dtype,
                "device": str(prepared.device),
                "backward": options.backward,
                "baseline": baseline_name(contenders),
            }
            group.append(TimedTrial(contender, case, record))
        yield group


def get_ready(group: Sequence[TimedTrial], prepared: PreparedBench, counter: Counter, before: Sequence[Row]) -> None:
    """Set the call and the peak memory of each trial of a group, or drop the trial with a reason.

    The inputs are drawn for the first trial that fits into memory, and shared by all. A trial is not tried if memory
    ran out for smaller sizes, in the rows `before`.
    """
    options, device, copies = prepared.options, prepared.device, list[Inputs]()
    dtype = getattr(torch, options.dtype)
    for trial in group:
        case, measure, entry = trial.case, trial.record["measure"], trial.contender.entry
        counter.step(f"n = {case.n}, {measure}: {trial.contender.name}")
        if smaller := next(
            (row for row in before if row.get("status") == "too large" and is_larger(trial.record, row)), None
        ):
            trial.drop("too large", f"memory ran out at {size_words(smaller, AXES)}")
            continue
        with _failures(trial, device):
            if reason := too_large(traffic(case, measure, options.backward, dtype.itemsize), device):
                trial.drop("too large", reason)
                continue
            copies = copies or input_copies(draw_inputs(options, case, device))
            scorer = build_scorer(entry, case.d, case.d, options.seed, dtype).to(device)
            trial.is_random = bool(random_labels([entry], [scorer]))
            task = BenchTask(
                trial.contender.implementation,
                scorer,
                measure,
                build_normalizer(entry),
                alibi=entry.position_bias is not None,
                heads=case.heads,
                backward=options.backward,
            )
            call = make_call(task, copies)
            if reason := disagreement(task, copies[0], call()):
                trial.drop("disagrees", reason)
                continue
            if device.type != "cpu" or case.matrices * case.n * case.m <= MOST_PAIRS:
                trial.record["peak_bytes"] = peak_memory(call, device)
            trial.operations = operations(task.scorer, case, measure, options.backward)
            trial.call = call


def time_all(group: Sequence[TimedTrial], device: torch.device) -> None:
    """Measure the seconds of all trials with a call; slow trials have fewer rounds.

    In a round, each trial is called for a block of time; each round begins with another trial than the round before.
    """
    ready = [trial for trial in group if trial.call]
    for turn in range(MOST_ROUNDS):
        for index in range(len(ready)):
            trial = ready[(index + turn) % len(ready)]
            if trial.call:
                with _failures(trial, device):
                    signals.check()
                    trial.rounds = trial.rounds or rounds_for(trial.call, device)
                    if turn < trial.rounds:
                        trial.seconds.append(call_seconds(trial.call, device))
    for trial in ready:
        trial.call = None


@contextmanager
def _failures(trial: TimedTrial, device: torch.device) -> Iterator[None]:
    """Context manager that drops the trial, and suppresses the error, if any exception but an interruption is raised.

    The status of the row is `too large` if memory ran out, `not available` for compiled code, otherwise `failed`.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit among it
        if ran_out(error):
            trial.drop("too large", "out of memory")
            gc.collect()
            if device.type == "cuda":
                torch.cuda.empty_cache()
        else:
            reason = str(error) if isinstance(error, InputError) else f"it gave {raised(error)}"
            trial.drop("not available" if trial.contender.implementation == "compiled" else "failed", reason)


def _row(trial: TimedTrial, group: Sequence[TimedTrial], options: BenchOptions) -> Row:
    """Return the complete row of a trial, with None for missing measurements; ratios are to the group's baseline."""
    if trial.seconds:
        seconds, itemsize = statistics.median(trial.seconds), getattr(torch, options.dtype).itemsize
        moved = traffic(trial.case, trial.record["measure"], options.backward, itemsize)
        low, _, high = statistics.quantiles(trial.seconds, n=4, method="inclusive")
        ratio, ratio_ci = _ratio(trial, _partner(trial, group, trial.record["baseline"]))
        trial.record |= {
            "status": "timed",
            "seconds": seconds,
            "seconds_iqr": high - low,
            "gflops": None if trial.operations is None else trial.operations / seconds / 1e9,
            "gbytes_per_second": moved / seconds / 1e9,
            "rounds": len(trial.seconds),
            "ratio": ratio,
            "ratio_ci": ratio_ci,
        }
    return {column.key: trial.record.get(column.key) for column in COLUMNS}


def _comparisons(group: Sequence[TimedTrial]) -> Iterator[Row]:
    """Yield comparisons of each trial with the textbook's code of the same entry."""
    for trial in group:
        textbook = _partner(trial, group, f"{trial.contender.entry.label}/textbook")
        if textbook not in (trial, None):
            ratio, ratio_ci = _ratio(textbook, trial)
            row = {**trial.record, "against": "textbook", "times_as_fast": ratio, "times_as_fast_ci": ratio_ci}
            yield {column.key: row[column.key] for column in COMPARISONS}


def _partner(trial: TimedTrial, group: Sequence[TimedTrial], name: str) -> TimedTrial | None:
    """Return the trial called `name` with as many hidden units as `trial`, else the first called `name`, or None."""
    candidates = [other for other in group if other.contender.name == name]
    alike = [other for other in candidates if other.record["num_hiddens"] == trial.record["num_hiddens"]]
    return next(iter(alike + candidates), None)


def _ratio(trial: TimedTrial, other: TimedTrial | None) -> tuple[float | None, list[float] | None]:
    """Return the ratio of the trials' times and its interval, or None for both if either trial has no time."""
    return time_ratio(trial.seconds, other.seconds) if other and trial.seconds and other.seconds else (None, None)


def bench_facts(prepared: PreparedBench) -> BenchFacts:
    """Return the machine and the method of measurement."""
    options, device = prepared.options, prepared.device
    return BenchFacts(
        **options.model_dump(include={"backward", "compile", "measure", "dtype"}),
        baseline=baseline_name(prepared.contenders),
        device=str(device),
        device_name=torch.cuda.get_device_name(device) if device.type == "cuda" else _processor(),
        threads=options.threads or torch.get_num_threads(),
        copies_bytes=COPIES_BYTES,
        block_seconds=BLOCK,
        budget_seconds=BUDGET,
        ratio_ci="95 %, Student's t of the logarithms of the ratios round by round",
    )


def _processor() -> str:
    """Return the processor's name on Linux, elsewhere the kind of machine."""
    path = Path("/proc/cpuinfo")
    match = re.search("^model name\\s*: (.*)", path.read_text(encoding="utf-8") if path.exists() else "", re.MULTILINE)
    return match[1] if match else platform.machine()


STUDY = Study(prepare, run, tables, BenchFacts, {"records": COLUMNS, "comparisons": COMPARISONS}, "seconds")
