"""What scorers learn: associative recall against d, with several seeds of each configuration as one model."""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from attncli.errors import below
from attncli.inputs.device import resolve_device
from attncli.scorers import SCORERS
from attncli.studies.progress import Counter, Progress
from attncli.studies.scoring import formulas_of
from attncli.studies.study import Record, Result, Rows, by_label
from attncli.studies.threads import single_threaded
from attncli.studies.train.columns import COLUMNS, COMPARISONS, rows_of, summary
from attncli.studies.train.configurations import Configuration, check_memory, configurations_of, parameters_of
from attncli.studies.train.findings import findings_of
from attncli.studies.train.learning import StoppedError, learn, points_of
from attncli.studies.train.model import Recall
from attncli.studies.train.options import TrainOptions
from attncli.studies.train.resume import SETTINGS, Finished, hash_of, kept_of
from attncli.studies.train.task import of_equal_weights

CURE = "use a smaller lr or float64, and look at the scorer's options and parameters"
BUILDING = threading.Lock()  # parameters are drawn from torch's global generator, which is seeded meanwhile

Job = TypeVar("Job")
Done = TypeVar("Done")


@dataclass(frozen=True)
class Prepared:
    """Everything that `run` works on, known to be good.

    `configurations` are in the order of the rows, `jobs` are those to train, `kept` has the others by `label/d`, from
    the run that is resumed, and `parameters` those that are read, by label.
    """

    options: TrainOptions
    configurations: Sequence[Configuration]
    jobs: Sequence[Configuration]
    kept: Mapping[str, Finished]
    parameters: Mapping[str, Mapping[str, Tensor]]
    threads: int
    device: torch.device


def prepare(options: TrainOptions, progress: Progress) -> Prepared:
    """What is trained; everything that can be refused is refused here.

    Raises:
        InputError: a device, scorers, sizes or a run to resume that make no sense together or do not fit into memory.
    """
    device = resolve_device(options.device, getattr(torch, options.dtype))
    found = configurations_of(options)
    own = any(entry.scorer not in SCORERS for entry in options.scorers)  # which may keep something in common
    threads = 1 if own or device.type != "cpu" else torch.get_num_threads()
    check_memory(found, options, threads, device)
    parameters = parameters_of(found, options)
    kept = kept_of(found, options, device, parameters)
    # Small ones first: all scorers get somewhere early.
    jobs = sorted((job for job in found if job.place not in kept), key=lambda job: job.d)
    return Prepared(options, found, jobs, kept, parameters, threads, device)


def expected_rows(prepared: Prepared) -> Rows:
    """One row for each scorer, size, number of keys and seed; and one over the seeds."""
    options = prepared.options
    over_seeds: list[Record] = [
        {"scorer": job.entry.scorer, "label": job.entry.label, "d": job.d, "keys": keys}
        for job in prepared.configurations
        for keys in options.tested
    ]
    rows = [row | {"seed": seed} for row in over_seeds for seed in range(options.seeds)]
    return Rows(COLUMNS, rows, COMPARISONS, over_seeds)


def run(prepared: Prepared, progress: Progress) -> Result:
    """Train all configurations, several at a time; where the user ends the work, what is finished stays.

    Raises:
        InputError: a scorer of the user's own that fails.
        KeyboardInterrupt: the user ended the work before anything was finished.
    """
    options, jobs, kept = prepared.options, prepared.jobs, prepared.kept
    counter, stop = Counter(options.steps * len(jobs), progress), threading.Event()
    if options.resume is not None:
        of_all = f"{len(kept)} of {len(prepared.configurations)} configurations are those of {options.resume}"
        progress.note(f"{of_all}; {len(jobs)} to train")

    def work(job: Configuration) -> Finished:
        with BUILDING:
            model = Recall(job.entry, job.d, options, range(options.seeds)).to(prepared.device)
        with below("scorers", job.index):
            learnt = learn(model, options, prepared.device, stop, counter.of(f"{job.entry.label}, d = {job.d}"))
        return Finished(rows_of(job, learnt), {f"{job.place}/{name}": each for name, each in learnt.curves.items()})

    with single_threaded():
        done, interrupted = side_by_side(work, jobs, prepared.threads, stop)
    progress.finished()
    if interrupted and not done:
        raise KeyboardInterrupt
    result = _result(prepared, {**kept, **{jobs[index].place: each for index, each in done.items()}}, interrupted)
    for label, rows in by_label(result.comparisons).items():
        if lost := sorted({row["d"] for row in rows if not math.isfinite(row["loss"])}):
            named = ", ".join(map(str, lost))
            progress.note(f"warning: {label}: NaN or infinite losses at d = {named}; {CURE}")
    return result


def side_by_side(
    work: Callable[[Job], Done], jobs: Sequence[Job], threads: int, stop: threading.Event
) -> tuple[dict[int, Done], bool]:
    """What became of the jobs, by their index, and whether the user ended the work before all were done.

    `work` is to raise StoppedError soon after `stop` is set.

    Raises:
        Exception: the first that a job raises; the others are stopped.
    """
    with ThreadPoolExecutor(threads) as pool:
        futures = list[Future[Done]]()
        try:
            with suppress(KeyboardInterrupt):
                for job in jobs:
                    futures.append(pool.submit(work, job))
                wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()  # by now all are done, or nobody wants the rest
            pool.shutdown(wait=True, cancel_futures=True)
    errors = [StoppedError() if future.cancelled() else future.exception() for future in futures]
    for error in errors:
        if error is not None and not isinstance(error, StoppedError | KeyboardInterrupt):
            raise error
    done = {index: futures[index].result() for index, error in enumerate(errors) if error is None}
    return done, len(done) < len(jobs)


def _result(prepared: Prepared, finished: Mapping[str, Finished], interrupted: bool) -> Result:
    """The result of all configurations that are finished, by `label/d`."""
    options, device, parameters = prepared.options, prepared.device, prepared.parameters
    found = [(job, finished[job.place]) for job in prepared.configurations if job.place in finished]
    records = [row for _, each in found for row in each.records]
    hashes = {job.place: hash_of(job, each, options, device, parameters.get(job.entry.label)) for job, each in found}
    settings = {name: getattr(options, name) for name in SETTINGS} | {
        "device": str(device),
        "equal_weights": {str(keys): of_equal_weights(options, keys, device) for keys in options.tested},
        "least_loss": math.log1p((options.classes - 1) / math.e),  # of 1 for the right class and 0 for the others
        "formulas": formulas_of(options.scorers),
        "configurations": {place: each for place, each in hashes.items() if each is not None},
    }
    comparisons = summary(records)
    return Result(
        "train",
        options.name,
        settings,
        records,
        comparisons,
        findings_of(comparisons, settings),
        tensors={
            "steps": torch.tensor(points_of(options.steps)),
            **{name: curve for _, each in found for name, curve in each.curves.items()},
        },
        parameters={f"{label}/{name}": each for label, state in parameters.items() for name, each in state.items()},
        interrupted=interrupted,
    )
