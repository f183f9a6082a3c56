"""Steps that commands share: load and check experiments, run them, and print their results.

Import this module inside functions only, since it imports torch.
"""

import json as stdjson
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import typer
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from attncli.cli.options import Output, names_picture
from attncli.cli.progress import Terminal, running
from attncli.cli.streams import EXPECTATION_FAILED, FAILED, print_error, print_line, print_note
from attncli.config.builtin import experiment_path
from attncli.config.document import Document, read_document
from attncli.config.models import DEFAULT_STUDY
from attncli.config.overrides import Override
from attncli.engine.expect.tables import failure, verdict_tables
from attncli.engine.experiment import LoadedExperiment, load_experiment
from attncli.engine.runs.run_folder import Destination
from attncli.engine.runs.saving import FinishedRun, to_json
from attncli.engine.sweeps.findings import failure_lines
from attncli.engine.views import result_tables
from attncli.errors import Collector, InputError, Problem, printable
from attncli.results import SweepResult
from attncli.runtime import Progress, signals
from attncli.show.terminal.opening import opening
from attncli.show.terminal.tables import MOST_FINDINGS, SCREEN, STRONG, findings, fit

if TYPE_CHECKING:
    from attncli.engine.sweeps.running import LoadedSweep

Loaded: TypeAlias = "LoadedExperiment | LoadedSweep"
VERDICT_LINES, HOLDING_LINES = 24, 10  # most lines for the expectations of one run; if all hold
MOST_IN_TWO_LINES = 10  # runs of one command; more have one line each
FEWEST_VERDICTS = 6


def load_experiments(configs: Sequence[Path], overrides: Sequence[Override]) -> list[Loaded]:
    """Return the validated experiments of the files; raise InputError with the problems of all before anything runs."""
    collector, experiments = Collector(), list[Loaded]()
    for path in configs:
        with collector.under():
            experiments.append(load(read_document(experiment_path(path), overrides)))
    collector.check()
    if len(experiments) > 1:  # a single one is checked when it runs
        for experiment in experiments:
            with collector.under(), running(experiment.options.name):
                experiment.check(Progress())  # notes are shown when it runs
        collector.check()
    return experiments


def load(document: Document) -> Loaded:
    """Return the validated experiment or sweep of a document."""
    if not document.sweep()[0]:
        return load_experiment(document)
    from attncli.engine.sweeps.points import sweep_plan  # only sweeps need it
    from attncli.engine.sweeps.running import LoadedSweep

    return LoadedSweep(sweep_plan(document))


def run_and_show(experiments: Sequence[Loaded], output: Output, stage: str | None = None) -> list[FinishedRun]:
    """Run experiments one after the other, save each in its run folder, and print the results. Return the runs.

    `stage` is the stage of attention that the tables show in place of the weights.

    Raises:
        InputError: an experiment cannot run, or an expectation could not be judged.
        typer.Exit: code 1 if an expectation or a point of a sweep fails, 130 after Ctrl-C, 143 after SIGTERM, 129
            after SIGHUP.
    """
    _refuse_options(experiments, output, stage)
    command = shlex.join(["attncli", *sys.argv[1:]])
    runs, waiting, interrupted = list[FinishedRun](), list(experiments), False
    try:
        while waiting and not interrupted:
            experiment = waiting.pop(0)
            to = Destination(output.out, output.overwrite, not output.no_plots, output.report, command)
            progress_shown = running(experiment.options.name, output.quiet, output.json)
            with redirect_stdout(sys.stderr), progress_shown as progress:  # custom scorers may print
                runs.append(experiment.run(progress, to))
            interrupted = runs[-1].result.interrupted or signals.first is not None
            _show_run(runs[-1], output, len(experiments), stage)
            without_tensors = replace(runs[-1].result, inputs={}, tensors={}, parameters={})  # to free their memory
            runs[-1] = replace(runs[-1], result=without_tensors)
    finally:
        is_list = len(experiments) > 1
        _show_verdicts(runs, table=is_list and not output.silent and not output.full)
        contents = [{"folder": str(shortest(finished.folder)), **finished.stored.content} for finished in runs]
        if output.json and (is_list or contents):
            print_json(contents if is_list else contents[0])
        if waiting:
            print_note(f"not run: {', '.join(str(experiment.document.path) for experiment in waiting)}")
    failed = [_print_failures(finished) for finished in runs]
    if interrupted:
        last, folder = runs[-1].result, shortest(runs[-1].folder)
        again = f"; {_again(folder)}" if isinstance(last, SweepResult) else ""
        drawing = f"; `attncli figure {folder}` draws it" if again and last.records else ""
        print_note(f"interrupted; what was finished is in {folder}/{again}{drawing}")
        raise typer.Exit(signals.exit_code)
    if any(failed):
        raise typer.Exit(FAILED)
    _check_verdicts(runs)
    return runs


def _refuse_options(experiments: Sequence[Loaded], output: Output, stage: str | None) -> None:
    """Raise InputError for options that do not fit the experiments, before any of them runs."""
    if output.out is not None and len(experiments) > 1:
        message = f'got "{output.out}" for {len(experiments)} experiments; expected one experiment; run them one by one'
        raise InputError.of(message, where="--out")
    if output.out is not None and names_picture(output.out):
        cure = "`attncli figure FOLDER --only NAME --out FILE` draws one of its pictures to a file"
        raise InputError.of(f'got "{output.out}", the name of a picture; expected a run folder; {cure}', where="--out")
    for experiment in experiments:
        path, swept, study = experiment.document.path, experiment.is_sweep, experiment.options.study
        if output.report and swept:
            message = f"got {path}, a sweep; leave it out, and use `attncli report` on its folder"
            raise InputError.of(message, where="--report")
        if stage is not None and (swept or study != DEFAULT_STUDY):
            is_ = "a sweep" if swept else f"an experiment of the study {study}"
            message = f"got {stage} for {path}, {is_}; only the tables of the study {DEFAULT_STUDY} have stages"
            raise InputError.of(f"{message}; leave it out", where="--stage")


