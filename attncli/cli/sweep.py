"""`attncli sweep`: run a grid of experiments over keys of one config, on this machine or a Dask cluster."""

import json as stdjson
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from attncli.cli.options import (
    Device,
    DType,
    Full,
    Json,
    NoPlots,
    Open,
    Output,
    Overwrite,
    Quiet,
    Seed,
    Sets,
    import_quickly,
    set_overrides,
)
from attncli.cli.streams import print_line, print_note
from attncli.cli.study_flags import StudyFlag, look_flags, overrides_of_flags, with_flags
from attncli.config.builtin import experiment_path
from attncli.config.document import read_document
from attncli.config.sweep import typed_axes
from attncli.core.numbers import several
from attncli.engine.sweeps.journal import journal_config, journal_status
from attncli.errors import InputError, printable

if TYPE_CHECKING:
    from attncli.engine.sweeps.points import SweepPlan

ORDER = "attncli.sweep.order"  # key in the command's context: the order of --over and --with
Config = Annotated[
    Path | None, typer.Argument(metavar="CONFIG", help="A YAML file, a captured model, or a name of an experiment.")
]
Over = Annotated[
    list[str] | None,
    typer.Option(
        "--over",
        metavar="KEY=VALUES",
        help="Sweep over a key: seed=0..4, d=16,64, scale=0.1..10:log5. Several are multiplied.",
    ),
]
With = Annotated[
    list[str] | None,
    typer.Option("--with", metavar="KEY=VALUES", help="A key that changes together with the --over before it."),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Folder of the sweep; must be new or empty.")]
Jobs = Annotated[
    int | None, typer.Option("--jobs", metavar="N", min=1, help="Points at a time; default: one per core.")
]
Cluster = Annotated[
    str | None, typer.Option("--cluster", metavar="ADDRESS", help="Run on a Dask scheduler: address or scheduler file.")
]
Resume = Annotated[
    Path | None, typer.Option("--resume", metavar="FOLDER", help="Run the missing and failed points of this folder.")
]
Status = Annotated[Path | None, typer.Option("--status", metavar="FOLDER", help="Print the progress of a sweep.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List the points, and run none.")]
FailFast = Annotated[bool, typer.Option("--fail-fast", help="Stop at the first point that fails.")]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", min=0.01, help="Stop a point that takes longer than this."),
]
Metric = Annotated[
    str | None, typer.Option("--metric", metavar="NAME", help="Metric to draw and report, such as entropy.")
]


class SweepCommand(TyperCommand):
    """A command that records the order of --over and --with, since --with belongs to the --over before it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, and record the order of --over and --with."""
        _, _, params = self.make_parser(ctx).parse_args(args=[*args])
        ctx.meta[ORDER] = [param.opts[0].lstrip("-") for param in params if param.opts[0] in ("--over", "--with")]
        rest: list[str] = super().parse_args(ctx, args)
        return rest


def sweep(
    ctx: typer.Context,
    values: Mapping[StudyFlag, Any],
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
    """Run an experiment at all points of a grid, continue a sweep, or show its progress."""
    if status is not None:
        print_line(journal_status(status))
        return
    if resume is not None and out is not None:
        raise InputError.of(f'got "{out}" beside --resume, which has a folder; leave one out', where="--out")
    before = None if resume is None else journal_config(resume, "--resume")
    path = before if config is None else experiment_path(config)
    if path is None:
        raise InputError.of("got no config; expected a YAML file, or --resume FOLDER", where="attncli sweep")
    if cluster is not None:
        for name, value in {"--jobs": jobs, "--timeout": timeout}.items():
            if value is not None:
                message = f"got {value:g} beside --cluster; expected one of the two; the option is for processes here"
                raise InputError.of(message, where=name)
    texts = {"over": iter(over or ()), "with": iter(with_ or ())}
    axes = typed_axes([(option, next(texts[option])) for option in ctx.meta[ORDER]])
    overrides = [*set_overrides(sets, seed=seed, device=device, dtype=dtype), *overrides_of_flags(values)]
    document = read_document(path, overrides)
    import_quickly(pictures=not (no_plots or dry_run))
    from attncli.cli.experiments import run_and_show  # loads torch
    from attncli.engine.sweeps.points import check_same, sweep_plan

    plan = sweep_plan(document, axes, metric, elsewhere=cluster is not None)
    if before is not None:
        check_same(plan, read_document(before))
    if dry_run:
        _list_points(plan, json)
        return
    if cluster is not None:
        from attncli.engine.sweeps.cluster import check_cluster  # loads torch

        check_cluster(cluster, lambda message: None if quiet else print_note(message))  # before the folder is created
    from attncli.engine.sweeps.running import LoadedSweep  # loads torch

    loaded = LoadedSweep(plan, resume, jobs, cluster, timeout, fail_fast)
    run_and_show([loaded], Output(out, overwrite, no_plots, open_=open_, json=json, quiet=quiet, full=full))


def _list_points(plan: "SweepPlan", json: bool) -> None:
    if json:
        rows = [{"key": point.key, "sweep": point.sweep} for point in plan.points]
        print_line(stdjson.dumps(rows, ensure_ascii=False, indent=2))
        return
    for point in plan.points:
        print_line(printable(point.text))
    print_line(several(len(plan.points), "point"))


COMMAND = with_flags("sweep", sweep, look_flags(), SweepCommand)
