"""One panel of a heatmap: its cells in colours, its ticks, the numbers in its cells, and colour bars."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from matplotlib.colors import Colormap, LogNorm, Normalize, to_rgb
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from attncli.config.looks import Annotate
from attncli.show.grids import LETTER, TOKEN_LINE, Grid
from attncli.show.matrices import Panel
from attncli.show.scales import Numbers, extend_of, within
from attncli.show.themes import DPI, Sheet

Cells = np.ma.MaskedArray[Any, Any]
NAN_COLOURS = ("black", "#00b4d8", "#70e000", "#7b2cbf")
NUMBER_POINTS = 7.0
LEAST_POINTS = {"auto": 6.0, "yes": 3.5}
MOST_NUMBERS = {"auto": 400, "yes": 5000}  # in a picture: each takes a millisecond to draw
DIGIT = 0.64  # width of a digit as a part of the font size
FEW = 4  # indices that are labelled however close they are; ticks take their time to draw


def draw_cells(
    sheet: Sheet,
    axes: Axes,
    panel: Panel,
    cells: Cells,
    block: tuple[int, int],
    cmap: Colormap,
    norm: Normalize,
) -> AxesImage:
    """The matrix in colours, over a hatched ground where it is masked. Blocks of cells stand where the cells would.

    Infinities, and zeros of logarithmic colours, become values just beyond the ends: matplotlib takes them for NaN.
    """
    (down, across), (rows, columns) = block, cells.shape
    top, left = (names.start if isinstance(names, range) else 0 for names in (panel.queries, panel.keys))
    if cells.mask.any():
        axes.patch.set(linewidth=0.0, **masked(sheet))
    image = axes.imshow(
        within(norm, cells.data),
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


def masked(sheet: Sheet) -> dict[str, Any]:
    """Hatching where a cell is masked."""
    return {"facecolor": sheet.ink(0.1), "edgecolor": sheet.ink(0.38), "hatch": "/////"}


def nan_colour(cmap: Colormap) -> str:
    """A colour for NaN that no number has: of a few, the farthest from every colour of the map."""
    used = cmap(np.linspace(0, 1, 64))[:, :3]
    return max(NAN_COLOURS, key=lambda name: float(np.abs(used - to_rgb(name)).sum(axis=1).min()))


def set_ticks(axis: Axis, names: tuple[str, ...] | range, length: float, unit: float) -> int:
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


def draw_bar(axes: Axes, image: AxesImage, values: Numbers, **ticks: Any) -> None:
    """A colour bar, with arrows where values lie beyond its ends; zeros below logarithmic colours are in the legend."""
    shown = values[values != 0] if isinstance(image.norm, LogNorm) else values
    norm: Any = image.norm
    image.figure.colorbar(image, cax=axes, extend=extend_of(norm, shown), **ticks)


def thin_ticks(bar: Axes, image: AxesImage, apart: float) -> None:
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


def number_format(
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


def write_numbers(axes: Axes, image: AxesImage, cells: Cells, spec: str, points: float) -> None:
    """Black or white in every cell, whichever has the higher contrast (WCAG 2.2 luminance)."""
    array: Any = image.get_array()
    rgb = np.asarray(image.to_rgba(array))[..., :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    colours = np.where(linear @ (0.2126, 0.7152, 0.0722) > 0.179, "black", "white")
    look: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontsize": points}
    for i, j in np.argwhere(~cells.mask & ~np.isnan(cells.data)).tolist():
        axes.text(j, i, _number_text(float(cells.data[i, j]), spec), color=str(colours[i, j]), **look)
