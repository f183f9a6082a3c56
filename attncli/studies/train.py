"""What scorers learn: associative recall against d, with several seeds of each configuration as one model."""

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from attncli.config.train import Train
from attncli.errors import Collector, below
from attncli.inputs.device import resolve_device
from attncli.inputs.seeding import seeded
from attncli.results.records import Record, TrainResult
from attncli.results.train_files import Kept
from attncli.scorers import SCORERS
from attncli.studies.building import build_scorer
from attncli.studies.outlook import Outlook, Table
from attncli.studies.progress import Progress
from attncli.studies.scorer_run import formula_of
from attncli.studies.sweep import Scorers
from attncli.studies.threads import single_threaded
from attncli.studies.train_clock import Clock
from attncli.studies.train_jobs import Job, jobs_of
from attncli.studies.train_learning import Learnt, learn, points_of
from attncli.studies.train_model import Recall
from attncli.studies.train_records import COLUMNS, SUMMARY, configurations, foreseen, rows_of, summary
from attncli.studies.train_resume import kept_of
from attncli.studies.train_work import work_off

DEFAULT_SCORERS: list[Any] = [{"scorer": name} for name in ("dot", "scaled_dot", "additive")]
SETTINGS = ("keys", "vocabulary", "classes", "embedding", "seeds", "steps", "batch", "optimizer", "lr", "dtype")
BUILDING = threading.Lock()  # parameters are drawn from torch's global generator, which is seeded meanwhile


class TrainOptions(Train):
    """`study: train`."""

    study: Literal["train"] = "train"
    scorers: Scorers = DEFAULT_SCORERS


OPTIONS = TrainOptions  # what `load_study` gives, beside SCORERS, prepare, expected_rows and run


@dataclass(frozen=True)
class Prepared:
    """Everything that `run` works on, known to be good; `kept` is what an earlier run has finished, by label and d."""

    options: Any
    jobs: Sequence[Job]
    kept: Mapping[tuple[str, int], Kept]
    threads: int
    device: torch.device


def prepare(options: TrainOptions, progress: Progress) -> Prepared:
    """What is trained; everything that can be refused is refused here.

    Raises:
        InputError: a device, scorers, sizes or a run to resume that make no sense together or do not fit into memory.
    """
    collector = Collector()
    device, kept = torch.device("cpu"), dict[tuple[str, int], Kept]()
    with collector.under():
        device = resolve_device(options.device, getattr(torch, options.dtype))
    with collector.under():
        kept = kept_of(options)
    collector.check()
    own = any(entry.scorer not in SCORERS for entry in options.scorers)  # which may keep something in common
    threads = 1 if own or device.type != "cpu" else torch.get_num_threads()
    return Prepared(options, jobs_of(options, kept, threads, device), kept, threads, device)


def expected_rows(prepared: Prepared) -> Outlook:
    """One row for each scorer, size, number of keys and seed; and one over the seeds."""
    rows = foreseen(prepared.options)
    over_seeds = [{name: row[name] for name in row if name != "seed"} for row in rows if row["seed"] == 0]
    return Outlook(Table(rows, COLUMNS), Table(over_seeds, SUMMARY))


def run(prepared: Prepared, progress: Progress) -> TrainResult:
    """Train all configurations, several at a time; where the user ends the work, what is finished stays.

    Raises:
        InputError: a scorer of the user's own that fails.
        KeyboardInterrupt: the user ended the work before anything was finished.
    """
    options, kept = prepared.options, prepared.kept
    stop, clock = threading.Event(), _clock(prepared, progress)
    if kept:
        progress.note(f"{len(kept)} of {len(kept) + len(prepared.jobs)} configurations are those of {options.resume}")

    def work(job: Job) -> Learnt:
        model = _model(job, prepared)
        with _own_randomness(job, options):
            return learn(model, options, prepared.device, stop, clock.of(job.name))

    with single_threaded():
        done, interrupted = work_off(work, prepared.jobs, prepared.threads, stop)
    if interrupted and not done:
        raise KeyboardInterrupt
    finished = {(job.entry.label, job.d): _kept(job, done[i]) for i, job in enumerate(prepared.jobs) if i in done}
    result = _result(prepared, {**kept, **finished}, interrupted)
    _warn(result.comparisons, progress)
    return result


def _clock(prepared: Prepared, progress: Progress) -> Clock:
    parameters = {job.name: job.parameters * prepared.options.seeds for job in prepared.jobs}
    return Clock(parameters, prepared.options.steps, progress)


def _model(job: Job, prepared: Prepared) -> Recall:
    with BUILDING:
        return Recall(job.entry, job.d, prepared.options, range(prepared.options.seeds)).to(prepared.device)


@contextmanager
def _own_randomness(job: Job, options: Any) -> Iterator[None]:
    """Scorers of the user's own, which have torch for themselves, may draw random numbers as they score."""
    if job.entry.scorer in SCORERS:
        yield
    else:
        with seeded(options.seed, f"train.forward.{job.name}"), below("scorers", options.scorers.index(job.entry)):
            yield


def _kept(job: Job, learnt: Learnt) -> Kept:
    place = f"{job.entry.label}/{job.d}"
    return Kept(rows_of(job, learnt), {f"{place}/{name}": curve for name, curve in learnt.curves.items()})


def _result(prepared: Prepared, finished: Mapping[tuple[str, int], Kept], interrupted: bool) -> TrainResult:
    options = prepared.options
    found = [finished[entry.label, d] for entry, d in configurations(options) if (entry.label, d) in finished]
    records = [row for kept in found for row in kept.records]
    curves: dict[str, Tensor] = {name: curve for kept in found for name, curve in kept.curves.items()}
    return TrainResult(
        records,
        summary(records),
        {name: getattr(options, name) for name in SETTINGS} | {"device": str(prepared.device)},
        {entry.label: _formula(entry) for entry in options.scorers},
        torch.tensor(points_of(options.steps)),
        curves,
        states={entry.label: _state(entry, options) for entry in options.scorers if entry.parameters},
        interrupted=interrupted,
    )


def _warn(summary: Sequence[Record], progress: Progress) -> None:
    """Say of which configurations a loss is NaN or infinite."""
    for label in dict.fromkeys(row["label"] for row in summary):
        lost = {row["d"] for row in summary if row["label"] == label and not math.isfinite(row["loss"])}
        if lost:
            sizes = ", ".join(map(str, sorted(lost)))
            progress.note(f"warning: {label}: NaN or infinite losses at d = {sizes}; use a smaller lr, or float64")


def _formula(entry: Any) -> str:
    return formula_of(SCORERS[entry.scorer]) if entry.scorer in SCORERS else str(entry.scorer)


def _state(entry: Any, options: Any) -> dict[str, Tensor]:
    """The parameters that were read, which fit one size."""
    d = options.d[0]
    return dict(build_scorer(entry, d, d, options.seed, getattr(torch, options.dtype)).state_dict())
