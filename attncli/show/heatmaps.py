"""Heatmaps: the matrices of a stage as a grid of panels that can be compared."""

import math
import re
import textwrap
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from matplotlib.colors import Colormap, LogNorm, Normalize, to_rgb
from matplotlib.image import AxesImage
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from attncli.config.looks import Annotate, HeatmapLook, Look, Scale
from attncli.errors import InputError, below, did_you_mean, got, printable
from attncli.show.colours import PALE, ROUNDING, Limits, Numbers, Scaling, scaling_of
from attncli.show.figures import Note, Picture, drawing
from attncli.show.grids import BAR_WIDTH, GAP, LETTER, MARGIN, TOKEN_LINE, Grid, grid_of, place
from attncli.show.matrices import Panel, block_means, differences, select, zoom
from attncli.show.panels import folded
from attncli.show.themes import DPI, Sheet, sheet_of
from attncli.studies.study import Matrices

Cells = np.ma.MaskedArray[Any, Any]
QUANTITIES = {
    "scores": "score",
    "capped": "score after softcap",
    "weights": "attention weight",
    "dropped": "attention weight after dropout",
}
SHARED = "attncli heatmap --scale shared"
PLAIN = HeatmapLook()
NAN_COLOURS = ("black", "#00b4d8", "#70e000", "#7b2cbf")

NUMBER_POINTS = 7.0
LEAST_POINTS = {"auto": 6.0, "yes": 3.5}
MOST_NUMBERS = {"auto": 400, "yes": 5000}  # in a picture: each takes a millisecond to draw
DIGIT = 0.64  # width of a digit as a part of the font size
FEW = 4  # indices that are labelled however close they are; ticks take their time to draw
MOST_DRAWINGS = 5  # until panels fill a page of a given size
NARROWEST_PAGE = 3.5  # inches, however narrow all panels
NARROWEST_TITLE = 2.0  # inches, however narrow the panel


class LabelWrapper(textwrap.TextWrapper):
    """Ends lines after spaces and underscores."""

    wordsep_re = re.compile(r"(\s+|[^\s_]*_+)")


