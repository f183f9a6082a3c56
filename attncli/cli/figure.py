"""`attncli figure`: draw the pictures of a run again, with another look."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attncli.cli.options import Open, OverwriteFile, Quiet, check_format, import_quickly, names_picture, naming_options
from attncli.cli.streams import print_written
from attncli.cli.study_flags import StudyFlag, look_flags, overrides_of_flags, with_flags
from attncli.config.looks import HeatmapLook
from attncli.engine.runs.run_folder import check_file, save_file_at
from attncli.errors import InputError, did_you_mean, got, listed

if TYPE_CHECKING:
    from attncli.show.pictures.figures import Picture

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, such as outputs/d2l/latest.")]
Only = Annotated[
    list[str] | None, typer.Option("--only", metavar="NAME", help="Draw this picture, such as heatmaps (repeatable).")
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="PATH", help="Folder of the pictures, in place of the run folder; or a file, for one picture."
    ),
]


def figure(
    values: Mapping[StudyFlag, Any],
    run: Run,
    only: Only = None,
    out: Out = None,
    overwrite: OverwriteFile = False,
    open_: Open = False,
    quiet: Quiet = False,
) -> None:
    """Draw the pictures of a run again, without running it."""
    import_quickly(pictures=True)
    from attncli.engine.experiment import run_look  # load torch and matplotlib
    from attncli.engine.runs.loading import read_run, reading
    from attncli.engine.runs.saving import add_files
    from attncli.engine.views import result_figures
    from attncli.show.pictures.figures import picture_ending, save_figure, unknown_words

    stored = read_run(run)
    if not run.is_dir():
        raise InputError.of(f'got "{run}", which has no tensors to draw; expected the folder of a run', where="RUN")
    overrides, notes = overrides_of_flags(values), list[str]()
    look, is_file = run_look(stored, overrides), out is not None and names_picture(out)
    with reading(run), naming_options():
        figures = result_figures(stored.result, notes.append, look)
        if not figures:
            message = f'got "{run}", which has nothing to draw; expected a run with weights or other pictures'
            raise InputError.of(message, where="RUN")
        for name in only or ():
            if name not in figures:
                message = got(name, "expected the name of a picture", did_you_mean(name, figures))
                raise InputError.of(message, where="--only")
        names = {name: f"{name}.{look.format}" for name in figures if not only or name in only}
        if out is not None and is_file:
            picture_ending(out)  # raises InputError for an ending that is not written
            check_format(out, {override.path[-1]: override.value for override in overrides})
            if len(names) > 1:
                message = f'got "{out}", a file, for {len(names)} pictures; expected --only with one of their names'
                raise InputError.of(f"{message}, {listed([*names])}, or a folder", where="--out")
            names = dict.fromkeys(names, out.name)
        folder = None if out is None else out.parent if is_file else out
        if folder is not None:
            for name in names.values():  # raises InputError before anything is drawn
                check_file(folder / name, overwrite)
        pictures: dict[str, Picture] = {}
        for name, file in names.items():
            try:
                pictures[file] = figures[name]()
            except InputError as error:
                if len(names) == 1 or error.problems[0].path != ("panel",):
                    raise
                notes.append(f"{file}: not drawn: {error.problems[0].message}")
        if not pictures:
            raise InputError.of(got(look.panel, f"no picture has so many panels: {listed([*names])}"), ["panel"])
        notes += unknown_words(look, pictures.values())
        files = {file: partial(save_figure, picture) for file, picture in pictures.items()}
        if folder is None:
            paths = add_files(run, files)
        else:
            paths = [save_file_at(folder / name, draw) for name, draw in files.items()]
    print_written(paths, notes, quiet, open_)


COMMAND = with_flags("figure", figure, look_flags(HeatmapLook))
