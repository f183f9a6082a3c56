"""Heatmaps: the matrices of a stage as a grid of panels that can be compared."""

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from matplotlib.colors import Colormap, Normalize, to_rgb
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from attncli.errors import InputError, did_you_mean, got, printable
from attncli.show.figures import DPI, Note, Picture, drawing
from attncli.show.grids import BAR_WIDTH, GAP, LETTER, MARGIN, TOKEN_LINE, Grid, grid_of, place
from attncli.show.matrices import Panel, block_means, select
from attncli.studies.study import Matrices

Annotate = Literal["auto", "yes", "no"]
Scale = Literal["unit", "shared", "panel"]
Cells = np.ma.MaskedArray[Any, Any]
Numbers = np.ndarray[Any, Any]
Limits = tuple[float, float]  # the values at the two ends of the colours
QUANTITIES = {
    "scores": "score",
    "capped": "score after softcap",
    "weights": "attention weight",
    "dropped": "attention weight after dropout",
}
SHARED = "attncli heatmap --scale shared"
PALE = 0.05  # weights below this cannot be told apart on the scale from 0 to 1
ROUNDING = 1e-5  # a weight this little above 1 is a 1
NAN_COLOURS = ("black", "#00b4d8", "#70e000", "#7b2cbf")
MASKED: dict[str, Any] = {"facecolor": "0.9", "edgecolor": "0.62", "hatch": "/////", "hatch_linewidth": 0.5}

NUMBER_POINTS = 7.0
LEAST_POINTS = {"auto": 6.0, "yes": 3.5}
MOST_NUMBERS = {"auto": 400, "yes": 5000}  # in a picture: each takes a millisecond to draw
DIGIT = 0.64  # width of a digit as a part of the font size
FEW = 4  # indices that are labelled however close they are; ticks take their time to draw
NARROWEST_TITLE = 2.0  # inches, however narrow the panel

TITLES = ("axes.labelsize", "axes.titlesize", "figure.labelsize", "figure.titlesize")
LOOK: dict[str, Any] = {
    **dict.fromkeys(TITLES, 9),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 8),
    **dict.fromkeys(("axes.linewidth", "xtick.major.width", "ytick.major.width"), 0.6),
    **dict.fromkeys(("xtick.major.size", "ytick.major.size"), 3),
    "axes.titlepad": 4,
}


@dataclass(frozen=True)
class HeatmapStyle:
    """How heatmaps look. `scale` None is `unit` for weights and `shared` for every other stage.

    `unit` colours 0 to 1 and `shared` the range of all panels, with one colour bar; `panel` gives each panel its own.
    """

    cmap: str = "Reds"
    scale: Scale | None = None
    annotate: Annotate = "auto"

    def __post_init__(self) -> None:
        """Refuses an unknown colour map."""
        if self.cmap not in matplotlib.colormaps:
            question = did_you_mean(self.cmap, matplotlib.colormaps)
            near = question if question.startswith("did") else "such as Reds, viridis or Greys"
            raise InputError.of(got(self.cmap, "expected a colour map of matplotlib", near), ["cmap"])


