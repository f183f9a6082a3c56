"""swap.png: the main metric by layer, and with layers added one by one; heads.png: a grid of layers and heads."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from statistics import fmean

from matplotlib.ticker import MaxNLocator

from attncli.catalogue.scorer_entries import MODEL
from attncli.config.looks import Look
from attncli.core.numbers import finite, number, several
from attncli.errors import printable
from attncli.models.swap import UNIFORM, ZERO
from attncli.results import Result, by_label
from attncli.show.pictures.figures import Note, Picture
from attncli.show.pictures.heatmaps import draw_heatmap
from attncli.show.pictures.matrices import Heatmap, Panel, heads_panel
from attncli.show.pictures.panels import drawn, legend, name, panels
from attncli.show.pictures.scales import CHANGE
from attncli.show.pictures.themes import Sheet
from attncli.studies.swap.columns import SwapFacts
from attncli.studies.swap.tables import TITLES

CURVES = ("layer", "up_to", "from")
REFERENCES = {  # meanings, shares of the text colour, and dashes
    UNIFORM: ("equal weights", 0.85, (0, (4, 2))),
    ZERO: ("no output", 0.6, (0, (1, 1.3))),
}


def figures(result: Result, note: Note, look: Look) -> Mapping[str, Callable[[], Picture]]:
    """Return the functions that draw the pictures `swap`, and `heads` if heads were replaced one by one."""
    drawers: dict[str, Callable[[], Picture]] = {"swap": partial(drawn, profile_figure, result, note, look)}
    if any(row["by"] == "head" for row in result.records):
        drawers["heads"] = partial(heads_figure, result, note, look)
    return drawers


def profile_figure(result: Result, note: Note, sheet: Sheet) -> Picture:
    """Draw a panel for each way to choose layers, with a curve for each entry, and dashed curves for references."""
    kinds = [by for by in CURVES if any(row["by"] == by for row in result.records)] or ["all"]
    known = SwapFacts.of(result)
    column, layers = known.main, result.layers
    facts = [several(known.texts, "text")] if known.texts else []
    names = {row["label"] for row in result.records if row["by"] in kinds and row["label"] != MODEL}
    facts += [f"{label}: {about}" for label, (about, *_) in REFERENCES.items() if label in names]
    figure, axes = panels(sheet, len(kinds), f"{known.model} with other scorers inside", facts)
    lines = sheet.lines(label for label in result.labels if label in names)
    for label, (_, share, dash) in REFERENCES.items():
        if label in names:
            lines[label] |= {"color": sheet.ink(share), "linestyle": dash}
    for panel, by in zip(axes, kinds, strict=True):
        name(panel, TITLES.get(by, "all layers"), "layer" if by != "all" else "", column.name_with_unit)
        for index, (label, rows) in enumerate(by_label(result.records).items()):
            shown_rows = [row for row in rows if row["by"] == by and row[column.key] is not None]
            if label == MODEL or not shown_rows:
                continue
            values = {index if by == "all" else layers[row["layer"]]: row[column.key] for row in shown_rows}
            x = range(min(values), max(values) + 1)  # a line has a gap where no layer was measured
            panel.plot(x, [values.get(at, math.nan) for at in x], zorder=3, clip_on=False, **lines[label])
        low, high = panel.get_ylim()
        panel.set_ylim(low if panel.dataLim.y0 < 0 else 0.0, max(0.0, high))
        panel.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
        if by == "all":
            panel.set_xticks([])
    legend(figure, lines)
    return figure


def heads_figure(result: Result, note: Note, look: Look) -> Picture:
    """Return a picture with a panel (layers, heads) of the main metric for each entry, on one scale, with its mean."""
    column, layers = SwapFacts.of(result).main, result.layers
    by_head = by_label([row for row in result.records if row["by"] == "head" and row["label"] != MODEL])
    limit, grids = CHANGE if column.key == "relative_l2" else None, list[Panel]()
    for label, rows in by_head.items():
        values = finite(row[column.key] for row in rows)
        title = f"{printable(label)}, mean {number(fmean(values), 2)}" if values else printable(label)
        grids.append(heads_panel(title, "", rows, column.key, layers, column.name_with_unit, limit))
    sides = ("Layers", "Heads")
    return draw_heatmap(Heatmap(grids, "One head at a time", sides=sides, name="heads", about=result.about), look, note)
