"""Heatmaps: the matrices of a stage as a grid of panels that can be compared."""

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LogNorm, Normalize
from matplotlib.image import AxesImage
from matplotlib.patches import Patch

from attncli.common.study import Matrices
from attncli.config.looks import Annotate, HeatmapLook, Look, Scale
from attncli.errors import InputError, below, did_you_mean, got, printable
from attncli.show.cells import (
    MOST_NUMBERS,
    Cells,
    draw_bar,
    draw_cells,
    masked,
    nan_colour,
    number_format,
    set_ticks,
    thin_ticks,
    write_numbers,
)
from attncli.show.colours import PALE, Scaling, scaling_of
from attncli.show.figures import Note, Picture, drawing, unheard
from attncli.show.grids import BAR_WIDTH, GAP, MARGIN, TOKEN_LINE, Grid, Size, grid_of, place, titles_of
from attncli.show.matrices import Panel, block_means, differences, select, zoom
from attncli.show.panels import folded
from attncli.show.scales import ROUNDING, Numbers, norm_of, ticks_of
from attncli.show.themes import DPI, Settings, Sheet, sheet_of

QUANTITIES = {
    "scores": "score",
    "capped": "score after softcap",
    "weights": "attention weight",
    "dropped": "attention weight after dropout",
}
SHARED = "attncli heatmap --scale shared"
PLAIN = HeatmapLook()
FRAMED: Settings = {"axes.grid": False, "axes.spines.top": True, "axes.spines.right": True}

MOST_DRAWINGS = 5  # until texts fit the panels of a page of a given size
NEAR, LARGER = 0.02, 1.1  # inches that panels may be smaller than their texts were made for, and how much larger
NARROWEST_PAGE = 3.5  # inches, however narrow all panels


def heatmap_figure(
    matrices: Matrices,
    look: HeatmapLook = PLAIN,
    *,
    labels: Sequence[str] | None = None,
    batches: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    places: Sequence[tuple[int, int]] | None = None,
    note: Note = unheard,
) -> Picture:
    """A panel for each batch element and head (rows) and label (columns).

    Args:
        matrices: tensors (n, m), (b, n, m), (b, heads, n, m), or with more axes, all of which count as heads.
        look: colours, limits and numbers, which queries and keys, and what is subtracted.
        labels: which labels, in this order; all where None.
        batches: which batch elements, counted from 0; all where None.
        heads: which heads, counted from 0; all where None.
        places: which pairs of batch element and head, in this order, in place of `batches` and `heads`.
        note: is called with what the reader should know: what was left out, averaged, cut off or not a number.

    Raises:
        InputError: a label, batch element or head that is not there, naming those that are; no stack of matrices; a
            look that does not fit them.
    """
    if look.minus is not None:
        if look.minus not in matrices.tensors:
            raise InputError.of(got(look.minus, "unknown label", did_you_mean(look.minus, matrices.tensors)), ["minus"])
        labels = None if labels is None else list(dict.fromkeys([*labels, look.minus]))
    panels = select(matrices, labels, batches, heads, places, note)
    before = {printable(label) for label in matrices.with_dropout if matrices.stage == "weights"}
    return stage_figure(panels, matrices.stage, look, note, before_dropout=before, layer=matrices.layer)


def stage_figure(
    panels: Sequence[Panel],
    stage: str,
    look: HeatmapLook,
    note: Note,
    *,
    before_dropout: Set[str] = frozenset(),
    layer: str = "",
) -> Picture:
    """Panels of a stage, in the look asked for. The weights of some labels are those before dropout."""
    quantity = printable(QUANTITIES.get(stage, stage))
    panels = zoom(panels, look)
    if {panel.label for panel in panels} <= before_dropout:
        quantity, before_dropout = f"{quantity} before dropout", frozenset()
    if look.minus is not None:
        panels = differences(panels, look.minus, note)
        quantity = f"{quantity} − that of {printable(look.minus)}"
    panels = [replace(p, label=f"{p.label} before dropout") if p.label in before_dropout else p for p in panels]
    return _draw(_Content(panels, look, ", ".join(filter(None, (quantity, layer))), stage), note)


