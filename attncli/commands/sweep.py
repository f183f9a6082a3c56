"""`attncli sweep`: a grid of experiments over the keys of one config, here or on a Dask cluster."""

import json as stdjson
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from attncli.commands.command import typer_command
from attncli.commands.options import (
    Device,
    DType,
    Full,
    Json,
    NoPlots,
    Open,
    Overwrite,
    Quiet,
    Seed,
    Sets,
    import_quickly,
    overrides_of,
)
from attncli.errors import InputError

if TYPE_CHECKING:
    from attncli.api import Finished
    from attncli.studies.progress import Progress
    from attncli.sweeps.points import Plan

FAILED = 1  # the exit code where a point failed
MOST_TOLD = 3  # kinds of failures
NO_SWEEP = "which is not the folder of a sweep; expected one, as outputs/NAME/latest"
ORDER = "attncli.sweep.order"  # in the context of the command: what --over and --with were, in their order
Config = Annotated[
    Path | None, typer.Argument(metavar="CONFIG", help="A YAML file, a captured model, or a name of an experiment.")
]
Over = Annotated[
    list[str] | None,
    typer.Option(
        "--over",
        metavar="KEY=VALUES",
        help="Sweep over a key: seed=0..4, d=16,64, scorers[0].scale=0.1..10:log5. Several are multiplied.",
    ),
]
With = Annotated[
    list[str] | None,
    typer.Option("--with", metavar="KEY=VALUES", help="A key that goes along with the --over before it."),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Folder of the sweep; must be new or empty.")]
Jobs = Annotated[int | None, typer.Option("--jobs", metavar="N", min=1, help="Points at a time; else one a core.")]
Cluster = Annotated[
    str | None, typer.Option("--cluster", metavar="ADDRESS", help="Run on a Dask scheduler: address or scheduler file.")
]
Resume = Annotated[
    Path | None, typer.Option("--resume", metavar="FOLDER", help="Run what is missing or failed in this folder.")
]
Status = Annotated[Path | None, typer.Option("--status", metavar="FOLDER", help="Say how far a sweep is.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List the points, and run none.")]
FailFast = Annotated[bool, typer.Option("--fail-fast", help="Stop at the first point that fails.")]
Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="SECONDS", min=0.01, help="Give up a point that takes longer.")
]
Metric = Annotated[str | None, typer.Option("--metric", metavar="NAME", help="What is drawn and told, as entropy.")]


class SweepCommand(TyperCommand):
    """Remembers the order of --over and --with, which belong together by it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        _, _, params = self.make_parser(ctx).parse_args(args=[*args])
        ctx.meta[ORDER] = [param.opts[0].lstrip("-") for param in params if param.opts[0] in ("--over", "--with")]
        rest: list[str] = super().parse_args(ctx, args)
        return rest


def sweep(
    ctx: typer.Context,
    config: Config = None,
    over: Over = None,
    with_: With = None,
    sets: Sets = None,
    jobs: Jobs = None,
    cluster: Cluster = None,
    resume: Resume = None,
    status: Status = None,
    dry_run: DryRun = False,
    fail_fast: FailFast = False,
    timeout: Timeout = None,
    metric: Metric = None,
    out: Out = None,
    overwrite: Overwrite = False,
    seed: Seed = None,
    device: Device = None,
    dtype: DType = None,
    no_plots: NoPlots = False,
    open_: Open = False,
    json: Json = False,
    quiet: Quiet = False,
    full: Full = False,
) -> None:
    if status is not None:
        _print_status(status)
        return
    if resume is not None and out is not None:
        raise InputError.of(f'got "{out}" beside --resume, which has a folder; leave one out', where="--out")
    if config is None and resume is None:
        raise InputError.of("got no config; expected a YAML file, or --resume FOLDER", where="attncli sweep")
    if cluster is not None:
        _check_without_processes(jobs=jobs, timeout=timeout)
    from attncli.config.builtin import experiment_path
    from attncli.config.document import read_document
    from attncli.config.sweep import typed_axes

    given = {"over": iter(over or ()), "with": iter(with_ or ())}
    axes = typed_axes([(option, next(given[option])) for option in ctx.meta[ORDER]])
    overrides = overrides_of(sets, seed=seed, device=device, dtype=dtype)
    path = experiment_path(config) if config is not None else _config_of(resume)
    document = read_document(path, overrides)
    if cluster is None and not dry_run:
        from attncli.sweeps.starting import load_ahead

        load_ahead()
    import_quickly(pictures=not (no_plots or dry_run))
    from attncli.sweeps.points import check_same, plan_of

    plan = plan_of(document, axes, metric, elsewhere=cluster is not None)
    if resume is not None:
        check_same(plan, read_document(_config_of(resume)))
    if dry_run:
        _list_points(plan, json)
        return
    with suppress(ImportError):
        import pyarrow.parquet  # noqa: F401  # which saves the records: after Ctrl-C nobody waits for it
    if cluster is not None:
        from attncli.commands.streams import print_error
        from attncli.sweeps.cluster import check_cluster

        check_cluster(cluster, lambda message: None if quiet else print_error(message))  # before there is a folder
    finished, problem = _run(
        plan,
        resume=resume,
        out=out,
        overwrite=overwrite,
        jobs=jobs,
        cluster=cluster,
        timeout=timeout,
        fail_fast=fail_fast,
        pictures=not no_plots,
        quiet=quiet,
        json=json,
    )
    _tell(finished, problem, open_=open_, json=json, quiet=quiet, full=full)


def _check_without_processes(**options: float | None) -> None:
    """Refuse what only processes of this machine can do: Dask's workers are there, and none can end what it began."""
    for name, value in options.items():
        if value is not None:
            message = (
                f"got {value:g} beside --cluster; expected one of the two; the option is for processes of this machine"
            )
            raise InputError.of(message, where=f"--{name}")