def heatmap_figure(
    matrices: Matrices,
    style: HeatmapStyle = HeatmapStyle(),
    *,
    labels: Sequence[str] | None = None,
    batches: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    places: Sequence[tuple[int, int]] | None = None,
    note: Note = lambda text: None,
) -> Figure:
    """A panel for each batch element and head (rows) and label (columns).

    Args:
        matrices: tensors (n, m), (b, n, m), (b, heads, n, m), or with more axes, all of which count as heads.
        style: colours, limits and numbers.
        labels: which labels, in this order; all where None.
        batches: which batch elements, counted from 0; all where None.
        heads: which heads, counted from 0; all where None.
        places: which pairs of batch element and head, in this order, in place of `batches` and `heads`.
        note: is called with what the reader should know: what was left out, averaged, cut off or not a number.

    Raises:
        InputError: a label, batch element or head that is not there, naming those that are; no stack of matrices.
    """
    panels = select(matrices, labels, batches, heads, places, note)
    style = replace(style, scale=style.scale or ("unit" if matrices.stage == "weights" else "shared"))
    quantity = printable(QUANTITIES.get(matrices.stage, matrices.stage))
    before = {printable(label) for label in matrices.with_dropout if matrices.stage == "weights"}
    if {panel.label for panel in panels} <= before:
        quantity, before = f"{quantity} before dropout", set()
    panels = [replace(p, label=f"{p.label} before dropout") if p.label in before else p for p in panels]
    texts = [quantity, *(str(name) for p in panels for name in (p.label, *p.queries, *p.keys))]
    with drawing(texts, note, LOOK):
        return _draw(panels, style, quantity, note)


def panels_figure(
    panels: Sequence[Panel],
    quantity: str,
    note: Note = lambda text: None,
    *,
    scale: Scale = "shared",
    sides: tuple[str, str] = ("Batch", "Heads"),
) -> Figure:
    """Panels as they are, with numbers where they have room: of a `shared` scale from 0 to the largest of all.

    Args:
        panels: matrices (batch elements, heads), or of other `sides`: rows and columns.
        quantity: what the figure is, which stands above all panels.
        note: is called with what the reader should know.
        scale: see `HeatmapStyle`.
        sides: what rows and columns are.
    """
    known = sum(panel.values.numel() if panel.valid is None else int(panel.valid.sum()) for panel in panels)
    style = HeatmapStyle(scale=scale, annotate="yes" if known <= MOST_NUMBERS["auto"] else "auto")
    texts = [quantity, *(str(name) for panel in panels for name in (panel.label, *panel.queries, *panel.keys))]
    with drawing(texts, note, LOOK):
        return _draw(panels, style, quantity, note, least=0.0, sides=sides)


def _draw(
    panels: Sequence[Panel],
    style: HeatmapStyle,
    quantity: str,
    note: Note,
    *,
    least: float | None = None,
    sides: tuple[str, str] = ("Queries", "Keys"),
) -> Figure:
    """The panels on one page; a scale that all share begins at `least`, or at the smallest number."""
    grid = grid_of(panels, style.annotate == "yes")
    blocks = [_block(panel, grid) for panel in panels]
    shown = [block_means(p.values, p.valid, *block) for p, block in zip(panels, blocks, strict=True)]
    numbers = [np.extract(~np.isnan(found), found) for found in (cells.compressed() for cells in shown)]
    together = np.concatenate(numbers)
    common = (0.0, 1.0) if style.scale == "unit" else _limits(together if least is None else np.append(together, least))
    cmap = matplotlib.colormaps[style.cmap]
    cmap = cmap.with_extremes(bad=_nan_colour(cmap))
    figure = Picture(figsize=(1, 1), dpi=DPI, facecolor="white")  # one inch, until everything has its place
    figure.suppressComposite = True  # every panel stays an image of its own in SVG and PDF
    written = _written(style.annotate, panels, grid, together) if max(blocks) == (1, 1) else None
    if style.annotate == "yes" and not written:
        note("no numbers in the cells: too many cells, or too small ones")
    made, steps = [], {"queries": 1, "keys": 1}
    for i, (panel, cells, block) in enumerate(zip(panels, shown, blocks, strict=True)):
        ends = _limits(numbers[i]) if style.scale == "panel" else common
        axes = figure.add_axes((0, 0, grid.width, grid.height), label=f"panel {i}")
        made.append(axes)
        image = _draw_cells(axes, panel, cells, block, cmap, ends)
        if written:
            _write_numbers(axes, image, cells, *written)
        letters = int(max(grid.width, NARROWEST_TITLE) / LETTER)
        whole = f"{panel.label}, {panel.place}" if panel.place else panel.label
        axes.set_title(whole if len(whole) <= letters else f"{textwrap.fill(panel.label, letters)}\n{panel.place}")
        if i % grid.columns == 0 or panels[i - 1].queries != panel.queries:
            steps["queries"] = max(steps["queries"], _set_ticks(axes.yaxis, panel.queries, grid.height))
        if i + grid.columns >= len(panels) or panels[i + grid.columns].keys != panel.keys:
            steps["keys"] = max(steps["keys"], _set_ticks(axes.xaxis, panel.keys, grid.width))
        if style.scale == "panel":
            beside = axes.inset_axes((1 + GAP / 2 / DPI / grid.width, 0, BAR_WIDTH / DPI / grid.width, 1))
            _draw_bar(beside, image, numbers[i], ticks=ends, format="%.3g")
    bar = None
    if style.scale != "panel":
        bar = figure.add_axes((0, 0, 1, 1), label="bar")
        _draw_bar(bar, image, together, format="%g")
    footnote = _footnote(blocks)
    place(figure, made, grid.columns, bar, _draw_legend(figure, shown, cmap, footnote), sides)
    x, y = MARGIN / DPI / figure.get_figwidth(), 1 - MARGIN / DPI / figure.get_figheight()
    figure.suptitle(quantity, x=x, y=y, ha="left", va="top")
    thin = [f"one in {step} of the {side} is shown" for side, step in steps.items() if step > 1]
    if thin:
        note(f"too many tokens: {', '.join(thin)}")
    for line in _unseen(panels, shown, together, style, footnote):
        note(line)
    return figure