def runs_figure(
    a: Matrices,
    b: Matrices,
    labels: Sequence[str],
    places: Sequence[tuple[int, int]],
    look: HeatmapLook = PLAIN,
    note: Note = unheard,
) -> Picture:
    """Matrices of two runs, `b` - `a`, for labels that both have in one shape, at these batch elements and heads."""
    ours, theirs = (select(each, labels, None, None, places, told) for each, told in ((a, unheard), (b, note)))
    panels = [
        replace(q, valid=None if p.valid is None or q.valid is None else p.valid | q.valid, minus=p.values)
        for p, q in zip(ours, theirs, strict=True)
    ]
    look = look.model_copy(update={"minus": "A"})
    return _draw(_Content(panels, look, f"{QUANTITIES[b.stage]}, B − A", b.stage), note)


def panels_figure(
    panels: Sequence[Panel],
    quantity: str,
    note: Note = unheard,
    *,
    quantities: Sequence[str] = (),
    sides: tuple[str, str] = ("Batch", "Heads"),
    look: HeatmapLook = PLAIN,
) -> Picture:
    """Panels as they are, with numbers where they have room; those of one quantity share their colours.

    Args:
        panels: matrices (batch elements, heads), or of other `sides`: rows and columns.
        quantity: what the figure is, which stands above all panels.
        note: is called with what the reader should know.
        quantities: what each panel shows, with a colour bar for each panel; left out, all show the same.
        sides: what rows and columns are.
        look: theme, sizes and title; colours and ranges are not for these.
    """
    scale: Scale = "panel" if quantities else "shared"
    known = sum(panel.values.numel() if panel.valid is None else int(panel.valid.sum()) for panel in panels)
    annotate: Annotate = "yes" if known <= MOST_NUMBERS["auto"] else "auto"
    plain = HeatmapLook(**{name: getattr(look, name) for name in Look.model_fields}, scale=scale, annotate=annotate)
    quantities = quantities or [quantity] * len(panels)
    return _draw(_Content(panels, plain, quantity, quantities=quantities, sides=sides), note)


def check_look(look: Look) -> None:
    """Refuse what cannot be drawn in any study, before the work.

    Raises:
        InputError: a style file, a size or a colour map that is wrong; its path is that of the key `figure`.
    """
    with below("figure"):
        sheet = sheet_of(look)
        if isinstance(look, HeatmapLook):
            colour_map(sheet, look)


def colour_map(sheet: Sheet, look: HeatmapLook) -> Colormap:
    """The colour map asked for, or one that colour-blind readers can read: of differences one with 0 in the middle.

    Raises:
        InputError: matplotlib has none of this name.
    """
    name = look.cmap or (sheet.settings["image.cmap"] if look.minus is None else sheet.diverging)
    if name not in matplotlib.colormaps:
        question = did_you_mean(name, matplotlib.colormaps)
        near = question if question.startswith("did") else "such as Reds, viridis or Greys"
        raise InputError.of(got(name, "expected a colour map of matplotlib", near), ["cmap"])
    return matplotlib.colormaps[name]


@dataclass(frozen=True)
class _Content:
    """What a picture shows, whatever its page: a stage, or else `quantities`, one for each panel."""

    panels: Sequence[Panel]
    look: HeatmapLook
    quantity: str
    stage: str = ""
    quantities: Sequence[str] = ()
    sides: tuple[str, str] = ("Queries", "Keys")

    @property
    def texts(self) -> list[str]:
        """All that is written, numbers aside."""
        names = (name for panel in self.panels for name in (panel.label, *panel.queries, *panel.keys))
        return [self.look.title or self.quantity, *map(str, names)]


