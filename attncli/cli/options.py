"""Options that several commands share, under one name and with one help text each."""

import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from attncli.cli.scorers import scorer_names
from attncli.config.builtin import builtin_path, experiment_path, similar_experiment
from attncli.config.looks import HeatmapLook
from attncli.config.overrides import Override, override, parse_override, typed
from attncli.config.strict import validated
from attncli.engine.runs.run_folder import check_file
from attncli.errors import Collector, InputError, got, os_errors_as_input_errors, shortened

Configs = Annotated[
    list[Path], typer.Argument(metavar="CONFIG", help="YAML files, captured models, or names of experiments.")
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a key of the config: seed=1, scorers[0].scale=1, or scale=1 for all scorers.",
    ),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Run folder; must be new or empty.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an earlier run in --out.")]
OverwriteFile = Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")]
Seed = Annotated[str | None, typer.Option("--seed", metavar="N", help="Change the seed.")]
Device = Annotated[str | None, typer.Option("--device", metavar="NAME", help="Device: auto, cpu, cuda, cuda:N or mps.")]
DType = Annotated[
    str | None, typer.Option("--dtype", metavar="NAME", help="Dtype: float16, bfloat16, float32 or float64.")
]
Layout = Annotated[
    Literal["bhsd", "bshd"] | None,
    typer.Option(
        "--layout",
        metavar="NAME",
        help="Axes of tensors: bhsd (batch, heads, tokens, features), the default, or bshd (batch, tokens, heads, "
        "features).",
    ),
]
Compiled = Annotated[bool, typer.Option("--compile", help="Compile with torch.compile where possible.")]
NoPlots = Annotated[bool, typer.Option("--no-plots", help="Draw no pictures.")]
Report = Annotated[bool, typer.Option("--report", help="Add report.html, a page to explore the run.")]
Open = Annotated[bool, typer.Option("--open", help="Open the report, the picture or the run folder when done.")]
Json = Annotated[bool, typer.Option("--json", help="Print results.json with the run's folder, and nothing else.")]
Scorers = Annotated[
    list[str] | None,
    typer.Option(
        "--scorer",
        metavar="NAME[:KEY=VALUE,...]",
        help="A scorer, in place of the scorers and expectations of the config (repeatable).",
        autocompletion=scorer_names,
    ),
]
ModelName = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="A folder, a .gguf file or a name of the Hugging Face hub; or module:function."
    ),
]
Text = Annotated[
    list[str] | None,
    typer.Option("--text", metavar="TEXT", help="Text for the model; several are padded (repeatable)."),
]
Texts = Annotated[Path | None, typer.Option("--texts", metavar="FILE", help="File with a text on each line.")]
Stage = Annotated[
    Literal["scores", "capped", "biased", "weights", "dropped"] | None,
    typer.Option(
        "--stage",
        metavar="NAME",
        help="Stage of attention to show: scores, capped, biased, weights (the default) or dropped; for a tensor file, "
        "its contents.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but warnings and errors.")]
Full = Annotated[bool, typer.Option("--full", help="Print all tables, rows and columns.")]
PICTURES = (".png", ".svg", ".pdf", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".eps")


@dataclass(frozen=True)
class Output:
    """Options of `run` and the study commands: where to save a run, and how much to print."""

    out: Out = None
    overwrite: Overwrite = False
    no_plots: NoPlots = False
    report: Report = False
    open_: Open = False
    json: Json = False
    quiet: Quiet = False
    full: Full = False

    @property
    def silent(self) -> bool:
        """Whether no tables are printed on stdout."""
        return self.quiet or self.json