def _config_of(folder: Path | None) -> Path:
    assert folder is not None
    config = folder / "config.yaml"
    if not (folder / "points.jsonl").is_file() or not config.is_file():
        raise InputError.of(f'got "{folder}", {NO_SWEEP}', where="--resume")
    return config


def _print_status(folder: Path) -> None:
    """Print how far the sweep in a folder is, from its journal alone."""
    from itertools import product

    from attncli.commands.streams import print_line
    from attncli.config.document import read_document
    from attncli.runs.run_folder import is_written
    from attncli.sweeps.journal import rows_of
    from attncli.sweeps.tally import Tally

    if not (folder / "points.jsonl").is_file():
        raise InputError.of(f'got "{folder}", {NO_SWEEP}', where="--status")
    axes, _ = read_document(folder / "config.yaml").sweep()
    keys = [key for axis in axes for key in axis.keys]
    places = product(*(axis.places for axis in axes))
    values = ([change.value for place in each for change in place] for each in places)
    tally = Tally(dict(zip(keys, each, strict=True)) for each in values)
    for row in rows_of(folder):
        tally.add(row)
    print_line(tally.line(is_written(folder), f"attncli sweep --resume {folder}"))


def _list_points(plan: "Plan", json: bool) -> None:
    from attncli.commands.streams import print_line

    if json:
        rows = [{"key": point.key, "sweep": point.sweep} for point in plan.points]
        print_line(stdjson.dumps(rows, ensure_ascii=False, indent=2))
        return
    for point in plan.points:
        print_line(point.text)
    print_line(_size(plan))


