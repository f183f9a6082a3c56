"""What a command prints of the experiments it runs, and how it ends. Imported inside functions only."""

import json as stdjson
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from rich.padding import Padding
from rich.text import Text

from attncli.commands.experiments import Finished, Loaded, run_experiment
from attncli.commands.progress import Terminal
from attncli.commands.streams import EXPECTATION_FAILED, INTERRUPTED, Aside, say, tell
from attncli.errors import InputError, Problem
from attncli.expect.tables import failure, verdict_tables
from attncli.runs.run_folder import check_outputs
from attncli.runs.saving import to_json
from attncli.show.tables import findings
from attncli.studies import part_of


def run_and_show(
    experiments: Sequence[Loaded],
    out: Path | None,
    overwrite: bool,
    *,
    pictures: bool,
    json: bool,
    quiet: bool,
    full: bool,
) -> None:
    """Run experiments one after the other, each into its folder, and print what is asked for.

    Where one ends the rest, what is complete is shown all the same.
    """
    for experiment in experiments if out is None else ():
        check_outputs(experiment.options.name)
    runs, waiting, silent = list[Finished](), deque(experiments), quiet or json
    try:
        while waiting and not (runs and runs[-1].interrupted):
            with redirect_stdout(Aside()):  # scorers of the user's own may print
                finished = run_experiment(waiting.popleft(), out, overwrite, pictures=pictures, quiet=silent)
            without_tensors = replace(finished.result, inputs={}, tensors={}, parameters={})
            runs.append(replace(finished, result=without_tensors))  # which need no memory until all have run
            if not silent:
                show(finished, full, titled=len(experiments) > 1)
    finally:
        _close(runs, waiting, json=json, quiet=quiet, several=len(experiments) > 1)
    if runs[-1].interrupted:
        tell(f"interrupted; what was finished is in {shortest(runs[-1].folder)}/")
        raise typer.Exit(INTERRUPTED)
    conclude(runs)


def _close(runs: Sequence[Finished], waiting: Sequence[Loaded], *, json: bool, quiet: bool, several: bool) -> None:
    """Print what there is to say of all experiments that are complete, and which have not run."""
    contents = [finished.content for finished in runs]
    show_verdicts(runs, silent=quiet or json)
    if json and (several or contents):
        print_json(contents if several else contents[0])
    if waiting:
        tell(f"not run: {', '.join(str(experiment.document.path) for experiment in waiting)}")


def show(finished: Finished, full: bool, titled: bool) -> None:
    """Print the tables, and where everything is; `titled` where several experiments follow each other."""
    console = Terminal()
    if titled:
        console.rule(Text(finished.content["name"]), characters="=")
    folder = shortest(finished.folder)
    has_csv = "weights.csv" in finished.content["files"]
    whole = str(folder / ("weights.csv" if has_csv else "tensors.safetensors"))
    for table in part_of(finished.result.study, "tables").tables(
        finished.result, width=console.width, full=full, csv=whole
    ):
        console.print(table)
    for part in findings(finished.result.findings):
        console.print(part)
    console.print(f"{folder}/", markup=False, highlight=False, soft_wrap=True)
    console.print(Padding(Text(" ".join(finished.content["files"])), (0, 0, 0, 2), expand=False))


def print_json(content: dict[str, Any] | list[dict[str, Any]]) -> None:
    """To stdout, and nothing else there."""
    text = to_json(content)
    if (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") != "utf8":
        text = "".join(c if c.isascii() else stdjson.dumps(c)[1:-1] for c in text)  # JSON's own way to say them
    say(text.removesuffix("\n"))


def shortest(path: Path) -> Path:
    """Relative to the working directory where it is inside."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def show_verdicts(experiments: Sequence[Finished], *, silent: bool) -> None:
    """Show what became of all expectations; `silent` leaves out the table, but not what fails."""
    try:
        if not silent:
            console = Terminal()
            named = zip(_names(experiments), (each.verdicts for each in experiments), strict=True)
            for part in verdict_tables(list(named)):
                console.print(part)
    finally:  # also where stdout cannot be written
        for problem in (problem for each in experiments for problem in _failures(each)):
            tell(problem)


def conclude(experiments: Sequence[Finished]) -> None:
    """End as the expectations say.

    Raises:
        InputError: some could not be judged, since no row is what they ask about.
        typer.Exit: with 1 where one fails.
    """
    unjudged = [problem for each in experiments for problem in _unjudged(each)]
    if unjudged:
        raise InputError(unjudged)
    if any(verdict.holds is False for each in experiments for verdict in each.verdicts):
        raise typer.Exit(EXPECTATION_FAILED)


def _names(experiments: Sequence[Finished]) -> list[str]:
    """The names of experiments; where one stands twice their files, which are numbered where one was run twice."""
    names = [each.content["name"] for each in experiments]
    files, found = [str(each.document.path) for each in experiments], list(names)
    for place, (name, file) in enumerate(zip(names, files, strict=True)):
        if names.count(name) > 1:
            found[place] = file if files.count(file) == 1 else f"{file} ({files[:place].count(file) + 1})"
    return found


def _failures(finished: Finished) -> Sequence[Problem]:
    """Every row of every expectation that does not hold, with its place in the file."""
    failed = [each for each in finished.verdicts if each.holds is False]
    found = InputError(Problem(failure(each), ("expect", each.index)) for each in failed)
    return finished.document.located(found).problems


def _unjudged(finished: Finished) -> Sequence[Problem]:
    problems = [
        problem
        for verdict in finished.verdicts
        if verdict.problem is not None
        for problem in verdict.problem.under("expect", verdict.index).problems
    ]
    return finished.document.located(InputError(problems)).problems