def _block(panel: Panel, grid: Grid) -> tuple[int, int]:
    """How many rows and columns of cells one pixel has to show."""
    return math.ceil(len(panel.queries) / (grid.height * DPI)), math.ceil(len(panel.keys) / (grid.width * DPI))


def _limits(values: Numbers) -> Limits:
    """The range of values, infinities aside; equal values have the colour in the middle."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    around = 0.0 if low < high else 0.5 * abs(low) or 0.5
    return low - around, high + around


def _draw_cells(
    axes: Axes, panel: Panel, cells: Cells, block: tuple[int, int], cmap: Colormap, ends: Limits
) -> AxesImage:
    """The matrix in colours, over a hatched ground where it is masked. Blocks of cells stand where the cells would.

    Infinities become values just beyond the ends, since matplotlib takes them for NaN.
    """
    (down, across), (rows, columns), (low, high) = block, cells.shape, ends
    if cells.mask.any():
        axes.patch.set(linewidth=0.0, **MASKED)
    image = axes.imshow(
        np.clip(cells.data, 2 * low - high, 2 * high - low),
        cmap=cmap,
        norm=Normalize(*ends),
        alpha=(~cells.mask).astype(float),
        aspect="auto",
        interpolation="nearest",
        extent=(-0.5, columns * across - 0.5, rows * down - 0.5, -0.5),
    )
    axes.set(xlim=(-0.5, len(panel.keys) - 0.5), ylim=(len(panel.queries) - 0.5, -0.5), xticks=[], yticks=[])
    return image


def _nan_colour(cmap: Colormap) -> str:
    """A colour for NaN that no number has: of a few, the farthest from every colour of the map."""
    used = cmap(np.linspace(0, 1, 64))[:, :3]
    return max(NAN_COLOURS, key=lambda name: float(np.abs(used - to_rgb(name)).sum(axis=1).min()))


def _set_ticks(axis: Axis, names: tuple[str, ...] | range, length: float) -> int:
    """Tokens or indices along `length` inches; tokens of keys stand upright where they are wider than their cells.

    Gives every how many of the tokens one is labelled.
    """
    if isinstance(names, range):
        apart = LETTER * (len(str(len(names))) + (4 if len(names) > FEW else 1))
        most = max(1, int(length / apart))
        axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))
        return 1
    step = max(1, math.ceil(TOKEN_LINE * len(names) / length - 0.05))
    axis.set_ticks(range(0, len(names), step), labels=names[::step])
    if isinstance(axis, XAxis):
        widest = max(label.get_window_extent().width for label in axis.get_ticklabels())
        if widest / DPI + LETTER > length / len(names):
            axis.set_tick_params(rotation=90)
    return step


def _draw_bar(axes: Axes, image: AxesImage, values: Numbers, **ticks: Any) -> None:
    """A colour bar, with arrows where values lie beyond its ends."""
    low, high = image.get_clim()
    below, above = (values < low - ROUNDING).any(), (values > high + ROUNDING).any()
    extend = "both" if below and above else "min" if below else "max" if above else "neither"
    image.figure.colorbar(image, cax=axes, extend=extend, **ticks)


def _draw_legend(figure: Figure, shown: Sequence[Cells], cmap: Colormap, footnote: str) -> int:
    """What hatching and the colour of NaN mean, and the footnote; how many lines that takes."""
    handles = []
    if any(cells.mask.any() for cells in shown):
        handles.append(Patch(label="masked", linewidth=0.6, **MASKED))
    if any(np.isnan(cells.compressed()).any() for cells in shown):
        handles.append(Patch(label="NaN", facecolor=_nan_colour(cmap), edgecolor="0.15", linewidth=0.6))
    if handles or footnote:
        look: dict[str, Any] = {"loc": "lower left", "frameon": False, "borderpad": 0, "borderaxespad": 0.9}
        figure.legend(handles=handles, title=footnote or None, alignment="left", ncols=2, **look)
    return bool(handles) + bool(footnote)


def _written(annotate: Annotate, panels: Sequence[Panel], grid: Grid, values: Numbers) -> tuple[str, float] | None:
    """Format and font size of the numbers in all cells; None where none are wanted, or where they have no room."""
    if annotate == "no" or not 0 < values.size <= MOST_NUMBERS[annotate]:
        return None
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    if 0 < largest < 0.005 or largest >= 1e4:
        spec = "z.0e"
    else:
        spec = "z.3f" if 0 < largest < 0.1 else "z.2f" if largest < 10 else "z.1f" if largest < 100 else "z.0f"
    digits = max(len(_number_text(value, spec)) for value in values.tolist())
    n, m = max(len(panel.queries) for panel in panels), max(len(panel.keys) for panel in panels)
    points = min(NUMBER_POINTS, 72 * grid.width / m / digits / DIGIT / 1.15, 72 * grid.height / n / 1.4)
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
    panels: Sequence[Panel], shown: Sequence[Cells], values: Numbers, style: HeatmapStyle, footnote: str
) -> Iterator[str]:
    """What is no number, what lies beyond the colours, weights that are all pale, and cells that share a pixel."""
    lost = {i: int(np.isnan(cells.compressed()).sum()) for i, cells in enumerate(shown)}
    labels = dict.fromkeys(panels[i].label for i, count in lost.items() if count)
    if labels:
        yield f"NaN in {sum(lost.values())} {'pixels' if footnote else 'valid cells'} of {', '.join(labels)}"
    finite = values[np.isfinite(values)]
    if finite.size < values.size:
        yield f"{values.size - finite.size} infinite values have the colours of the ends of the scale"
    if style.scale == "unit" and finite.size:
        low, high = finite.min(), finite.max()
        if low < -ROUNDING or high > 1 + ROUNDING:
            yield f"values from {low:.3g} to {high:.3g} go beyond the scale 0..1; {SHARED} shows them all"
        elif high < PALE:
            yield f"the largest value shown is {high:.2g}, pale on the scale 0..1; {SHARED} makes differences visible"
    if footnote:
        n, m = max((panel.values.shape for panel in panels), key=lambda shape: shape[0] * shape[1])
        yield f"{n} × {m} cells do not fit: {footnote}"