def _size(plan: "Plan") -> str:
    """`12 points; each point needs about 400 MiB of memory`."""
    from attncli.errors import in_bytes
    from attncli.show.numbers import several

    whole = -(-plan.memory // 2**20) * 2**20
    memory = f"; each point needs about {in_bytes(whole).replace('.0 ', ' ')} of memory" if whole else ""
    return f"{several(len(plan.points), 'point')}{memory}"


def _run(
    plan: "Plan",
    *,
    resume: Path | None,
    out: Path | None,
    overwrite: bool,
    jobs: int | None,
    cluster: str | None,
    timeout: float | None,
    fail_fast: bool,
    pictures: bool,
    quiet: bool,
    json: bool,
) -> tuple["Finished", str | None]:
    """Run what is not done yet, and write the results; also says why it stopped early, if it did."""
    from contextlib import redirect_stdout
    from datetime import datetime

    from attncli.commands.experiments import Interrupts
    from attncli.commands.progress import running
    from attncli.commands.streams import ErrorStream
    from attncli.runs.saving import begin_sweep, save_config
    from attncli.sweeps.journal import Journal
    from attncli.sweeps.running import keep

    started, command, name = datetime.now().astimezone(), shlex.join(["attncli", *sys.argv[1:]]), plan.options.name
    with redirect_stdout(ErrorStream()), Interrupts() as interrupts, running(name, quiet, json) as progress:
        folder = resume.absolute() if resume else begin_sweep(name, out, overwrite, started, plan.config)
        problem, interrupted = None, False
        try:
            with Journal(folder, {point.key: point.sweep for point in plan.points}) as journal:
                if resume is not None:
                    save_config(folder, plan.config)
                waiting = [point for point in plan.points if point.key not in journal.done]
                done = f"; {len(journal.done)} done already" if journal.done else ""
                progress.note(f"{_size(plan)}{done}")
                if waiting:
                    rows = _engine(plan, waiting, jobs, cluster, timeout, progress)
                    problem = keep(rows, journal, progress, fail_fast)
        except KeyboardInterrupt:
            interrupted = True
        interrupts.wait()
        progress.step(0, 1, "writing the results")
        finished = _end(plan, folder, interrupted, started, command, progress, pictures)
    return finished, problem


def _engine(
    plan: "Plan",
    waiting: Sequence[Any],
    jobs: int | None,
    cluster: str | None,
    timeout: float | None,
    progress: "Progress",
) -> Any:
    """The rows of points, from processes of this machine or from a cluster."""
    import torch

    from attncli.studies.memory import RESERVE, available_memory
    from attncli.sweeps.work import MEASURING, code_version

    code = code_version()
    work: Sequence[Mapping[str, Any]] = [{"key": point.key, "config": point.config, "code": code} for point in waiting]
    alone = plan.options.study in MEASURING
    if alone and jobs != 1:
        progress.note("points of a study that measures time run one at a time")
    if cluster is not None:
        from attncli.sweeps.cluster import on_cluster

        return on_cluster(work, cluster, alone, progress.note)
    from attncli.sweeps.processes import on_processes

    wanted = 1 if alone else jobs or _cores()
    fitting = max(1, int(RESERVE * available_memory(torch.device("cpu")) / max(plan.memory, 1)))
    if fitting < wanted:
        progress.note(f"{fitting} at a time in place of {wanted}, since memory is enough for no more")
    return on_processes(work, min(wanted, fitting, len(work)), timeout)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _end(
    plan: "Plan",
    folder: Path,
    interrupted: bool,
    started: Any,
    command: str,
    progress: "Progress",
    pictures: bool,
) -> "Finished":
    """Write the results of all that is in the journal."""
    from dataclasses import replace

    from attncli.api import Finished, pictures_of
    from attncli.expect.judging import judge
    from attncli.runs.saving import results_of, save_sweep
    from attncli.sweeps.findings import findings_of
    from attncli.sweeps.running import result_of
    from attncli.sweeps.summary import summary

    result, points = result_of(plan, folder, interrupted)
    result = replace(result, findings=findings_of(result))
    verdicts = judge(result, plan.options.expect, plan.rows)
    pictures = pictures and bool(result.records) and not interrupted  # who presses Ctrl-C waits for no drawing
    drawn = pictures_of(result, plan.options.figure, progress.note) if pictures else {}
    content = results_of(result, verdicts, plan.options.seed, plan.device, started, command)
    save_sweep(folder, result, content, points, summary(result), drawn)
    picture = folder / next(iter(drawn)) if drawn else None
    return Finished(result, content, folder, plan.document, verdicts, picture)


def _tell(finished: "Finished", problem: str | None, *, open_: bool, json: bool, quiet: bool, full: bool) -> None:
    """Print what came out, and end with the exit code that says how it went."""
    from attncli.commands.experiments import print_json, shortest, show_run, show_verdicts, unjudged_problems
    from attncli.commands.streams import EXPECTATION_FAILED, INTERRUPTED, print_error

    folder, counts = shortest(finished.folder), finished.result.settings["points"]
    if not (quiet or json):
        show_run(finished, full, titled=False)
    if open_:
        typer.launch(str(shortest(finished.picture or finished.folder)))
    show_verdicts([finished], table=not (quiet or json))
    if json:
        print_json({"folder": str(folder), **finished.content})
    for line in _failures(finished.content["sweep"]["points"]):
        print_error(line)
    again = f"`attncli sweep --resume {folder}` goes on"
    if finished.result.interrupted:
        drawing = f"; `attncli figure {folder}` draws it" if finished.result.records else ""
        print_error(f"interrupted; what was finished is in {folder}/; {again}{drawing}")
        raise typer.Exit(INTERRUPTED)
    if problem is not None:
        print_error(f"stopped: {problem}; {again}")
    if problem is not None or counts["failed"] or counts["died"]:
        raise typer.Exit(FAILED)
    if unjudged := unjudged_problems(finished):
        raise InputError(unjudged)
    if any(verdict.holds is False for verdict in finished.verdicts):
        raise typer.Exit(EXPECTATION_FAILED)


def _failures(points: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each way in which points failed, with how many there are and the first of them."""
    from attncli.sweeps.columns import in_words

    kinds = dict[tuple[str, str], list[Mapping[str, Any]]]()
    for point in points:
        if point["error"]:
            kinds.setdefault((point["status"], point["error"]), []).append(point)
    lines = []
    for (status, error), failed in list(kinds.items())[:MOST_TOLD]:
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        lines.append(f"{status}: {in_words(failed[0]['sweep'])}{more}: {error}")
    if len(kinds) > MOST_TOLD:
        lines.append(f"and {len(kinds) - MOST_TOLD} other errors; points.jsonl has them all")
    return lines


COMMAND = typer_command("sweep", sweep, SweepCommand)