@dataclass(frozen=True)
class _Shown:
    """The cells that are drawn of each panel, means of `blocks` of its own, their numbers and colours."""

    blocks: Sequence[tuple[int, int]]
    cells: Sequence[Cells]
    numbers: Sequence[Numbers]
    together: Numbers  # the numbers of all panels
    norms: Sequence[Normalize]
    cmap: Colormap
    scaling: Scaling | None  # of a stage
    words: str  # on colours that are not linear

    @property
    def footnote(self) -> str:
        """What a pixel is, where there are more cells than pixels; else empty."""
        down, across = (max(sides) for sides in zip(*self.blocks, strict=True))
        upto = "up to " if len(set(self.blocks)) > 1 else ""
        return f"each pixel is the mean of {upto}{down} × {across} cells" if down * across > 1 else ""


def _draw(content: _Content, note: Note) -> Picture:
    """The panels on one page. On one of a given size they are drawn again until their texts fit them."""
    with drawing(content.texts, note, content.look) as sheet, matplotlib.rc_context(FRAMED):
        grid = grid_of(content.panels, content.look, sheet)
        for step in range(MOST_DRAWINGS):
            notes = list[str]()
            figure, (width, height), needed = _draw_on(grid, sheet, content, notes.append)
            may_grow = step < MOST_DRAWINGS // 2  # titles that fold now and then would never fit
            growth = min(width - grid.width, height - grid.height), max(width / grid.width, height / grid.height)
            if growth[0] > -NEAR and (growth[1] < LARGER or not may_grow):
                break
            if not may_grow:
                width, height = min(width, grid.width), min(height, grid.height)
            grid = replace(grid, width=width, height=height)
        if sheet.size is not None:
            if any(least > side + 1.5 / DPI for least, side in zip(needed, sheet.size, strict=True)):
                notes.append(_too_small(sheet.size, needed))
            figure.set_size_inches(sheet.size[0], sheet.size[1])
        figure.dpi = sheet.dpi
    for text in notes:
        note(text)
    return figure


def _too_small(page: Sequence[float], needed: Sequence[float]) -> str:
    enough = [max(side, math.ceil(10 * least) / 10 + 0.5) for side, least in zip(page, needed, strict=True)]
    given, would_do = (" x ".join(f"{side:g}" for side in sides) for sides in (page, enough))
    return f"the texts of the heatmaps do not fit into {given} inches; about {would_do} would do"


def _draw_on(grid: Grid, sheet: Sheet, content: _Content, note: Note) -> tuple[Picture, Size, Size]:
    """The panels in a grid, laid out with DPI pixels per inch; and as `place` says, the sizes of a panel and a page."""
    panels, look, shown = content.panels, content.look, _shown(grid, sheet, content)
    figure = Picture(sheet, 1, 1)
    figure.set_size_inches(1, 1)  # until everything has its place
    figure.dpi = DPI
    figure.suppressComposite = True  # every panel stays an image of its own in SVG and PDF
    titles = titles_of(panels, grid.columns, sheet)
    made, bar = _draw_panels(figure, grid, content, shown, note), None
    for axes, title in zip(made, titles.above(grid.letters(sheet)), strict=True):
        axes.set_title(title)
    for axes, title in zip(made[:: grid.columns], titles.beside, strict=True):
        axes.set_ylabel(title, rotation=0, ha="right", va="center", labelpad=sheet.points)
    thin = _label_ticks(made, grid, panels)
    image, footnotes = made[-1].images[0], [shown.footnote]
    ticks = None if shown.scaling is None else shown.scaling.ticks
    if look.scale == "panel":
        footnotes.append(shown.words)
    else:
        bar = figure.add_axes((0, 0, 1, 1), label="bar")
        draw_bar(bar, image, shown.together, ticks=ticks, format="%g")
        if shown.words or look.minus is not None or look.title:
            bar.set_ylabel("\n".join(filter(None, (content.quantity, shown.words))))
    legend = _draw_legend(figure, shown.cells, image, "\n".join(filter(None, footnotes)))
    length = sheet.size[0] if sheet.size is not None else max(grid.columns * grid.width, NARROWEST_PAGE)
    title = folded(look.title or ", ".join([content.quantity, *titles.page]), length - MARGIN / DPI, sheet)
    sizes = place(figure, made, grid.columns, bar, legend, content.sides, len(title.splitlines()))
    if bar and ticks is not None:
        thin_ticks(bar, image, TOKEN_LINE * grid.unit * DPI)
    margin = grid.unit * MARGIN / DPI
    x, y = margin / figure.get_figwidth(), 1 - margin / figure.get_figheight()
    figure.suptitle(title, x=x, y=y, ha="left", va="top")
    if thin:
        note(f"too many tokens: {thin}")
    for line in _unseen(content, shown):
        note(line)
    return figure, *sizes