def _show_run(finished: FinishedRun, output: Output, of: int = 1, stage: str | None = None) -> None:
    """Print the tables, findings and folder of a run; open it if --open is given.

    If it is one of several runs (`of` > 1), only one or two lines are printed, unless --full is given.
    """
    is_whole = of == 1 or output.full
    if not output.silent:
        _print_run(finished, output.full, stage) if is_whole else _print_briefly(finished, of)
    if output.open_:
        typer.launch(str(shortest(finished.picture or finished.folder)))


def _print_run(finished: FinishedRun, is_full: bool, stage: str | None) -> None:
    console, files, result = Terminal(), finished.stored.files, finished.result
    folder = shortest(finished.folder)
    lines = HOLDING_LINES if all(verdict.holds for verdict in finished.verdicts) else VERDICT_LINES
    verdicts = verdict_tables([("", finished.verdicts)], console.width, None if is_full else lines)
    end = [
        *verdicts[:-1],
        *findings(result.findings, None if is_full else MOST_FINDINGS),
        Text(f"{folder}/", no_wrap=True),
    ]
    end.append(Padding(Text(" ".join(files)), (0, 0, 0, 2), expand=False))
    if finished.picture is not None:
        end.append(Text(str(shortest(finished.picture)), no_wrap=True))
    end += verdicts[-1:]
    most_lines = None if is_full else SCREEN

    def blocks(most: int | None) -> Iterator[RenderableType]:
        yield from opening(result)
        yield from result_tables(result, console.width, most, stage)

    for block in fit(blocks, end, console.width, most_lines):
        console.print(block, soft_wrap=isinstance(block, Text) and bool(block.no_wrap))


def _print_briefly(finished: FinishedRun, of: int) -> None:
    """Print the first finding and the folder of one `of` several runs; only the folder if there are many."""
    console, folder = Terminal(), f"{shortest(finished.folder)}/"
    name = (printable(finished.stored.name), STRONG)
    if of > MOST_IN_TWO_LINES:
        console.print(Text.assemble(name, f"  {folder}"), soft_wrap=True)
        return
    first = next((finding.text for finding in finished.result.findings), "no findings")
    console.print(Text.assemble(name, f": {printable(first)}"), no_wrap=True, overflow="ellipsis")
    console.print(Text(f"  {folder}"), soft_wrap=True)


def print_json(content: dict[str, Any] | list[dict[str, Any]]) -> None:
    """Print JSON on stdout."""
    text = to_json(content).removesuffix("\n")
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except UnicodeEncodeError:  # also for a path with bytes that are not UTF-8
        text = stdjson.dumps(content, indent=2)  # with JSON's escapes
    print_line(text)


def shortest(path: Path) -> Path:
    """Return the path, as a relative path if it lies inside the working directory."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _show_verdicts(runs: Sequence[FinishedRun], *, table: bool) -> None:
    """Print the verdicts in a table, if `table`, and failed expectations on stderr, even if stdout cannot be written.

    Experiments with equal names are listed under the names of their config files.
    """
    names = [finished.stored.name for finished in runs]
    titles = [name if names.count(name) == 1 else str(run.document.path) for name, run in zip(names, runs, strict=True)]
    lines = SCREEN - len(runs) * (2 if len(runs) <= MOST_IN_TWO_LINES else 1) - 2
    try:
        verdicts = [(title, run.verdicts) for title, run in zip(titles, runs, strict=True) if table]
        for block in verdict_tables(verdicts, Terminal().width, max(lines, FEWEST_VERDICTS)):
            Terminal().print(block)
    finally:
        for finished in runs:
            failed = [verdict for verdict in finished.verdicts if verdict.holds is False]
            problems = [Problem(failure(verdict), ("expect", verdict.index)) for verdict in failed]
            for problem in finished.document.located(InputError(problems)).problems:
                print_error(problem)


def _print_failures(finished: FinishedRun) -> bool:
    """Print on stderr which points of a sweep failed, and why it stopped early; return whether either is so."""
    lines = failure_lines(finished.points)
    if finished.problem is not None:
        lines.append(f"stopped: {finished.problem}; {_again(shortest(finished.folder))}")
    for line in lines:
        print_note(line)
    return bool(lines)


def _again(folder: Path) -> str:
    return f"`attncli sweep --resume {folder}` goes on"


def _check_verdicts(runs: Sequence[FinishedRun]) -> None:
    """Raise an exception if an expectation of the runs does not hold.

    Raises:
        InputError: expectations could not be judged; the error has the place of each in the file.
        typer.Exit: code 1 if an expectation fails.
    """
    unjudged = list[Problem]()
    for finished in runs:
        problems = list[Problem]()
        for verdict in finished.verdicts:
            if verdict.problem is not None:
                problems += verdict.problem.under("expect", verdict.index).problems
        unjudged += finished.document.located(InputError(problems)).problems
    if unjudged:
        raise InputError(unjudged)
    if any(verdict.holds is False for finished in runs for verdict in finished.verdicts):
        raise typer.Exit(EXPECTATION_FAILED)
