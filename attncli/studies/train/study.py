"""Train scorers of several sizes d on associative recall, with all seeds of a configuration as one model."""

import itertools
import math
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from dataclasses import dataclass

import torch
from torch import Tensor

from attncli.building import (
    build_normalizer,
    build_scorer,
    formulas_of,
    is_own,
    names_of,
    outline,
    stored_parameters,
)
from attncli.errors import Collector, InputError, below, got
from attncli.inputs.device import resolve_device
from attncli.results import Result, Row, Rows, by_label
from attncli.scorers import SCORERS
from attncli.stopping import Counter, Keeping, Progress
from attncli.studies.study import Study
from attncli.studies.train.columns import COLUMNS, COMPARISONS, TrainFacts
from attncli.studies.train.model import Configuration, Recall, learn, points_of
from attncli.studies.train.options import TrainOptions
from attncli.studies.train.rows import findings_of, rows_of, summary
from attncli.studies.train.tables import tables
from attncli.studies.train.task import chance_level
from attncli.threads import on_threads

CURE = "use a smaller lr or float64, and check the scorer's options and parameters"
BUILDING = threading.Lock()  # building scorers seeds torch's global generator and draws parameters from it


@dataclass(frozen=True)
class FinishedTraining:
    """The outcome of one configuration, a scorer at one size d.

    The keys of `curves` (seeds, points) are `label/d/measure`, the keys of the trained parameters in `states` are
    `label/d/seed/name`.
    """

    records: Sequence[Row]
    curves: Mapping[str, Tensor]
    states: Mapping[str, Tensor]


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
    """Check all options and return the configurations to train."""
    device = resolve_device(options.device, getattr(torch, options.dtype))
    configurations, collector = list[Configuration](), Collector()
    for index, entry in enumerate(options.scorers):
        with collector.under("scorers", index):
            build_normalizer(entry)
            configurations += [Configuration(index, entry, d, outline(entry, d, d)) for d in options.d]
            scale = configurations[-1].outline.scale_of()
            if isinstance(scale, str):
                raise InputError.of(
                    got(scale, "this study scores all symbols at once, not m keys", "use a number"), ["scale"]
                )
    collector.check()
    has_users_code = any(map(is_own, options.scorers))  # scorers of users may share state
    threads = 1 if has_users_code or device.type != "cpu" else torch.get_num_threads()
    return PreparedTraining(options, configurations, _read_parameters(options), threads, device)


def _read_parameters(options: TrainOptions) -> dict[str, Tensor]:
    """Return the parameters read from files, by `label/name`; also build user's scorers, to find errors early."""
    parameters, collector = dict[str, Tensor](), Collector()
    for index, entry in enumerate(options.scorers):
        with collector.under("scorers", index):
            for d in options.d if entry.parameters is not None or entry.scorer not in SCORERS else ():
                scorer = build_scorer(entry, d, d, options.seed, getattr(torch, options.dtype))
                parameters |= stored_parameters(entry, scorer)
                for name, parameter in scorer.named_parameters():
                    if entry.parameters is not None and not bool(parameter.isfinite().all()):
                        message = f"got NaN or infinite numbers in {name}; expected finite ones to begin with"
                        raise InputError.of(message, ["parameters", "file"])
    collector.check()
    return parameters


def expected_rows(prepared: PreparedTraining) -> Rows:
    """Return the known columns of the rows for each scorer, size, number of keys and seed, and of the summary rows."""
    options = prepared.options
    cases = itertools.product(prepared.configurations, options.tested)
    over_seeds = [names_of(job.entry) | {"d": job.d, "keys": keys} for job, keys in cases]
    rows = [row | {"seed": seed} for row in over_seeds for seed in range(options.seeds)]
    return Rows(COLUMNS, rows, COMPARISONS, over_seeds)


def run(prepared: PreparedTraining, progress: Progress) -> Result:
    """Train all configurations, several at a time; finished configurations are kept if the user stops the run."""
    options, done, stop = prepared.options, dict[str, FinishedTraining](), threading.Event()
    # Small sizes first: all scorers have results early.
    jobs = sorted(prepared.configurations, key=lambda job: job.d)
    counter = Counter(options.steps * len(jobs), progress)

    def work(job: Configuration) -> None:
        def step_done() -> None:
            if stop.is_set():
                raise CancelledError
            counter.step(f"{job.entry.label}, d = {job.d}")

        with BUILDING:
            model = Recall(job.entry, job.d, options).to(prepared.device)
        with below("scorers", job.index):
            learnt = learn(model, options, step_done)
        curves = {f"{job.name}/{name}": curve for name, curve in learnt.curves.items()}
        states = {f"{job.name}/{seed}/{name}": x for seed, state in learnt.states.items() for name, x in state.items()}
        done[job.name] = FinishedTraining(rows_of(job, learnt, options.steps), curves, states)

    set_threads = torch.get_num_threads  # of a new thread; see `share`
    with Keeping(done) as kept, on_threads(1), ThreadPoolExecutor(prepared.threads, initializer=set_threads) as pool:
        try:
            for future in as_completed([pool.submit(work, job) for job in jobs]):
                future.result()
        finally:
            stop.set()  # all are done, or the rest is not needed
            pool.shutdown(wait=True, cancel_futures=True)
    result = _result(prepared, done, kept.interrupted)
    for label, rows in by_label(result.comparisons).items():
        if lost := sorted({row["d"] for row in rows if not math.isfinite(row["loss"])}):
            progress.note(f"warning: {label}: NaN or infinite losses at d = {', '.join(map(str, lost))}; {CURE}")
    return result


def _result(prepared: PreparedTraining, finished: Mapping[str, FinishedTraining], interrupted: bool) -> Result:
    """Return the result of the finished configurations, which are given by `label/d`."""
    options, device, parameters = prepared.options, prepared.device, prepared.parameters
    trained = [finished[job.name] for job in prepared.configurations if job.name in finished]
    records = [row for training in trained for row in training.records]
    comparisons = summary(records)
    facts = TrainFacts(
        **options.model_dump(include={*TrainFacts.model_fields} - {"device"}),
        device=str(device),
        equal_weights={str(keys): chance_level(keys, options.classes) for keys in options.tested},
        least_loss=math.log1p((options.classes - 1) / math.e),  # of 1 for the right class and 0 for the others
    )
    curves = {name: curve for training in trained for name, curve in training.curves.items()}
    states = {name: tensor for training in trained for name, tensor in training.states.items()}
    return Result(
        "train",
        options.name,
        records,
        comparisons,
        findings_of(comparisons, options.keys),
        tensors={"steps": torch.tensor(points_of(options.steps)), **curves},
        parameters={**parameters, **states},
        interrupted=interrupted,
        formulas=formulas_of(options.scorers),
        facts=facts,
    )


# The comparisons are the summary over the seeds.
STUDY = Study(
    prepare,
    expected_rows,
    run,
    tables,
    TrainFacts,
    {"records": COLUMNS, "comparisons": COMPARISONS},
    "accuracy",
    titles={"comparisons": "Summary", "records": "Records"},
)
