"""How a command ends whose experiments expect something: a table, failures on stderr, the exit code."""

from collections.abc import Sequence

import typer

from attncli.commands.console import Terminal
from attncli.commands.exit_codes import EXPECTATION_FAILED
from attncli.commands.experiments import Finished
from attncli.commands.streams import tell
from attncli.errors import InputError, Problem
from attncli.expect.tables import verdict_tables
from attncli.expect.words import failure


def show_verdicts(experiments: Sequence[Finished], *, silent: bool) -> None:
    """Show what became of all expectations; `silent` leaves out the table, but not what fails."""
    try:
        if not silent:
            console = Terminal()
            named = zip(_names(experiments), (each.verdicts for each in experiments), strict=True)
            for part in verdict_tables(list(named), console.width):
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
    files = [str(each.document.path) for each in experiments]
    return [_name(place, names, files) for place in range(len(names))]


def _name(place: int, names: Sequence[str], files: Sequence[str]) -> str:
    name, file = names[place], files[place]
    if names.count(name) == 1:
        return name
    return file if files.count(file) == 1 else f"{file} ({files[:place].count(file) + 1})"


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
