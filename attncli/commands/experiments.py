"""Steps that commands share: load and check experiments, run each into its folder, print what came out.

Imported inside functions only.
"""

import json as stdjson
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer
from rich.padding import Padding
from rich.text import Text

from attncli.api import Finished, Keep, Loaded, load_experiment
from attncli.commands.progress import Terminal, running
from attncli.commands.streams import EXPECTATION_FAILED, INTERRUPTED, ErrorStream, print_error, print_line
from attncli.config.builtin import experiment_path
from attncli.config.document import read_document
from attncli.config.overrides import Override
from attncli.errors import Collector, InputError, Problem
from attncli.expect.tables import failure, verdict_tables
from attncli.runs.saving import to_json
from attncli.show.tables import findings
from attncli.studies import part_of


def load_experiments(configs: Sequence[Path], overrides: Sequence[Override]) -> list[Loaded]:
    """Read and check all experiments; every problem of every file is reported before anything runs."""
    collector, experiments = Collector(), []
    for path in configs:
        with collector.under():
            experiments.append(load_experiment(read_document(experiment_path(path), overrides)))
    collector.check()
    if len(experiments) > 1:  # a single one is checked by running it
        for experiment in experiments:
            with collector.under(), running(experiment.options.name) as progress:
                experiment.check(progress)
        collector.check()
    return experiments


@dataclass
class Interrupts:
    """Ctrl-C ends the work, but not the writing of what the work has given."""

    presses: int = 0
    wait: bool = False  # there is something to lose: every Ctrl-C waits
    came: bool = False  # one had to wait

    def hold(self) -> None:
        """From now on there is something to lose."""
        self.wait = True


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Inside, a Ctrl-C that has to wait is kept in mind; all others do what they do elsewhere.

    The second waits in any case: the first has ended the work, which winds up. A third is meant, until there is
    something to lose. Only in the main thread, since signals reach no other; and not where the caller ignores Ctrl-C.
    """
    state, before = Interrupts(), signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield state
        return

    def handle(number: int, frame: Any) -> None:
        state.presses += 1
        if state.wait or state.presses == 2:
            state.came = True
        else:
            before(number, frame)

    signal.signal(signal.SIGINT, handle)
    try:
        yield state
    finally:
        signal.signal(signal.SIGINT, before)


def run_experiment(experiment: Loaded, keep: Keep, quiet: bool) -> Finished:
    """Run one experiment into a new folder. Ctrl-C ends the work, and waits while its result is judged and written."""
    with interrupts() as ctrl_c, running(experiment.options.name, quiet, ctrl_c.hold) as progress:
        finished = experiment.run(progress, keep)
    return replace(finished, interrupted=finished.interrupted or ctrl_c.came)


def run_and_show(
    experiments: Sequence[Loaded], keep: Keep, *, json: bool, quiet: bool, full: bool, open_: bool
) -> None:
    """Run experiments one after the other, each into its folder, print what is asked for, and open it with `open_`.

    Where one ends the rest, what is complete is shown all the same.

    Raises:
        InputError: one fails, or expectations could not be judged, since no row is what they ask about.
        typer.Exit: with 1 where an expectation fails, 130 after Ctrl-C.
    """
    if keep.out is not None and len(experiments) > 1:
        message = f'got "{keep.out}" for {len(experiments)} experiments; expected one; run them one by one'
        raise InputError.of(message, where="--out")
    runs, waiting = list[Finished](), list(experiments)
    try:
        while waiting and not (runs and runs[-1].interrupted):
            with redirect_stdout(ErrorStream()):  # scorers of the user's own may print
                runs.append(run_experiment(waiting.pop(0), keep, quiet or json))
            if not (quiet or json):
                _show(runs[-1], full, titled=len(experiments) > 1)
            if open_:
                typer.launch(str(_shortest(runs[-1].picture or runs[-1].folder)))
            shown = replace(runs[-1].result, inputs={}, tensors={}, parameters={})  # which need no memory any more
            runs[-1] = replace(runs[-1], result=shown)
    finally:
        _show_verdicts(runs, table=not (quiet or json))
        contents = [finished.content for finished in runs]
        if json and (len(experiments) > 1 or contents):
            _print_json(contents if len(experiments) > 1 else contents[0])
        if waiting:
            print_error(f"not run: {', '.join(str(experiment.document.path) for experiment in waiting)}")
    if runs[-1].interrupted:
        print_error(f"interrupted; what was finished is in {_shortest(runs[-1].folder)}/")
        raise typer.Exit(INTERRUPTED)
    if unjudged := [problem for finished in runs for problem in _problems(finished, None)]:
        raise InputError(unjudged)
    if any(verdict.holds is False for finished in runs for verdict in finished.verdicts):
        raise typer.Exit(EXPECTATION_FAILED)


def _show(finished: Finished, full: bool, titled: bool) -> None:
    """Print the tables, and where everything is; `titled` where several experiments follow each other."""
    console, files, result = Terminal(), finished.content["files"], finished.result
    if titled:
        console.rule(Text(finished.content["name"]), characters="=")
    folder = _shortest(finished.folder)
    whole = str(folder / ("weights.csv" if "weights.csv" in files else "tensors.safetensors"))
    tables = part_of(result.study, "tables").tables(result, width=console.width, full=full, csv=whole)
    for part in (*tables, *findings(result.findings)):
        console.print(part)
    console.print(f"{folder}/", markup=False, highlight=False, soft_wrap=True)
    console.print(Padding(Text(" ".join(files)), (0, 0, 0, 2), expand=False))
    if finished.picture is not None:
        console.print(f"open {_shortest(finished.picture)}", markup=False, highlight=False, soft_wrap=True)


def _print_json(content: dict[str, Any] | list[dict[str, Any]]) -> None:
    """To stdout, and nothing else there."""
    text = to_json(content)
    if (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") != "utf8":
        text = "".join(c if c.isascii() else stdjson.dumps(c)[1:-1] for c in text)  # JSON's own way to say them
    print_line(text.removesuffix("\n"))


def _shortest(path: Path) -> Path:
    """Relative to the working directory where it is inside."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _show_verdicts(runs: Sequence[Finished], *, table: bool) -> None:
    """Show what became of all expectations: in a table, and on stderr what fails, also where stdout cannot be written.

    Where experiments share a name, their files stand in the table.
    """
    names = [finished.content["name"] for finished in runs]
    titles = [name if names.count(name) == 1 else str(run.document.path) for name, run in zip(names, runs, strict=True)]
    try:
        for part in verdict_tables([(title, run.verdicts) for title, run in zip(titles, runs, strict=True)] * table):
            Terminal().print(part)
    finally:
        for problem in (problem for finished in runs for problem in _problems(finished, False)):
            print_error(problem)


def _problems(finished: Finished, holds: bool | None) -> Sequence[Problem]:
    """What does not hold (False), or could not be judged (None), with its place in the file."""
    problems = list[Problem]()
    for verdict in finished.verdicts:
        if verdict.holds is holds is False:
            problems.append(Problem(failure(verdict), ("expect", verdict.index)))
        elif verdict.holds is holds is None and verdict.problem:
            problems += verdict.problem.under("expect", verdict.index).problems
    return finished.document.located(InputError(problems)).problems
