"""`attncli heatmap`: weights or scores as a grid of panels."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from attncli.commands.options import Device, DType, Overwrite, Quiet, Seed, Sets, naming_options, overrides_of
from attncli.commands.scorers import scorer_names


class Stage(StrEnum):
    """The stages that are matrices of queries and keys."""

    scores = "scores"
    capped = "capped"
    weights = "weights"
    dropped = "dropped"


class Scale(StrEnum):
    """What the colours span."""

    unit = "unit"
    shared = "shared"
    panel = "panel"


class Annotate(StrEnum):
    """Whether cells show their numbers."""

    auto = "auto"
    yes = "yes"
    no = "no"


Source = Annotated[
    Path | None,
    typer.Argument(metavar="[SOURCE]", help="A config, a run folder or a tensor file; the D2L example if left out."),
]
Scorers = Annotated[
    list[str] | None,
    typer.Option("--scorer", metavar="LABEL", help="Draw this scorer; repeatable.", autocompletion=scorer_names),
]
Tensors = Annotated[list[str] | None, typer.Option("--tensor", metavar="NAME", help="Of a tensor file; repeatable.")]
Batches = Annotated[list[int] | None, typer.Option("--batch", help="Draw this batch element; repeatable.")]
Heads = Annotated[list[int] | None, typer.Option("--head", help="Draw this head; repeatable.")]
StageOption = Annotated[Stage | None, typer.Option("--stage", help="What to draw; weights if left out.")]
Cmap = Annotated[str, typer.Option("--cmap", help="A colour map of matplotlib.")]
ScaleOption = Annotated[
    Scale | None,
    typer.Option("--scale", help="Colours from 0 to 1, over all panels' range, or each panel's; unit for weights."),
]
AnnotateOption = Annotated[Annotate, typer.Option("--annotate", help="Write the numbers into the cells.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Ends in .png, .svg or .pdf.")]


def heatmap(
    source: Source = None,
    scorers: Scorers = None,
    tensors: Tensors = None,
    batches: Batches = None,
    heads: Heads = None,
    stage: StageOption = None,
    cmap: Cmap = "Reds",
    scale: ScaleOption = None,
    annotate: AnnotateOption = Annotate.auto,
    out: Out = None,
    overwrite: Overwrite = False,
    sets: Sets = None,
    seed: Seed = None,
    device: Device = None,
    dtype: DType = None,
    quiet: Quiet = False,
) -> None:
    """Draw attention weights or scores as heatmaps."""
    from attncli.commands.sources import load_source
    from attncli.results.pictures import picture_path, save_picture
    from attncli.views.figure_files import picture_ending
    from attncli.views.heatmaps import HeatmapStyle, heatmap_figure, save_figure

    overrides = overrides_of(sets, seed=seed, device=device, dtype=dtype)
    with naming_options():
        style = HeatmapStyle(cmap, scale.value if scale else None, annotate.value)
        if out is not None:
            picture_ending(out)
    picture_path("", out, overwrite)  # what cannot be written is refused before the work
    drawn = load_source(source, stage.value if stage else None, overrides, tensors or [], quiet)
    with naming_options():
        picture = heatmap_figure(drawn.matrices, style, labels=scorers, batches=batches, heads=heads)
    place = picture_path(drawn.name, out, overwrite)
    save_picture(place, lambda path: save_figure(picture.figure, path))
    for note in picture.notes:
        typer.echo(note, err=True)
    if not quiet:
        typer.echo(place)
