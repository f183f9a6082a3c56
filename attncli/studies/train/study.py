"""Train scorers of several sizes d on associative recall, with all seeds of a configuration as one model."""

import math
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from dataclasses import dataclass

import torch
from torch import Tensor

from attncli.catalogue.building import build_normalizer, build_scorer, entry_formulas, is_own, stored_parameters
from attncli.core.device import resolve_device
from attncli.core.threads import on_threads
from attncli.errors import Collector, InputError, below
from attncli.results import Result, Row, by_label
from attncli.runtime import Counter, Progress, keep_finished
from attncli.scorers import SCORERS
from attncli.studies.study import Study
from attncli.studies.train.columns import COLUMNS, COMPARISONS, TrainFacts
from attncli.studies.train.model import Configuration, Learnt, Recall, curve_steps, learn
from attncli.studies.train.options import TrainOptions
from attncli.studies.train.rows import summary, train_findings, training_rows
from attncli.studies.train.tables import tables
from attncli.studies.train.task import chance_level

CURE = "use a smaller lr or float64, and check the scorer's options and parameters"
BUILDING = threading.Lock()  # building scorers seeds torch's global generator and draws parameters from it


@dataclass(frozen=True)
class PreparedTraining:
    """The validated input of `run`.

    `configurations` are in the order of the rows; `parameters` has the parameters read from files, by `label/name`.
    """

    options: TrainOptions
    configurations: Sequence[Configuration]
    parameters: Mapping[str, Tensor]
    threads: int
    device: torch.device


def prepare(options: TrainOptions, progress: Progress) -> PreparedTraining:
    """Check all options, read parameters from files, and return the configurations to train."""
    dtype, collector = getattr(torch, options.dtype), Collector()
    device = resolve_device(options.device, dtype)
    configurations, parameters = list[Configuration](), dict[str, Tensor]()
    for index, entry in enumerate(options.scorers):
        with collector.under("scorers", index):
            build_normalizer(entry)
            configurations += [Configuration(index, entry, d) for d in options.d]
            if entry.parameters is not None or entry.scorer not in SCORERS:  # a user's scorer may fail
                for d in options.d:
                    scorer = build_scorer(entry, d, d, options.seed, dtype)
                    parameters |= stored_parameters(entry, scorer)
                    for name, parameter in scorer.named_parameters():
                        if entry.parameters is not None and not bool(parameter.isfinite().all()):
                            message = f"got NaN or infinite numbers in {name}; expected finite ones to begin with"
                            raise InputError.of(message, ["parameters", "file"])
    collector.check()
    has_users_code = any(map(is_own, options.scorers))  # scorers of users may share state
    threads = 1 if has_users_code or device.type != "cpu" else torch.get_num_threads()
    return PreparedTraining(options, configurations, parameters, threads, device)


def run(prepared: PreparedTraining, progress: Progress) -> Result:
    """Train all configurations, several at a time; finished configurations are kept if the user stops the run."""
    options, done, stop = prepared.options, dict[str, Learnt](), threading.Event()
    # Small sizes first: all scorers have results early.
    jobs = sorted(prepared.configurations, key=lambda job: job.d)
    counter = Counter(options.steps * len(jobs), progress)

    def work(job: Configuration) -> None:
        """Train a configuration, and keep its parameters."""

        def step_done() -> None:
            """Report a step, or end the training of a run that has stopped."""
            if stop.is_set():
                raise CancelledError
            counter.step(f"{job.entry.label}, d = {job.d}")

        with BUILDING:
            model = Recall(job.entry, job.d, options).to(prepared.device)
        with below("scorers", job.index):
            done[job.name] = learn(model, options, step_done)

    set_threads = torch.get_num_threads  # of a new thread; see `share`
    with (
        keep_finished(done) as outcome,
        on_threads(1),
        ThreadPoolExecutor(prepared.threads, initializer=set_threads) as pool,
    ):
        try:
            for future in as_completed([pool.submit(work, job) for job in jobs]):
                future.result()
        finally:
            stop.set()  # all are done, or the rest is not needed
            pool.shutdown(wait=True, cancel_futures=True)
    result = _result(prepared, done, outcome.interrupted)
    for label, rows in by_label(result.comparisons).items():
        if lost := sorted({row["d"] for row in rows if not math.isfinite(row["loss"])}):
            progress.note(f"warning: {label}: NaN or infinite losses at d = {', '.join(map(str, lost))}; {CURE}")
    return result


def _result(prepared: PreparedTraining, finished: Mapping[str, Learnt], interrupted: bool) -> Result:
    """Return the result of the finished configurations, which are given by `label/d`.

    The keys of the learning curves (seeds, points) are `label/d/measure`, those of trained parameters
    `label/d/seed/name`.
    """
    options, records, curves = prepared.options, list[Row](), dict[str, Tensor]()
    parameters = {**prepared.parameters}
    for job in prepared.configurations:
        if (learnt := finished.get(job.name)) is None:
            continue
        records += training_rows(job, learnt, options.steps)
        curves |= {f"{job.name}/{name}": curve for name, curve in learnt.curves.items()}
        for seed, state in enumerate(learnt.states):
            parameters |= {f"{job.name}/{seed}/{name}": tensor for name, tensor in state.items()}
    comparisons = summary(records)
    facts = TrainFacts(
        **options.model_dump(include={*TrainFacts.model_fields} - {"device"}),
        device=str(prepared.device),
        equal_weights={str(keys): chance_level(keys, options.classes) for keys in options.tested},
        least_loss=math.log1p((options.classes - 1) / math.e),  # of 1 for the right class and 0 for the others
    )
    return Result(
        "train",
        options.name,
        records,
        comparisons,
        train_findings(comparisons, options.keys),
        tensors={"steps": torch.tensor(curve_steps(options.steps)), **curves},
        parameters=parameters,
        interrupted=interrupted,
        formulas=entry_formulas(options.scorers),
        facts=facts,
    )


# The comparisons are the summary over the seeds.
STUDY = Study(
    prepare,
    run,
    tables,
    TrainFacts,
    {"records": COLUMNS, "comparisons": COMPARISONS},
    "accuracy",
    titles={"comparisons": "Summary", "records": "Records"},
)
