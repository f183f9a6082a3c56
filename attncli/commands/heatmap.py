"""`attncli heatmap`: weights or scores as a grid of panels."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from attncli.commands.options import Device, DType, Open, Quiet, Seed, Sets, naming_options, overrides_of
from attncli.commands.scorers import scorer_names

Source = Annotated[
    Path | None,
    typer.Argument(metavar="SOURCE", help="A config, built-in experiment, run folder or tensor file; d2l if left out."),
]
Scorers = Annotated[
    list[str] | None,
    typer.Option("--scorer", metavar="LABEL", help="Draw this scorer (repeatable).", autocompletion=scorer_names),
]
Tensors = Annotated[list[str] | None, typer.Option("--tensor", metavar="NAME", help="Draw this tensor (repeatable).")]
Batches = Annotated[
    list[int] | None, typer.Option("--batch", metavar="N", help="Draw this batch element (repeatable).")
]
Heads = Annotated[list[int] | None, typer.Option("--head", metavar="N", help="Draw this head (repeatable).")]
Stage = Annotated[
    Literal["scores", "capped", "biased", "weights", "dropped"] | None,
    typer.Option(
        "--stage",
        metavar="NAME",
        help="What to draw: scores, capped, biased, weights or dropped; for a tensor file, what it holds.",
    ),
]
Cmap = Annotated[str | None, typer.Option("--cmap", metavar="NAME", help="Colour map of matplotlib.")]
Scale = Annotated[
    Literal["unit", "shared", "panel"] | None,
    typer.Option(
        "--scale",
        metavar="NAME",
        help="Colour scale: unit (0 to 1), shared (one for all panels) or panel (one per panel).",
    ),
]
Annotate = Annotated[
    Literal["auto", "yes", "no"],
    typer.Option("--annotate", metavar="WHEN", help="Write numbers into the cells: auto, yes or no."),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="The picture's file: .png, .svg or .pdf.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")]


def heatmap(
    source: Source = None,
    scorers: Scorers = None,
    tensors: Tensors = None,
    batches: Batches = None,
    heads: Heads = None,
    stage: Stage = None,
    cmap: Cmap = None,
    scale: Scale = None,
    annotate: Annotate = "auto",
    out: Out = None,
    overwrite: Overwrite = False,
    open_: Open = False,
    sets: Sets = None,
    seed: Seed = None,
    device: Device = None,
    dtype: DType = None,
    quiet: Quiet = False,
) -> None:
    """Draw attention weights or scores as heatmaps."""
    from attncli.commands.sources import load_source
    from attncli.config.looks import HeatmapLook
    from attncli.runs.run_folder import check_file, save_picture
    from attncli.show.figures import picture_ending, save_figure
    from attncli.show.heatmaps import colour_map, heatmap_figure
    from attncli.show.themes import sheet_of

    overrides = overrides_of(sets, seed=seed, device=device, dtype=dtype)
    with naming_options():
        look = HeatmapLook(cmap=cmap, scale=scale, annotate=annotate)
        colour_map(sheet_of(look), look)
        if out is not None:
            picture_ending(out)
    if out is not None:  # what cannot be written is refused before the work
        check_file(out, overwrite)
    notes: list[str] = []
    matrices, name = load_source(source, stage, overrides, tensors or [], quiet)
    with naming_options():
        figure = heatmap_figure(matrices, look, labels=scorers, batches=batches, heads=heads, note=notes.append)
    place = save_picture(name, out, lambda path: save_figure(figure, path))
    if not quiet:
        for note in notes:
            typer.echo(note, err=True)
        typer.echo(place)
    if open_:
        typer.launch(str(place))
