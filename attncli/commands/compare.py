"""`attncli compare`: show the differences between runs."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from attncli.commands.options import Full, Quiet
from attncli.commands.progress import Terminal
from attncli.commands.streams import DIFFERENT, print_note
from attncli.errors import Collector, InputError
from attncli.results import nan_to_null
from attncli.show.terminal.comparison import tables
from attncli.show.terminal.tables import SCREEN

Runs = Annotated[
    list[Path],
    typer.Argument(metavar="RUN", help="Run folders, or results.json alone; each is compared with the first."),
]
Fail = Annotated[bool, typer.Option("--fail", help="End with exit code 1 if a run differs by more than rounding.")]
Tolerance = Annotated[
    float | None,
    typer.Option("--tolerance", metavar="X", help="Relative difference that --fail accepts, in place of rounding."),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print the comparison as JSON, a list of several, and nothing else.")
]


def compare(
    runs: Runs,
    tolerance: Tolerance = None,
    fail: Fail = False,
    json: Json = False,
    full: Full = False,
    quiet: Quiet = False,
) -> None:
    """Print the differences of runs from the first one."""
    from attncli.commands.experiments import print_json  # load torch
    from attncli.engine.experiment import compare_stored
    from attncli.engine.runs.loading import read_run

    if len(runs) < 2:
        raise InputError.of(f'got one run, "{runs[0]}"; expected two or more', where="attncli compare")
    if tolerance is not None and not 0 <= tolerance < float("inf"):
        raise InputError.of(f"got {tolerance}; expected a relative difference, such as 0.01", where="--tolerance")
    if tolerance is not None and not fail:
        raise InputError.of(f"got {tolerance} without --fail; expected both", where="--tolerance")
    collector, stored = Collector(), []
    for path in runs:
        with collector.under():
            stored.append(read_run(path))
    collector.check()
    comparisons = [compare_stored(stored[0], other) for other in stored[1:]]
    if json:
        contents = [nan_to_null(asdict(comparison)) for comparison in comparisons]
        print_json(contents if len(contents) > 1 else contents[0])
    elif not quiet:
        console = Terminal()
        for index, comparison in enumerate(comparisons):
            if index:
                console.rule(characters="=")
            for part in tables(comparison, console.width, None if full else SCREEN // len(comparisons) - 1):
                console.print(part)
    refused = [comparison for comparison in comparisons if fail and comparison.verdict == "different"]
    if tolerance is not None:
        refused = [comparison for comparison in comparisons if comparison.largest > tolerance]
    for comparison in refused:
        print_note(f"{comparison.b}: {comparison.sentence}")
        if tolerance is not None:
            most = "infinite" if comparison.largest == float("inf") else f"{comparison.largest:.2g}"
            print_note(f"the largest relative difference is {most} ({comparison.largest_of}), beyond {tolerance:g}")
    if refused:
        raise typer.Exit(DIFFERENT)