def _shown(grid: Grid, sheet: Sheet, content: _Content) -> _Shown:
    """Of each panel as many means as it has pixels, or all its cells."""
    down, across = grid.height * sheet.dpi, grid.width * sheet.dpi
    blocks = [(math.ceil(len(p.queries) / down), math.ceil(len(p.keys) / across)) for p in content.panels]
    cells = [block_means(p.values, p.valid, *block, p.minus) for p, block in zip(content.panels, blocks, strict=True)]
    numbers = [np.extract(~np.isnan(found), found) for found in (each.compressed() for each in cells)]
    together, cmap, scaling = np.concatenate(numbers), colour_map(sheet, content.look), None
    if content.quantities:
        alike = {name: [numbers[i] for i in _places(content.quantities, name)] for name in content.quantities}
        shared = {name: norm_of(values) for name, values in alike.items()}
        norms, words = [shared[name] for name in content.quantities], _words(shared)
    else:
        scaling = scaling_of(numbers, content.look, content.stage)
        norms, words = [scaling.norm(i) for i in range(len(numbers))], scaling.words
    under = sheet.ground if any(isinstance(norm, LogNorm) for norm in norms) else None
    cmap = cmap.with_extremes(bad=nan_colour(cmap), under=under)
    return _Shown(blocks, cells, numbers, together, norms, cmap, scaling, words)


def _places(quantities: Sequence[str], name: str) -> list[int]:
    return [i for i, each in enumerate(quantities) if each == name]


def _words(norms: Mapping[str, Normalize]) -> str:
    """Which quantities have logarithmic colours, of several."""
    names = [name for name, norm in norms.items() if isinstance(norm, LogNorm)]
    of = f" ({', '.join(names)})" if len(norms) > 1 else ""
    return f"colours by the logarithm{of}" if names else ""


def _draw_panels(figure: Picture, grid: Grid, content: _Content, shown: _Shown, note: Note) -> list[Axes]:
    """The cells of all panels in colours, with numbers if they have room, and bars of their own if asked for."""
    look, is_signed, made = content.look, content.look.minus is not None, list[Axes]()
    written = None
    if max(shown.blocks) == (1, 1):
        written = number_format(look.annotate, content.panels, grid, shown.together, is_signed)
    if look.annotate == "yes" and not written:
        note("no numbers in the cells: too many cells, or too small ones")
    for i, (panel, cells, block) in enumerate(zip(content.panels, shown.cells, shown.blocks, strict=True)):
        made.append(axes := figure.add_axes((0, 0, grid.width, grid.height), label=f"panel {i}"))
        image = draw_cells(figure.sheet, axes, panel, cells, block, shown.cmap, shown.norms[i])
        if written:
            write_numbers(axes, image, cells, *written)
        if look.scale == "panel":
            gap, wide = (grid.unit * pixels / DPI / grid.width for pixels in (GAP / 2, BAR_WIDTH))
            beside = axes.inset_axes((1 + gap, 0, wide, 1))
            low, *between, high = ticks_of(shown.norms[i])
            alike = _places(content.quantities, content.quantities[i]) if content.quantities else [i]
            values = np.concatenate([shown.numbers[each] for each in alike])
            draw_bar(beside, image, values, ticks=(low, 0, high) if is_signed else (low, *between, high), format="%.3g")
    return made


