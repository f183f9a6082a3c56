"""`attncli compare`: show the differences between runs, or between two captures of a model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attncli.cli.options import Full, Output, OverwriteFile, Quiet, checked_look, naming_options
from attncli.cli.progress import Terminal
from attncli.cli.streams import DIFFERENT, print_note, print_notes
from attncli.cli.study_flags import StudyFlag, look_flags, overrides_of_flags, with_flags
from attncli.config.looks import HeatmapLook, Look
from attncli.config.overrides import Override
from attncli.engine.runs.run_folder import save_file_at
from attncli.errors import Collector, InputError, listed
from attncli.results import nan_to_null
from attncli.show.terminal.comparison import tables
from attncli.show.terminal.tables import SCREEN

if TYPE_CHECKING:
    from attncli.engine.runs.loading import StoredRun
    from attncli.results import Row
    from attncli.show.pictures.figures import Note, Picture

CAPTURED = ".safetensors"
MOST_HEADS = 8  # pairs of batch element and head in the picture

Runs = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN", help="Run folders, or results.json alone, each compared with the first; or two captured files."
    ),
]
Fail = Annotated[bool, typer.Option("--fail", help="End with exit code 1 if anything differs by more than rounding.")]
Tolerance = Annotated[
    float | None,
    typer.Option("--tolerance", metavar="X", help="Relative difference that --fail accepts, in place of rounding."),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print the comparison as JSON, a list of several, and nothing else.")
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Draw the difference of the weights, or of two captures by layer: .png, .svg or .pdf.",
    ),
]


def compare(
    values: Mapping[StudyFlag, Any],
    runs: Runs,
    tolerance: Tolerance = None,
    fail: Fail = False,
    json: Json = False,
    out: Out = None,
    overwrite: OverwriteFile = False,
    full: Full = False,
    quiet: Quiet = False,
) -> None:
    """Print the differences of runs from the first one, or of two captures of a model, layer by layer."""
    overrides, output = overrides_of_flags(values), Output(out, overwrite, json=json, quiet=quiet, full=full)
    if any(run.suffix == CAPTURED for run in runs):
        _check_captures(runs, tolerance, overrides)
        _compare_captures(runs, fail, _checked_look(runs, overrides, output), output)
        return
    if len(runs) < 2:
        raise InputError.of(f'got one run, "{runs[0]}"; expected two or more', where="attncli compare")
    if tolerance is not None and not 0 <= tolerance < float("inf"):
        raise InputError.of(f"got {tolerance}; expected a relative difference, such as 0.01", where="--tolerance")
    if tolerance is not None and not fail:
        raise InputError.of(f"got {tolerance} without --fail; expected both", where="--tolerance")
    _compare_runs(runs, fail, tolerance, _checked_look(runs, overrides, output), output)


def _check_captures(runs: Sequence[Path], tolerance: float | None, overrides: Sequence[Override]) -> None:
    """Raise InputError unless there are two captured files, and no options that are for runs alone."""
    if len(runs) != 2 or any(run.suffix != CAPTURED for run in runs):
        expected = "expected two captured files, or runs alone"
        raise InputError.of(f"got {listed([str(run) for run in runs])}; {expected}", where="attncli compare")
    if tolerance is not None:
        raise InputError.of("two captures have limits of their own; leave it out", where="--tolerance")
    for override in overrides:
        if override.path[-1] not in Look.model_fields:
            raise InputError.of("the picture of two captures has curves; leave it out", where=override.text)


def _checked_look(runs: Sequence[Path], overrides: Sequence[Override], output: Output) -> HeatmapLook:
    """Return the look that flags describe; raise InputError for a wrong one, or a wrong file of the picture."""
    if (out := output.out) is None:
        if overrides:
            raise InputError.of("got no --out; expected the file of a picture", where=overrides[0].text)
        return HeatmapLook()
    if len(runs) > 2:
        raise InputError.of(f'got "{out}" for {len(runs)} runs; a picture is of two', where="--out")
    return checked_look({override.path[-1]: override.value for override in overrides}, out, output.overwrite)


def _compare_runs(runs: Sequence[Path], fail: bool, tolerance: float | None, look: HeatmapLook, output: Output) -> None:
    """Print the differences of runs from the first one, and draw the differences of two runs."""
    from attncli.cli.experiments import print_json  # load torch
    from attncli.engine.runs.comparing import compare_runs
    from attncli.engine.runs.loading import read_run

    collector, stored = Collector(), []
    for path in runs:
        with collector.under():
            stored.append(read_run(path))
    collector.check()
    comparisons = [compare_runs(stored[0], other) for other in stored[1:]]
    if output.out is not None:
        _draw(lambda note: _runs_figure(stored, comparisons[0].weights, look, note), look, output.out, output.quiet)
    if output.json:
        contents = [nan_to_null(asdict(comparison)) for comparison in comparisons]
        print_json(contents if len(contents) > 1 else contents[0])
    elif not output.quiet:
        console = Terminal()
        for index, comparison in enumerate(comparisons):
            if index:
                console.rule(characters="=")
            for block in tables(comparison, console.width, None if output.full else SCREEN // len(comparisons) - 1):
                console.print(block)
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


def _compare_captures(runs: Sequence[Path], fail: bool, look: HeatmapLook, output: Output) -> None:
    """Print and draw the differences between two captured files."""
    from attncli.cli.experiments import print_json  # load torch
    from attncli.engine.captures import compare_captures
    from attncli.show.terminal.comparison import layers

    comparison = compare_captures(*runs)
    if output.out is not None:
        from attncli.show.pictures.captures import captures_figure  # loads matplotlib

        _draw(lambda note: captures_figure(comparison.records, look, note), look, output.out, output.quiet)
    if output.json:
        print_json({key: value for key, value in nan_to_null(asdict(comparison)).items() if key not in ("a", "b")})
    elif not output.quiet:
        console = Terminal()
        for line in layers(comparison.records, comparison.findings, comparison.notes, console.width, output.full):
            console.print(line)
    if fail and comparison.verdict == "different":
        print_note(comparison.findings[0].text)
        raise typer.Exit(DIFFERENT)


def _draw(draw: "Callable[[Note], Picture]", look: HeatmapLook, out: Path, quiet: bool) -> None:
    """Save the picture that `draw` returns, and print the notes that it gives."""
    from attncli.show.pictures.figures import save_figure, unknown_words  # load matplotlib

    notes = list[str]()
    with naming_options():
        picture = draw(notes.append)
    save_file_at(out, lambda path: save_figure(picture, path))
    print_notes([*notes, *unknown_words(look, [picture])], quiet)


def _runs_figure(runs: Sequence["StoredRun"], weights: Sequence["Row"], look: HeatmapLook, note: "Note") -> "Picture":
    """Return a picture of the difference of the weights of two runs, at the batch elements and heads that differ most.

    `weights` has the comparison's row for each label, batch element and head.
    """
    from attncli.engine.report import run_names  # load torch and matplotlib
    from attncli.show.pictures.heatmaps import runs_figure

    rows = [row for row in weights if row["js_divergence"] is not None and row.get("layer") is None]
    if not rows:
        raise InputError.of("the runs share no weights to draw the difference of; leave it out", where="--out")
    rows = [row for row in rows if row["max_abs_difference"]] or rows
    labels = list(dict.fromkeys(row["label"] for row in rows))
    rows.sort(key=lambda row: -row["js_divergence"])
    heads = list(dict.fromkeys((row["batch"] or 0, row["head"] or 0) for row in rows))[:MOST_HEADS]
    a, b = (run.result.matrices("weights") for run in runs)
    first, second = run_names([run.path for run in runs])
    return runs_figure(a, b, labels, sorted(heads), (first, second), look, note)


COMMAND = with_flags("compare", compare, look_flags(HeatmapLook, without=("format", "minus")))
