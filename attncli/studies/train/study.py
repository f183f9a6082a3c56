"""What scorers learn: associative recall against d, with several seeds of each configuration as one model."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from attncli.errors import Collector, below
from attncli.inputs.device import resolve_device
from attncli.runs.records import TrainResult
from attncli.scorers import SCORERS
from attncli.studies.progress import Progress
from attncli.studies.study import Column, Rows
from attncli.studies.threads import single_threaded
from attncli.studies.train.clock import Clock
from attncli.studies.train.job import Job
from attncli.studies.train.jobs import jobs_of
from attncli.studies.train.learning import Learnt, learn
from attncli.studies.train.model import Recall
from attncli.studies.train.options import TrainOptions
from attncli.studies.train.records import COLUMNS, SUMMARY, foreseen
from attncli.studies.train.result import kept_from, result_of, warn_of_numbers
from attncli.studies.train.resume import Earlier, earlier_run
from attncli.studies.train.work import work_off

TEXTS = ("scorer", "label")
BUILDING = threading.Lock()  # parameters are drawn from torch's global generator, which is seeded meanwhile


@dataclass(frozen=True)
class Prepared:
    """Everything that `run` works on, known to be good; `earlier` is what a run that is resumed has finished."""

    options: Any
    jobs: Sequence[Job]
    earlier: Earlier
    threads: int
    device: torch.device


def prepare(options: TrainOptions, progress: Progress) -> Prepared:
    """What is trained; everything that can be refused is refused here.

    Raises:
        InputError: a device, scorers, sizes or a run to resume that make no sense together or do not fit into memory.
    """
    collector = Collector()
    device, earlier = torch.device("cpu"), Earlier()
    with collector.under():
        device = resolve_device(options.device, getattr(torch, options.dtype))
    with collector.under():
        earlier = earlier_run(options)
    collector.check()
    own = any(entry.scorer not in SCORERS for entry in options.scorers)  # which may keep something in common
    threads = 1 if own or device.type != "cpu" else torch.get_num_threads()
    return Prepared(options, jobs_of(options, earlier.kept, threads, device), earlier, threads, device)


def expected_rows(prepared: Prepared) -> Rows:
    """One row for each scorer, size, number of keys and seed; and one over the seeds."""
    rows = foreseen(prepared.options)
    over_seeds = [{name: row[name] for name in row if name != "seed"} for row in rows if row["seed"] == 0]
    columns, summary = ([Column(key, key, "", text=key in TEXTS) for key in keys] for keys in (COLUMNS, SUMMARY))
    return Rows(columns, rows, summary, over_seeds)


def run(prepared: Prepared, progress: Progress) -> TrainResult:
    """Train all configurations, several at a time; where the user ends the work, what is finished stays.

    Raises:
        InputError: a scorer of the user's own that fails.
        KeyboardInterrupt: the user ended the work before anything was finished.
    """
    options, kept = prepared.options, prepared.earlier.kept
    stop, clock = threading.Event(), _clock(prepared, progress)
    _tell_of_earlier(prepared, progress)

    def work(job: Job) -> Learnt:
        model = _model(job, prepared)
        with below("scorers", options.scorers.index(job.entry)):
            return learn(model, options, prepared.device, stop, clock.of(job.name))

    with single_threaded():
        done, interrupted = work_off(work, prepared.jobs, prepared.threads, stop)
    progress.finished()
    if interrupted and not done:
        raise KeyboardInterrupt
    finished = {(job.entry.label, job.d): kept_from(job, done[i]) for i, job in enumerate(prepared.jobs) if i in done}
    result = result_of(options, prepared.device, {**kept, **finished}, interrupted)
    warn_of_numbers(result, progress)
    return result


def _tell_of_earlier(prepared: Prepared, progress: Progress) -> None:
    """What of the run that is resumed is kept, and what is not."""
    earlier = prepared.earlier
    if earlier.kept:
        whole = len(earlier.kept) + len(prepared.jobs)
        progress.note(f"{len(earlier.kept)} of {whole} configurations are those of {prepared.options.resume}")
    if earlier.left_out:
        left = f"{earlier.left_out} finished configurations of {prepared.options.resume} are not in this run"
        progress.note(f"{left}; name all of its sizes and scorers")
    for (label, d), flaw in earlier.flaws.items():
        progress.note(f"{label}, d = {d}, is trained again: {flaw}")


def _clock(prepared: Prepared, progress: Progress) -> Clock:
    parameters = {job.name: job.parameters * prepared.options.seeds for job in prepared.jobs}
    return Clock(parameters, prepared.options.steps, progress)


def _model(job: Job, prepared: Prepared) -> Recall:
    with BUILDING:
        return Recall(job.entry, job.d, prepared.options, range(prepared.options.seeds)).to(prepared.device)
