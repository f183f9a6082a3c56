"""Heatmaps: the matrices of a stage as a grid of panels that can be compared."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from attncli.errors import InputError, did_you_mean, got
from attncli.show.colours import (
    MASKED,
    ROUNDING,
    Cells,
    Limits,
    Scale,
    clipped,
    extend,
    limits,
    nan_colour,
    text_colours,
    valid_numbers,
)
from attncli.show.figures import DPI, default_settings
from attncli.show.fonts import Typeface, typeface_for
from attncli.show.grids import LETTER, TOKEN_LINE, Slot, place, slots, token_step
from attncli.show.matrices import Panel, block_means, select
from attncli.show.numbers import printable
from attncli.studies.study import Matrices

Annotate = Literal["auto", "yes", "no"]
QUANTITIES = {
    "scores": "score",
    "capped": "score after softcap",
    "weights": "attention weight",
    "dropped": "attention weight after dropout",
}
SHARED = "attncli heatmap --scale shared"
PALE = 0.05  # weights below this cannot be told apart on the scale from 0 to 1

NUMBER_POINTS = 7.0
LEAST_POINTS = {"auto": 6.0, "yes": 3.5}
MOST_NUMBERS = {"auto": 400, "yes": 5000}  # in a picture: each takes a millisecond to draw
NUMBERS_APART = 0.36  # inches between ticks that are numbers, where there are more than FEW
FEW = 4
DIGIT = 0.64  # width of a digit as a part of the font size
NARROWEST_TITLE = 2.0  # inches, however narrow the panel
BAR_WIDTH, SHORTEST_BAR, LONGEST_BAR = 0.12, 1.0, 4.0  # inches
SHORT_BAR = 0.7

TITLES = ("axes.labelsize", "axes.titlesize", "figure.labelsize", "figure.titlesize")
LOOK: dict[str, Any] = {
    **dict.fromkeys(TITLES, 9),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 8),
    **dict.fromkeys(("axes.linewidth", "xtick.major.width", "ytick.major.width"), 0.6),
    **dict.fromkeys(("xtick.major.size", "ytick.major.size"), 3),
    "axes.titlepad": 4,
    "text.parse_math": False,
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


@dataclass(frozen=True)
class Heatmap:
    """The figure, and what its reader should know: what was left out, averaged, cut off or not a number."""

    figure: Figure
    notes: tuple[str, ...] = ()


def heatmap_figure(
    matrices: Matrices,
    style: HeatmapStyle = HeatmapStyle(),
    *,
    labels: Sequence[str] | None = None,
    batches: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
) -> Heatmap:
    """A panel for each batch element and head (rows) and label (columns).

    Args:
        matrices: tensors (n, m), (b, n, m), (b, heads, n, m), or with more axes, all of which count as heads.
        style: colours, limits and numbers.
        labels: which labels, in this order; all where None.
        batches: which batch elements, counted from 0; all where None.
        heads: which heads, counted from 0; all where None.

    Raises:
        InputError: a label, batch element or head that is not there, naming those that are; no stack of matrices.
    """
    panels, left_out = select(matrices, labels, batches, heads)
    scale: Scale = style.scale or ("unit" if matrices.stage == "weights" else "shared")
    quantity = printable(QUANTITIES.get(matrices.stage, matrices.stage))
    before = {printable(label) for label in matrices.with_dropout if matrices.stage == "weights"}
    if {panel.label for panel in panels} <= before:
        quantity, before = f"{quantity} before dropout", set()
    panels = [replace(p, label=f"{p.label} before dropout") if p.label in before else p for p in panels]
    names = (name for p in panels for name in (p.label, *(p.queries or ()), *(p.keys or ())))
    face = typeface_for([quantity, *names])
    with default_settings(LOOK | {"font.family": list(face.families)}):
        figure, notes = _draw(panels, style, scale, quantity, face)
    return Heatmap(figure, tuple(note for note in (left_out, *notes, face.note) if note))


def _draw(
    panels: Sequence[Panel], style: HeatmapStyle, scale: Scale, quantity: str, face: Typeface
) -> tuple[Figure, list[str]]:
    """The figure, and what it does not show as it is."""
    rows = slots(panels, style.annotate == "yes")
    line = [slot for row in rows for slot in row]
    shown = [block_means(slot.panel.values, slot.panel.valid, *slot.block) for slot in line]
    cmap, ends, numbers = matplotlib.colormaps[style.cmap], limits(shown, scale), _numbers(style.annotate, line, shown)
    figure = Figure(figsize=(1, 1), dpi=DPI, facecolor="white")  # one inch, until everything has its place
    figure.suppressComposite = True  # every panel stays an image of its own in SVG and PDF
    one_line = all(LETTER * len(_title(slot.panel, ", ")) <= slot.width for slot in line)
    for slot, cells, own in zip(line, shown, ends, strict=True):
        axes = figure.add_axes((0, 0, slot.width, slot.height))
        slot.axes.append(axes)
        _draw_cells(axes, slot, cells, cmap, own)
        if numbers:
            _write_numbers(axes, cells, text_colours(cells, cmap, own), *numbers)
        axes.set_title(face.drawable(_title(slot.panel, ", " if one_line else "\n", max(slot.width, NARROWEST_TITLE))))
        _label(axes, slot, face)
        if scale == "panel":
            slot.axes.append(figure.add_axes((slot.width + 0.08, 0, BAR_WIDTH, slot.height)))
            _draw_bar(slot.axes[1], cmap, own, [cells])
    bar = None
    if scale != "panel":
        total, least = sum(max(slot.height for slot in row) + 0.4 for row in rows), LETTER * len(quantity)
        bar = figure.add_axes((0, 0, BAR_WIDTH, max(min(total, LONGEST_BAR), SHORTEST_BAR, least)))
        _draw_bar(bar, cmap, ends[0], shown, face.drawable(quantity))
    footnote = _footnote(line)
    place(figure, rows, bar, _legend(figure, shown, cmap, footnote), "" if bar else face.drawable(quantity))
    notes = [_unlabelled(line), *_outside(line, shown, scale)]
    if footnote:
        n, m = max((panel.shape for panel in panels), key=math.prod)
        notes.append(f"{n} × {m} cells are more than there are pixels: {footnote}")
    if style.annotate == "yes" and not numbers:
        notes.append("no numbers in the cells: they are too many, or the cells too small")
    return figure, notes


def _draw_cells(axes: Axes, slot: Slot, cells: Cells, cmap: Colormap, own: Limits) -> None:
    """The matrix in colours, over a hatched ground where it is masked. Blocks of cells stand where the cells would."""
    (n, m), (down, across), (rows, columns) = slot.panel.shape, slot.block, cells.shape
    axes.imshow(
        clipped(cells, own),
        cmap=cmap.with_extremes(bad=nan_colour(cmap)),
        norm=Normalize(*own),
        alpha=(~cells.mask).astype(float),
        aspect="auto",
        interpolation="nearest",
        extent=(-0.5, columns * across - 0.5, rows * down - 0.5, -0.5),
    )
    if cells.mask.any():
        axes.patch.set(**MASKED)
    axes.set(xlim=(-0.5, m - 0.5), ylim=(n - 0.5, -0.5))


def _title(panel: Panel, between: str, room: float = math.inf) -> str:
    """The label, its middle left out where it needs more room (inches), and the place."""
    label, most = panel.label, max(2, int(min(room / LETTER, 1e6)))
    if len(label) > most:
        label = f"{label[: most // 2]}…{label[len(label) - (most - 1) // 2 :]}"
    return between.join(part for part in (label, panel.place) if part)


def _label(axes: Axes, slot: Slot, face: Typeface) -> None:
    """Ticks with tokens or indices; tokens of keys stand upright where they are wider than their cells."""
    n, m = slot.panel.shape
    for axis, names, count, length, labelled in (
        (axes.yaxis, slot.panel.queries, n, slot.height, slot.queries_labelled),
        (axes.xaxis, slot.panel.keys, m, slot.width, slot.keys_labelled),
    ):
        if not labelled:
            axis.set_ticks([])
        elif names is None:
            axis.set_ticks(_numbered(count, length))
        else:
            places = range(0, count, token_step(count, length))
            axis.set_ticks(places, labels=[face.drawable(names[i]) for i in places])
    if slot.keys_labelled and slot.panel.keys:
        widest = max(label.get_window_extent().width for label in axes.get_xticklabels())
        if widest / DPI + LETTER > slot.width / m:
            axes.tick_params(axis="x", rotation=90)


def _numbered(count: int, length: float) -> list[int]:
    """The indices that are labelled along `length` inches: every one, or every second, fifth, tenth, ..."""
    apart = TOKEN_LINE if count <= FEW else max(NUMBERS_APART, LETTER * (len(str(count)) + 1))
    locator = MaxNLocator(max(1, int(length / apart)), steps=[1, 2, 5, 10], integer=True, min_n_ticks=1)
    return [int(tick) for tick in locator.tick_values(-0.5, count - 0.5) if 0 <= tick < count]


def _draw_bar(axes: Axes, cmap: Colormap, own: Limits, shown: Sequence[Cells], quantity: str = "") -> None:
    """A colour bar, with arrows where cells lie beyond its ends; one that is very short has only its ends as ticks."""
    figure: Any = axes.figure
    short = axes.get_position().height < SHORT_BAR  # of a figure of one inch
    ticks: dict[str, Any] = {"ticks": own, "format": "%.2g"} if short else {}
    image = ScalarMappable(Normalize(*own), cmap)
    figure.colorbar(image, cax=axes, extend=extend(shown, own), label=quantity, **ticks)


def _legend(figure: Figure, shown: Sequence[Cells], cmap: Colormap, footnote: str) -> Legend | None:
    """What hatching and the colour of NaN mean, and the footnote."""
    handles = []
    if any(cells.mask.any() for cells in shown):
        handles.append(Patch(label="masked", **MASKED | {"linewidth": 0.6}))
    if any(np.isnan(cells.compressed()).any() for cells in shown):
        handles.append(Patch(label="NaN", facecolor=nan_colour(cmap), edgecolor="0.15", linewidth=0.6))
    if not handles and not footnote:
        return None
    look: dict[str, Any] = {"loc": "lower left", "frameon": False, "borderpad": 0, "borderaxespad": 0.9}
    return figure.legend(handles=handles, title=footnote or None, alignment="left", ncols=2, **look)


def _numbers(annotate: Annotate, line: Sequence[Slot], shown: Sequence[Cells]) -> tuple[str, float] | None:
    """Format and font size of the numbers in all cells; None where none are wanted, or where they have no room."""
    values = valid_numbers(shown)
    if annotate == "no" or not 0 < values.size <= MOST_NUMBERS[annotate] or any(slot.block != (1, 1) for slot in line):
        return None
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    if 0 < largest < 0.005 or largest >= 1e4:
        spec = "z.0e"
    else:
        spec = "z.2f" if largest < 10 else "z.1f" if largest < 100 else "z.0f"
    digits = max(len(_number_text(value, spec)) for value in values.tolist())
    points = NUMBER_POINTS
    for slot in line:
        n, m = slot.panel.shape
        points = min(points, 72 * slot.width / m / digits / DIGIT / 1.15, 72 * slot.height / n / 1.4)
    return (spec, points) if points >= LEAST_POINTS[annotate] else None


def _number_text(value: float, spec: str) -> str:
    """A number as Python formats it, but with a true minus and a short exponent."""
    text = f"{value:{spec}}".replace("inf", "∞").replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    return text.replace("-", "−")


def _write_numbers(axes: Axes, cells: Cells, colours: Any, spec: str, points: float) -> None:
    look: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontsize": points}
    for i, j in np.argwhere(~cells.mask & ~np.isnan(cells.data)).tolist():
        axes.text(j, i, _number_text(float(cells.data[i, j]), spec), color=str(colours[i, j]), **look)


def _footnote(line: Sequence[Slot]) -> str:
    """What a pixel is, where there are more cells than pixels; else empty."""
    blocks = [slot.block for slot in line]
    down, across = (max(sides) for sides in zip(*blocks, strict=True))
    upto = "up to " if len(set(blocks)) > 1 else ""
    return f"each pixel is the mean of {upto}{down} × {across} cells" if down * across > 1 else ""


def _unlabelled(line: Sequence[Slot]) -> str:
    queries = max(token_step(s.panel.shape[0], s.height) if s.panel.queries else 1 for s in line)
    keys = max(token_step(s.panel.shape[1], s.width) if s.panel.keys else 1 for s in line)
    axes = [f"of the queries one in {queries}"] * (queries > 1) + [f"of the keys one in {keys}"] * (keys > 1)
    return f"too many tokens to label them all: {', '.join(axes)}" if axes else ""


def _outside(line: Sequence[Slot], shown: Sequence[Cells], scale: Scale) -> Iterator[str]:
    """What is no number, what lies beyond the colours, and weights that are all pale."""
    lost = [int(np.isnan(cells.compressed()).sum()) for cells in shown]
    labels = dict.fromkeys(slot.panel.label for slot, count in zip(line, lost, strict=True) if count)
    if labels:
        yield f"NaN in {sum(lost)} {'pixels' if _footnote(line) else 'valid cells'} of {', '.join(labels)}"
    values = valid_numbers(shown)
    finite = values[np.isfinite(values)]
    if finite.size < values.size:
        yield f"{values.size - finite.size} infinite values are drawn in the colours of the ends"
    if scale != "unit" or not finite.size:
        return
    low, high = finite.min(), finite.max()
    if low < -ROUNDING or high > 1 + ROUNDING:
        yield f"values from {low:.3g} to {high:.3g} go beyond the scale 0..1; {SHARED} shows them all"
    elif high < PALE:
        yield f"the largest value shown is {high:.2g}, pale on the scale 0..1; {SHARED} tells them apart"
