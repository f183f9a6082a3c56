"""`attncli heatmap`: draw weights or scores as a grid of panels."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from attncli.cli.options import (
    Device,
    DType,
    Layout,
    Open,
    OverwriteFile,
    Quiet,
    Seed,
    Sets,
    Stage,
    checked_look,
    naming_options,
    set_overrides,
)
from attncli.cli.scorers import scorer_names
from attncli.cli.streams import print_written
from attncli.cli.study_flags import StudyFlag, look_flags, overrides_of_flags, with_flags
from attncli.config.looks import HeatmapLook
from attncli.config.strict import validated
from attncli.engine.runs.run_folder import OUTPUTS, save_file_at, save_numbered

Source = Annotated[
    Path | None,
    typer.Argument(
        metavar="SOURCE", help="A config, built-in experiment, run folder, captured model or tensor file; default: d2l."
    ),
]
Scorers = Annotated[
    list[str] | None,
    typer.Option("--scorer", metavar="LABEL", help="Draw this scorer (repeatable).", autocompletion=scorer_names),
]
Tensors = Annotated[list[str] | None, typer.Option("--tensor", metavar="NAME", help="Draw this tensor (repeatable).")]
Batches = Annotated[
    list[int] | None, typer.Option("--batch", metavar="N", help="Draw this batch element (repeatable).")
]
Layer = Annotated[
    str | None, typer.Option("--layer", metavar="NAME", help="Draw this layer of a model, by its name or number.")
]
Heads = Annotated[list[int] | None, typer.Option("--head", metavar="N", help="Draw this head (repeatable).")]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="The picture's file: .png, .svg or .pdf.")]


def heatmap(
    values: Mapping[StudyFlag, Any],
    source: Source = None,
    scorers: Scorers = None,
    tensors: Tensors = None,
    batches: Batches = None,
    layer: Layer = None,
    heads: Heads = None,
    stage: Stage = None,
    out: Out = None,
    overwrite: OverwriteFile = False,
    open_: Open = False,
    sets: Sets = None,
    seed: Seed = None,
    device: Device = None,
    dtype: DType = None,
    layout: Layout = None,
    quiet: Quiet = False,
) -> None:
    """Draw attention weights or scores; flags override `figure` of a config or run."""
    from attncli.cli.sources import load_source  # load torch and matplotlib
    from attncli.show.pictures.figures import save_figure, unknown_words
    from attncli.show.pictures.heatmaps import heatmap_figure
    from attncli.studies.attention.figure import heads_drawn

    overrides = set_overrides(sets, seed=seed, device=device, dtype=dtype)
    flags = {override.path[-1]: override.value for override in overrides_of_flags(values)}
    checked_look(flags, out, overwrite)
    notes: list[str] = []
    drawn = load_source(source, stage, layer, layout, overrides, tensors or [], quiet)
    notes += drawn.notes
    with naming_options():
        look = validated(HeatmapLook, {**drawn.look, **flags}, {})
        indices = None
        if drawn.result is not None and not (batches or heads):  # the same heads as in the run's own pictures
            count = len(scorers or drawn.matrices.tensors)
            indices = heads_drawn(drawn.result, count, look.minus, notes.append, drawn.layer)
        chosen: dict[str, Any] = {"labels": scorers, "batches": batches, "heads": heads, "indices": indices}
        figure = heatmap_figure(drawn.matrices, look, **chosen, note=notes.append)
    notes += unknown_words(look, [figure])
    path = out or OUTPUTS / "heatmaps" / f"{drawn.name}.{look.format}"
    path = (save_file_at if out else save_numbered)(path, lambda file: save_figure(figure, file))
    print_written([path], notes, quiet, open_)


COMMAND = with_flags("heatmap", heatmap, look_flags(HeatmapLook))