def _label_ticks(made: Sequence[Axes], grid: Grid, panels: Sequence[Panel]) -> str:
    """Names of queries left of a row, and of keys below a column, or wherever they differ; says what is left out."""
    steps = {"queries": 1, "keys": 1}
    for i, (axes, panel) in enumerate(zip(made, panels, strict=True)):
        if i % grid.columns == 0 or panels[i - 1].queries != panel.queries:
            steps["queries"] = max(steps["queries"], set_ticks(axes.yaxis, panel.queries, grid.height, grid.unit))
        if i + grid.columns >= len(panels) or panels[i + grid.columns].keys != panel.keys:
            steps["keys"] = max(steps["keys"], set_ticks(axes.xaxis, panel.keys, grid.width, grid.unit))
    return ", ".join(f"one in {step} of the {side} is shown" for side, step in steps.items() if step > 1)


def _draw_legend(figure: Picture, shown: Sequence[Cells], image: AxesImage, footnote: str) -> int:
    """The footnote, and what hatching and the colours of NaN and of 0 below a logarithm mean; gives their lines."""
    handles, ink = [], figure.sheet.ink(0.85)
    if any(cells.mask.any() for cells in shown):
        handles.append(Patch(label="masked", linewidth=0.6, **masked(figure.sheet)))
    if isinstance(image.norm, LogNorm) and any((cells.compressed() == 0).any() for cells in shown):
        handles.append(Patch(label="0", facecolor=figure.sheet.ground, edgecolor=ink, linewidth=0.6))
    if any(np.isnan(cells.compressed()).any() for cells in shown):
        handles.append(Patch(label="NaN", facecolor=nan_colour(image.cmap), edgecolor=ink, linewidth=0.6))
    if handles or footnote:
        look: dict[str, Any] = {"loc": "lower left", "frameon": False, "borderpad": 0, "borderaxespad": 0.9}
        figure.legend(handles=handles, title=footnote or None, alignment="left", ncols=3, **look)
    return bool(handles) + len(footnote.splitlines())


def _unseen(content: _Content, shown: _Shown) -> Iterator[str]:
    """What is no number, what lies beyond the colours, weights that are all pale, and cells that share a pixel."""
    panels, values = content.panels, shown.together
    lost = {i: int(np.isnan(cells.compressed()).sum()) for i, cells in enumerate(shown.cells)}
    labels = dict.fromkeys(panels[i].label for i, count in lost.items() if count)
    if labels:
        yield f"NaN in {sum(lost.values())} {'pixels' if shown.footnote else 'valid cells'} of {', '.join(labels)}"
    finite = values[np.isfinite(values)]
    if finite.size < values.size:
        yield f"{values.size - finite.size} infinite values have the colours of the ends of the scale"
    is_unit = shown.scaling is not None and set(shown.scaling.ends) == {(0.0, 1.0)}
    if is_unit and content.look.vmax is None and finite.size:
        low, high = finite.min(), finite.max()
        if low < -ROUNDING or high > 1 + ROUNDING:
            yield f"values from {low:.3g} to {high:.3g} go beyond the scale 0..1; {SHARED} shows them all"
        elif high < PALE and not shown.words:
            yield f"the largest value shown is {high:.2g}, pale on the scale 0..1; {SHARED} makes differences visible"
    if shown.footnote:
        n, m = max((panel.values.shape for panel in panels), key=lambda shape: shape[0] * shape[1])
        yield f"{n} × {m} cells do not fit: {shown.footnote}"