def import_quickly(*, pictures: bool) -> None:
    """Import torch, and matplotlib if `pictures`, with garbage collection disabled, as it would free nothing."""
    gc.disable()
    try:
        import attncli.api  # loads torch

        if pictures:
            import attncli.show.pictures.heatmaps  # noqa: F401  # loads matplotlib
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def naming_options() -> Iterator[None]:
    """In an InputError raised in the `with` block, name options in place of keys: `--batch` for `batch`."""
    try:
        yield
    except InputError as error:
        raise InputError(
            replace(problem, where=f"--{problem.path[0]}".replace("_", "-"), path=()) if problem.path else problem
            for problem in error.problems
        ) from error


def set_overrides(sets: list[str] | None, **shortcuts: str | None) -> list[Override]:
    """Return the overrides given by --set, then by `shortcuts` such as seed="3" for --seed 3; later overrides win."""
    collector = Collector()
    overrides: list[Override] = []
    for assignment in sets or []:
        with collector.under():
            overrides.append(parse_override(assignment))
    for key, value in shortcuts.items():
        with collector.under():
            if value is not None:
                change = override((key,), value, typed(f"--{key}", value))
                overrides.append(replace(change, may_be_short=key == "layout"))  # a key of `data`
    collector.check()
    return overrides


def in_place_of_scorers(scorers: Sequence[str]) -> list[Override]:
    """Return the overrides for --scorer, which replace the scorers and remove expectations about the old scorers."""
    text = shortened(" ".join(typed("--scorer", scorer) for scorer in scorers))
    return [Override(("scorers",), [*scorers], text), without_expectations()]


def without_expectations() -> Override:
    """Return the override that removes all expectations, for commands that judge none."""
    return Override(("expect",), [], "")


def find_source(source: Path | None, expected: str) -> tuple[Path, bool]:
    """Return the path of a source, and whether it is a folder; `expected` names the sources of the command.

    None is the built-in experiment `d2l`, and a results.json stands for its folder.

    Raises:
        InputError: there is no such path, or it cannot be read.
    """
    if source is None:
        return builtin_path("d2l"), False
    path = experiment_path(source.parent if source.name == "results.json" else source)
    with os_errors_as_input_errors(path, "SOURCE"):
        is_folder = path.is_dir()
    if not os.path.lexists(path):
        near = similar_experiment(path)
        cure = f"did you mean `{near}`?" if near else f"expected {expected}"
        raise InputError.of(f'got "{source}"; no such file or built-in experiment; {cure}', where="SOURCE")
    return path, is_folder


def names_picture(path: Path) -> bool:
    """Whether a path has the ending of a picture's file, also of one that is not written, such as .jpg."""
    return path.suffix.lower() in PICTURES


def check_format(out: Path, flags: Mapping[Any, Any]) -> None:
    """Raise an InputError if --format, one of the `flags` of pictures by key, is not the ending of --out."""
    if "format" in flags and out.suffix.lower() != f".{flags['format']}":
        expected = f'expected the ending of --out, "{out}"'
        raise InputError.of(got(flags["format"], expected, "leave it out"), where="--format")


def checked_look(flags: Mapping[Any, Any], out: Path | None, overwrite: bool) -> HeatmapLook:
    """Return the look that flags of pictures describe; raise an InputError for a wrong one, or a wrong file `out`."""
    from attncli.show.pictures.figures import picture_ending  # load matplotlib
    from attncli.show.pictures.heatmaps import check_look

    with naming_options():
        look = validated(HeatmapLook, flags, {})
        check_look(look)
        if out is not None:
            picture_ending(out)  # raises InputError for any other ending
            check_format(out, flags)
    if out is not None:
        check_file(out, overwrite)
    return look


def text_overrides(text: Sequence[str] | None, texts: Path | None) -> list[Override]:
    """Return the overrides for --text and --texts.

    Raises:
        InputError: both are given.
    """
    if text and texts is not None:
        raise InputError.of(f'got "{texts}" beside --text; expected one of the two', where="--texts")
    if text:
        return [Override(("texts",), [*text], " ".join(typed("--text", line) for line in text))]
    if texts is not None:
        return [Override(("texts",), {"file": str(texts.absolute())}, typed("--texts", str(texts)))]
    return []
