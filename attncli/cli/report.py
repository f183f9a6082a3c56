"""`attncli report`: write an HTML page to explore runs."""

import os
from pathlib import Path
from typing import Annotated

import typer

from attncli.cli.options import Open, OverwriteFile, Quiet
from attncli.cli.streams import print_written
from attncli.config.document import REPORT
from attncli.engine.runs.run_folder import OUTPUTS, check_file, save_file_at, save_numbered, text_writer
from attncli.errors import Collector, InputError, got
from attncli.show.page.note import read_note

ENDINGS = (".html", ".htm")
MOST_COMPARED = 10  # runs that are compared with the first
LONGEST_NAME = 100  # characters of the page's file name

Runs = Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders, or files results.json alone.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="The page; default: report.html in the run folder, or a new file."),
]
Title = Annotated[
    str | None, typer.Option("--title", metavar="TEXT", help="Title of the page, in place of the runs' names.")
]
Note = Annotated[
    Path | None,
    typer.Option("--note", metavar="FILE", help="Text in Markdown at the top of the page, without HTML and images."),
]


def report(
    runs: Runs,
    title: Title = None,
    note: Note = None,
    out: Out = None,
    overwrite: OverwriteFile = False,
    open_: Open = False,
    quiet: Quiet = False,
) -> None:
    """Write one HTML page about runs."""
    from attncli.engine.experiment import run_look  # loads torch
    from attncli.engine.report import report as page_of
    from attncli.engine.runs.comparing import compare_runs  # loads torch
    from attncli.engine.runs.loading import read_run
    from attncli.engine.runs.saving import add_files

    if out is not None:  # raises InputError before the work
        if out.suffix.lower() not in ENDINGS:
            raise InputError.of(got(out.name, f"expected a name ending in {' or '.join(ENDINGS)}"), where="--out")
        check_file(out, overwrite)
    text = None if note is None else read_note(note)
    collector, stored, notes = Collector(), [], list[str]()
    once = dict[str, Path]()
    for path in runs:
        once.setdefault(os.path.realpath(path), path)
    for path in once.values():
        with collector.under():
            stored.append(read_run(path))
    collector.check()
    others = [run for run in stored[1:] if run.result.study == stored[0].result.study]
    if others[MOST_COMPARED:]:
        notes.append(f"{MOST_COMPARED} of {len(others)} runs are compared with {stored[0].path}; see attncli compare")
    compared = [compare_runs(stored[0], other) for other in others[:MOST_COMPARED]]
    look = run_look(stored[0])
    write = text_writer(page_of(stored, comparisons=compared, look=look, title=title, note=text))
    if out is not None:
        path = save_file_at(out, write)
    elif len(stored) == 1 and stored[0].config is not None:
        path = add_files(stored[0].path, {REPORT: write})[0]
    else:
        names = "-".join(dict.fromkeys(Path(run.result.name).name or "run" for run in stored))
        path = save_numbered(OUTPUTS / "reports" / f"{names[:LONGEST_NAME]}.html", write)
    print_written([path], notes, quiet, open_)
