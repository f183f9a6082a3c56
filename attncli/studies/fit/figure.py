"""fit.png: grids of layers and heads before and after fitting, on one scale; heads.png: weights and outputs."""

from collections.abc import Callable, Mapping
from functools import partial

from attncli.catalogue.scorer_entries import MODEL
from attncli.config.looks import Look
from attncli.errors import printable
from attncli.results import Result, by_label
from attncli.show.pictures.figures import Note, Picture
from attncli.show.pictures.heatmaps import draw_heatmap
from attncli.show.pictures.matrices import Heatmap, Panel, heads_panel
from attncli.show.pictures.panels import decades_axis, drawn, legend, name, panels
from attncli.show.pictures.scales import CHANGE
from attncli.show.pictures.themes import Sheet
from attncli.studies.fit.columns import BEFORE, KL, OUTPUT_L2, FitFacts
from attncli.studies.fit.options import UNIFORM


def figures(result: Result, note: Note, look: Look) -> Mapping[str, Callable[[], Picture]]:
    """Return the functions that draw the pictures: `fit`, and `heads` if some labels have divergences."""
    drawers: dict[str, Callable[[], Picture]] = {"fit": partial(grids_figure, result, note, look)}
    if any(row["kl"] is not None and row["label"] not in (MODEL, UNIFORM) for row in result.records):
        drawers["heads"] = partial(drawn, heads_figure, result, note, look)
    return drawers


def grids_figure(result: Result, note: Note, look: Look) -> Picture:
    """Return a picture with panels (layers, heads) in a row for each label: unfitted, and fitted if it learns."""
    drawn = [row for row in result.records if row["by"] == "head" and row["label"] not in (MODEL, UNIFORM)]
    column = KL if any(row["kl"] is not None for row in drawn) else OUTPUT_L2
    limit = CHANGE if column is OUTPUT_L2 else None
    groups, grids = by_label([row for row in drawn if row[column.key] is not None]), list[Panel]()
    for label, rows in groups.items():
        stages = {"unfitted": column.key + BEFORE} | ({"fitted": column.key} if rows[0]["parameters"] else {})
        for stage, key in stages.items():
            grids.append(heads_panel(stage, printable(label), rows, key, result.layers, column.name_with_unit, limit))
    scorers = printable(next(iter(groups))) if len(groups) == 1 else "scorers"
    title = f"{FitFacts.of(result).model}: {scorers} fitted to its heads"
    return draw_heatmap(Heatmap(grids, title, sides=("Layers", "Heads"), name="fit", about=result.about), look, note)


def heads_figure(result: Result, note: Note, sheet: Sheet) -> Picture:
    """Draw a marker for each fitted head: the divergence of its weights against the error of its output."""
    groups = by_label(
        [row for row in result.records if row["by"] == "head" and row["kl"] and row["label"] not in (MODEL, UNIFORM)]
    )
    figure, (axes,) = panels(sheet, 1, f"{FitFacts.of(result).model}: fitted heads, texts held out")
    lines = sheet.lines(groups)
    name(axes, "", "relative error of the output (L2)", KL.name_with_unit)
    for label, rows in groups.items():
        look = {**lines[label], "linestyle": "none", "markeredgewidth": 0.0}
        axes.plot([row["output_l2"] for row in rows], [row["kl"] for row in rows], **look)
        lines[label] = look
    decades_axis(axes)
    legend(figure, lines)
    return figure