def heatmap_figure(
    matrices: Matrices,
    look: HeatmapLook = PLAIN,
    *,
    labels: Sequence[str] | None = None,
    batches: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    places: Sequence[tuple[int, int]] | None = None,
    note: Note = lambda text: None,
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
    return stage_figure(panels, matrices.stage, look, note, before_dropout=before)


def stage_figure(
    panels: Sequence[Panel], stage: str, look: HeatmapLook, note: Note, *, before_dropout: Set[str] = frozenset()
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
    with drawing(_texts(panels, look.title or quantity), note, look) as sheet:
        return _draw(sheet, panels, look, quantity, note, stage=stage)


def runs_figure(
    a: Matrices,
    b: Matrices,
    labels: Sequence[str],
    places: Sequence[tuple[int, int]],
    look: HeatmapLook = PLAIN,
    note: Note = lambda text: None,
) -> Picture:
    """Matrices of two runs, `b` - `a`, for labels that both have in one shape, at these batch elements and heads."""
    ours, theirs = (select(each, labels, None, None, places, told) for each, told in ((a, _ignore), (b, note)))
    panels = [
        replace(q, valid=None if p.valid is None or q.valid is None else p.valid | q.valid, minus=p.values)
        for p, q in zip(ours, theirs, strict=True)
    ]
    quantity, look = f"{QUANTITIES[b.stage]}, B − A", look.model_copy(update={"minus": "A"})
    with drawing(_texts(panels, look.title or quantity), note, look) as sheet:
        return _draw(sheet, panels, look, quantity, note, stage=b.stage)


def _ignore(text: str) -> None:
    """Takes a note that was made already."""


def panels_figure(
    panels: Sequence[Panel],
    quantity: str,
    note: Note = lambda text: None,
    *,
    scale: Scale = "shared",
    sides: tuple[str, str] = ("Batch", "Heads"),
    look: HeatmapLook = PLAIN,
) -> Picture:
    """Panels as they are, with numbers where they have room: of a `shared` scale from 0 to the largest of all.

    Args:
        panels: matrices (batch elements, heads), or of other `sides`: rows and columns.
        quantity: what the figure is, which stands above all panels.
        note: is called with what the reader should know.
        scale: one for all panels, or one for each.
        sides: what rows and columns are.
        look: theme, sizes and title; colours and ranges are not for these.
    """
    known = sum(panel.values.numel() if panel.valid is None else int(panel.valid.sum()) for panel in panels)
    annotate: Annotate = "yes" if known <= MOST_NUMBERS["auto"] else "auto"
    plain = HeatmapLook(**{name: getattr(look, name) for name in Look.model_fields}, scale=scale, annotate=annotate)
    with drawing(_texts(panels, look.title or quantity), note, plain) as sheet:
        return _draw(sheet, panels, plain, quantity, note, least=0.0, sides=sides)


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


def _texts(panels: Sequence[Panel], quantity: str) -> list[str]:
    return [quantity, *(str(name) for panel in panels for name in (panel.label, *panel.queries, *panel.keys))]


def _draw(
    sheet: Sheet,
    panels: Sequence[Panel],
    look: HeatmapLook,
    quantity: str,
    note: Note,
    *,
    stage: str = "",
    least: float | None = None,
    sides: tuple[str, str] = ("Queries", "Keys"),
) -> Picture:
    """The panels on one page; a scale that all share begins at `least`, or at the smallest number.

    On a page of a given size they are drawn again until they fill it, since texts take more or less of it.
    """
    grid, notes = grid_of(panels, look.annotate == "yes", sheet), list[str]()
    figure = _draw_on(grid, sheet, panels, look, quantity, notes.append, stage, least, sides)
    for step in range(MOST_DRAWINGS if sheet.size is not None else 0):
        needed, page = figure.get_size_inches().tolist(), list(sheet.size or ())
        if max(abs(a - b) for a, b in zip(needed, page, strict=True)) * DPI < 1:
            break
        grid, notes = grid.fitted(len(panels), page, needed, step < MOST_DRAWINGS // 2), []
        figure = _draw_on(grid, sheet, panels, look, quantity, notes.append, stage, least, sides)
    if sheet.size is not None:
        wide, high = sheet.size
        needed = figure.get_size_inches()
        if (needed > np.array(sheet.size) + 1.5 / DPI).any():
            enough = " x ".join(
                f"{max(side, math.ceil(10 * least) / 10 + 0.5):g}"
                for side, least in zip(sheet.size, needed, strict=True)
            )
            notes.append(
                f"the texts of the heatmaps do not fit into {wide:g} x {high:g} inches; about {enough} would do"
            )
        figure.set_size_inches(wide, high)
    figure.dpi = sheet.dpi
    for text in notes:
        note(text)
    return figure


def _draw_on(
    grid: Grid,
    sheet: Sheet,
    panels: Sequence[Panel],
    look: HeatmapLook,
    quantity: str,
    note: Note,
    stage: str,
    least: float | None,
    sides: tuple[str, str],
) -> Picture:
    """The panels in a grid, on a page of the size that they need, which is laid out with DPI pixels per inch."""
    blocks = [_block(panel, grid, sheet.dpi) for panel in panels]
    shown = [block_means(p.values, p.valid, *block, p.minus) for p, block in zip(panels, blocks, strict=True)]
    numbers = [np.extract(~np.isnan(found), found) for found in (cells.compressed() for cells in shown)]
    together = np.concatenate(numbers)
    scaling = scaling_of(numbers, look, stage, least)
    cmap = colour_map(sheet, look)
    cmap = cmap.with_extremes(bad=_nan_colour(cmap), under=sheet.ground if scaling.colours == "log" else None)
    figure = Picture(sheet, 1, 1)
    figure.set_size_inches(1, 1)  # until everything has its place
    figure.dpi = DPI
    figure.suppressComposite = True  # every panel stays an image of its own in SVG and PDF
    is_signed = look.minus is not None
    written = _written(look.annotate, panels, grid, together, is_signed) if max(blocks) == (1, 1) else None
    if look.annotate == "yes" and not written:
        note("no numbers in the cells: too many cells, or too small ones")
    made, steps = [], {"queries": 1, "keys": 1}
    for i, (panel, cells, block) in enumerate(zip(panels, shown, blocks, strict=True)):
        axes = figure.add_axes((0, 0, grid.width, grid.height), label=f"panel {i}")
        axes.grid(False)
        axes.spines[:].set_visible(True)
        made.append(axes)
        image = _draw_cells(sheet, axes, panel, cells, block, cmap, scaling.norm(i), scaling.ends[i])
        if written:
            _write_numbers(axes, image, cells, *written)
        narrowest = NARROWEST_TITLE if sheet.size is None else 0.0
        letters = max(8, int(max(grid.width, narrowest) / LETTER / grid.unit))
        whole = f"{panel.label}, {panel.place}" if panel.place else panel.label
        lines = [*LabelWrapper(letters).wrap(panel.label), *filter(None, [panel.place])]
        axes.set_title(whole if len(whole) <= letters else "\n".join(lines))
        if i % grid.columns == 0 or panels[i - 1].queries != panel.queries:
            steps["queries"] = max(steps["queries"], _set_ticks(axes.yaxis, panel.queries, grid.height, grid.unit))
        if i + grid.columns >= len(panels) or panels[i + grid.columns].keys != panel.keys:
            steps["keys"] = max(steps["keys"], _set_ticks(axes.xaxis, panel.keys, grid.width, grid.unit))
        if look.scale == "panel":
            gap, wide = (grid.unit * pixels / DPI / grid.width for pixels in (GAP / 2, BAR_WIDTH))
            beside = axes.inset_axes((1 + gap, 0, wide, 1))
            ends = image.get_clim()
            _draw_bar(beside, image, numbers[i], ticks=(ends[0], 0, ends[1]) if is_signed else ends, format="%.3g")
    bar, footnotes = None, [_footnote(blocks)]
    if look.scale == "panel":
        footnotes.append(scaling.words)
    else:
        bar = figure.add_axes((0, 0, 1, 1), label="bar")
        _draw_bar(bar, image, together, ticks=scaling.ticks, format="%g")
        if scaling.words or is_signed or look.title:
            bar.set_ylabel("\n".join(filter(None, (quantity, scaling.words))))
    footnote = "\n".join(filter(None, footnotes))
    length = sheet.size[0] if sheet.size is not None else max(grid.columns * grid.width, NARROWEST_PAGE)
    title = folded(look.title or quantity, length - MARGIN / DPI, sheet)
    place(figure, made, grid.columns, bar, _draw_legend(figure, shown, image, footnote), sides, len(title.splitlines()))
    if bar and scaling.ticks is not None:
        _thin_ticks(bar, image, TOKEN_LINE * grid.unit * DPI)
    margin = grid.unit * MARGIN / DPI
    x, y = margin / figure.get_figwidth(), 1 - margin / figure.get_figheight()
    figure.suptitle(title, x=x, y=y, ha="left", va="top")
    thin = [f"one in {step} of the {side} is shown" for side, step in steps.items() if step > 1]
    if thin:
        note(f"too many tokens: {', '.join(thin)}")
    for line in _unseen(panels, shown, together, scaling, look, footnotes[0]):
        note(line)
    return figure


def _block(panel: Panel, grid: Grid, dpi: float) -> tuple[int, int]:
    """How many rows and columns of cells one pixel has to show."""
    return math.ceil(len(panel.queries) / (grid.height * dpi)), math.ceil(len(panel.keys) / (grid.width * dpi))


def _draw_cells(
    sheet: Sheet,
    axes: Axes,
    panel: Panel,
    cells: Cells,
    block: tuple[int, int],
    cmap: Colormap,
    norm: Normalize,
    ends: Limits,
) -> AxesImage:
    """The matrix in colours, over a hatched ground where it is masked. Blocks of cells stand where the cells would.

    Infinities, and zeros of logarithmic colours, become values just beyond the ends: matplotlib takes them for NaN.
    """
    (down, across), (rows, columns), (low, high) = block, cells.shape, ends
    top, left = (names.start if isinstance(names, range) else 0 for names in (panel.queries, panel.keys))
    if cells.mask.any():
        axes.patch.set(linewidth=0.0, **_masked(sheet))
    image = axes.imshow(
        np.clip(cells.data, low / 2 if isinstance(norm, LogNorm) else 2 * low - high, 2 * high - low),
        cmap=cmap,
        norm=norm,
        alpha=(~cells.mask).astype(float),
        aspect="auto",
        interpolation="nearest",
        extent=(left - 0.5, left + columns * across - 0.5, top + rows * down - 0.5, top - 0.5),
    )
    axes.set(xlim=(left - 0.5, left + len(panel.keys) - 0.5), ylim=(top + len(panel.queries) - 0.5, top - 0.5))
    axes.set(xticks=[], yticks=[])
    return image


def _masked(sheet: Sheet) -> dict[str, Any]:
    """Hatching where a cell is masked."""
    return {"facecolor": sheet.ink(0.1), "edgecolor": sheet.ink(0.38), "hatch": "/////"}


def _nan_colour(cmap: Colormap) -> str:
    """A colour for NaN that no number has: of a few, the farthest from every colour of the map."""
    used = cmap(np.linspace(0, 1, 64))[:, :3]
    return max(NAN_COLOURS, key=lambda name: float(np.abs(used - to_rgb(name)).sum(axis=1).min()))


def _set_ticks(axis: Axis, names: tuple[str, ...] | range, length: float, unit: float) -> int:
    """Tokens or indices along `length` inches; tokens of keys stand upright where they are wider than their cells.

    Gives every how many of the tokens one is labelled.
    """
    if isinstance(names, range):
        apart = unit * LETTER * (len(str(names.stop)) + (4 if len(names) > FEW else 1))
        most = max(1, int(length / apart))
        between = length * (len(names) - 1) / len(names)
        if most == 1 and len(names) > 1 and between > unit * max(LETTER * (len(str(names.stop)) + 1), TOKEN_LINE):
            axis.set_ticks([names.start, names.stop - 1])
            return 1
        axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))
        return 1
    step = max(1, math.ceil(unit * TOKEN_LINE * len(names) / length - 0.05))
    axis.set_ticks(range(0, len(names), step), labels=names[::step])
    if isinstance(axis, XAxis):
        widest = max(label.get_window_extent().width for label in axis.get_ticklabels())
        if widest / DPI + unit * LETTER > length / len(names):
            axis.set_tick_params(rotation=90)
    return step


def _draw_bar(axes: Axes, image: AxesImage, values: Numbers, **ticks: Any) -> None:
    """A colour bar, with arrows where values lie beyond its ends; zeros below logarithmic colours are in the legend."""
    low, high = image.get_clim()
    slack = ROUNDING * (high - low)
    is_below = values < low * (1 - ROUNDING) if isinstance(image.norm, LogNorm) else values < low - slack
    below, above = (is_below & ((values != 0) | (low <= 0))).any(), (values > high + slack).any()
    extend = "both" if below and above else "min" if below else "max" if above else "neither"
    image.figure.colorbar(image, cax=axes, extend=extend, **ticks)


def _thin_ticks(bar: Axes, image: AxesImage, apart: float) -> None:
    """Keep as many ticks of a colour bar as are so many pixels apart, its ends first."""
    colorbar: Any = image.colorbar
    ticks = sorted(colorbar.get_ticks())
    places = dict(zip(ticks, bar.transData.transform([(0, tick) for tick in ticks])[:, 1].tolist(), strict=True))
    kept = list[float]()
    for tick in dict.fromkeys([*ticks[:1], *ticks[:0:-1]]):
        if all(abs(places[tick] - places[other]) >= apart for other in kept):
            kept.append(tick)
    if len(kept) < len(ticks):
        colorbar.set_ticks(sorted(kept))


def _draw_legend(figure: Picture, shown: Sequence[Cells], image: AxesImage, footnote: str) -> int:
    """What hatching, NaN's colour and that of 0 beside a logarithm mean, and the footnote; how many lines it takes."""
    handles, ink = [], figure.sheet.ink(0.85)
    if any(cells.mask.any() for cells in shown):
        handles.append(Patch(label="masked", linewidth=0.6, **_masked(figure.sheet)))
    if isinstance(image.norm, LogNorm) and any((cells.compressed() == 0).any() for cells in shown):
        handles.append(Patch(label="0", facecolor=figure.sheet.ground, edgecolor=ink, linewidth=0.6))
    if any(np.isnan(cells.compressed()).any() for cells in shown):
        handles.append(Patch(label="NaN", facecolor=_nan_colour(image.cmap), edgecolor=ink, linewidth=0.6))
    if handles or footnote:
        look: dict[str, Any] = {"loc": "lower left", "frameon": False, "borderpad": 0, "borderaxespad": 0.9}
        figure.legend(handles=handles, title=footnote or None, alignment="left", ncols=3, **look)
    return bool(handles) + len(footnote.splitlines())


def _written(
    annotate: Annotate, panels: Sequence[Panel], grid: Grid, values: Numbers, is_signed: bool
) -> tuple[str, float] | None:
    """Format and font size of the numbers in all cells; None where none are wanted, or where they have no room."""
    if annotate == "no" or not 0 < values.size <= MOST_NUMBERS[annotate]:
        return None
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    if 0 < largest < 0.005 or largest >= 1e4:
        spec = "z.0e"
    else:
        spec = "z.3f" if 0 < largest < 0.1 else "z.2f" if largest < 10 else "z.1f" if largest < 100 else "z.0f"
    spec = "+" * is_signed + spec
    digits = max(len(_number_text(value, spec)) for value in values.tolist())
    n, m = max(len(panel.queries) for panel in panels), max(len(panel.keys) for panel in panels)
    points = min(NUMBER_POINTS * grid.unit, 72 * grid.width / m / digits / DIGIT / 1.15, 72 * grid.height / n / 1.4)
    return (spec, points) if points >= LEAST_POINTS[annotate] else None


def _number_text(value: float, spec: str) -> str:
    """A number as Python formats it, but with a true minus and a short exponent."""
    text = f"{value:{spec}}".replace("inf", "∞").replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    return text.replace("-", "−")


def _write_numbers(axes: Axes, image: AxesImage, cells: Cells, spec: str, points: float) -> None:
    """Black or white in every cell, whichever has the higher contrast (WCAG 2.2 luminance)."""
    array: Any = image.get_array()
    rgb = np.asarray(image.to_rgba(array))[..., :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    colours = np.where(linear @ (0.2126, 0.7152, 0.0722) > 0.179, "black", "white")
    look: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontsize": points}
    for i, j in np.argwhere(~cells.mask & ~np.isnan(cells.data)).tolist():
        axes.text(j, i, _number_text(float(cells.data[i, j]), spec), color=str(colours[i, j]), **look)


def _footnote(blocks: Sequence[tuple[int, int]]) -> str:
    """What a pixel is, where there are more cells than pixels; else empty."""
    down, across = (max(sides) for sides in zip(*blocks, strict=True))
    upto = "up to " if len(set(blocks)) > 1 else ""
    return f"each pixel is the mean of {upto}{down} × {across} cells" if down * across > 1 else ""


def _unseen(
    panels: Sequence[Panel],
    shown: Sequence[Cells],
    values: Numbers,
    scaling: Scaling,
    look: HeatmapLook,
    footnote: str,
) -> Iterator[str]:
    """What is no number, what lies beyond the colours, weights that are all pale, and cells that share a pixel."""
    lost = {i: int(np.isnan(cells.compressed()).sum()) for i, cells in enumerate(shown)}
    labels = dict.fromkeys(panels[i].label for i, count in lost.items() if count)
    if labels:
        yield f"NaN in {sum(lost.values())} {'pixels' if footnote else 'valid cells'} of {', '.join(labels)}"
    finite = values[np.isfinite(values)]
    if finite.size < values.size:
        yield f"{values.size - finite.size} infinite values have the colours of the ends of the scale"
    if set(scaling.ends) == {(0.0, 1.0)} and look.vmax is None and finite.size:
        low, high = finite.min(), finite.max()
        if low < -ROUNDING or high > 1 + ROUNDING:
            yield f"values from {low:.3g} to {high:.3g} go beyond the scale 0..1; {SHARED} shows them all"
        elif high < PALE and scaling.colours == "linear":
            yield f"the largest value shown is {high:.2g}, pale on the scale 0..1; {SHARED} makes differences visible"
    if footnote:
        n, m = max((panel.values.shape for panel in panels), key=lambda shape: shape[0] * shape[1])
        yield f"{n} × {m} cells do not fit: {footnote}"
