"""What a command prints of the experiments it runs: tables and places, or JSON. Imported inside functions only."""

import json as stdjson
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from rich.padding import Padding
from rich.text import Text

from attncli.commands.console import Terminal
from attncli.commands.exit_codes import INTERRUPTED
from attncli.commands.experiments import Finished, Loaded, run_experiment
from attncli.commands.streams import say, tell
from attncli.commands.verdicts import conclude, show_verdicts
from attncli.errors import InputError
from attncli.results.saving import to_json
from attncli.views import load_view


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
    """Run experiments one after the other, each into its folder, and print what is asked for."""
    runs, interrupted, silent = list[Finished](), False, quiet or json
    try:
        for experiment in experiments:
            with redirect_stdout(sys.stderr):  # scorers of the user's own may print
                finished = run_experiment(experiment, out, overwrite, pictures=pictures, quiet=silent)
            if not silent:
                show(finished, full, titled=len(experiments) > 1)
            interrupted = finished.interrupted
            runs.append(replace(finished, result=None))  # whose tensors need not be kept until all have run
            if interrupted:
                break
    except (InputError, KeyboardInterrupt):
        show_verdicts(runs, silent=silent)  # of those that have run before
        raise
    if json:
        contents = [finished.content for finished in runs]
        print_json(contents[0] if len(experiments) == 1 else contents)
    show_verdicts(runs, silent=silent)
    if interrupted:
        tell(f"interrupted; what was finished is in {shortest(runs[-1].folder)}/")
        raise typer.Exit(INTERRUPTED)
    conclude(runs)


def show(finished: Finished, full: bool, titled: bool) -> None:
    """Print the tables, and where everything is; `titled` where several experiments follow each other."""
    console = Terminal()
    if titled:
        console.rule(Text(finished.content["name"]), characters="=")
    folder = shortest(finished.folder)
    has_csv = "weights.csv" in finished.content["files"]
    whole = str(folder / ("weights.csv" if has_csv else "tensors.safetensors"))
    for table in load_view(finished.study).tables(finished.result, width=console.width, full=full, csv=whole):
        console.print(table)
    console.print(f"{folder}/", markup=False, highlight=False, soft_wrap=True)
    console.print(Padding(Text(" ".join(finished.content["files"])), (0, 0, 0, 2), expand=False))


def print_json(content: dict[str, Any] | list[dict[str, Any]]) -> None:
    """To stdout, and nothing else there."""
    text = to_json(content)
    if (sys.stdout.encoding or "").lower().replace("-", "") != "utf8":
        text = "".join(c if c.isascii() else stdjson.dumps(c)[1:-1] for c in text)  # JSON's own way to say them
    say(text.removesuffix("\n"))


def shortest(path: Path) -> Path:
    """Relative to the working directory where it is inside."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
