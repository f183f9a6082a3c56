"""The cells of a heatmap: coloured, hatched where masked, with numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, to_rgb

from attncli.config.looks import HeatmapLook
from attncli.core.numbers import cell_decimals, number
from attncli.errors import InputError, did_you_mean, got
from attncli.show.pictures.matrices import Heatmap, Panel
from attncli.show.pictures.panels import Size
from attncli.show.pictures.scales import ColourScale
from attncli.show.pictures.themes import THEMES, Sheet

Cells = np.ma.MaskedArray[Any, Any]
NAN_COLOURS = ("black", "#00b4d8", "#70e000", "#7b2cbf")
NUMBER_POINTS, DIGIT = 8.0, 0.64  # size of numbers in cells, and width of a digit relative to it
MOST_NUMBERS = {"auto": 400, "yes": 5000, "no": 0}  # in a picture; each takes a millisecond to draw


def colour_map(sheet: Sheet, look: HeatmapLook, *, is_diverging: bool = False) -> Colormap:
    """Return the colour map of a look, by default the theme's sequential map or its diverging map.

    Raises:
        InputError: matplotlib has no colour map of this name.
    """
    theme = THEMES[sheet.theme]
    name = look.cmap or (theme.diverging if is_diverging else theme.colour_map)
    if name not in matplotlib.colormaps:
        question = did_you_mean(name, matplotlib.colormaps)
        near = question if question.startswith("did") else "such as Reds, viridis or Greys"
        raise InputError.of(got(name, "expected a colour map of matplotlib", near), ["cmap"])
    return matplotlib.colormaps[name]


@dataclass(frozen=True)
class DrawnPanel:
    """A panel in the grid, with its averaged cells, the rows and columns of a block, and the scale of its group."""

    axes: Axes
    panel: Panel
    cells: Cells
    block: tuple[int, int]
    group: tuple[str, str | int]
    scale: ColourScale

    @property
    def place(self) -> tuple[int, int]:
        """The row and the column of the grid."""
        spec: Any = self.axes.get_subplotspec()
        return spec.rowspan.start, spec.colspan.start

    @property
    def inches(self) -> Size:
        """The width and height of the axes."""
        box, figure = self.axes.get_window_extent(), self.axes.get_figure(root=True)
        assert figure is not None
        return box.width / figure.dpi, box.height / figure.dpi


def draw_cells(sheet: Sheet, look: HeatmapLook, tile: DrawnPanel) -> None:
    """Draw a matrix as colours, hatched where it is masked, with axes in indices of cells."""
    axes, panel, cells, scale = tile.axes, tile.panel, tile.cells, tile.scale
    (down, across), (rows, columns) = tile.block, cells.shape
    top, left = (names.start if isinstance(names, range) else 0 for names in (panel.queries, panel.keys))
    if cells.mask.any():
        axes.patch.set(linewidth=0.0, **masked_look(sheet))
    cmap = colour_map(sheet, look, is_diverging=scale.is_diverging)
    has_no_zero = scale.kind == "log" and not scale.is_diverging
    axes.imshow(
        scale.clip(cells.data),  # matplotlib draws infinities, and zeros on a logarithmic scale, as NaN
        cmap=cmap.with_extremes(bad=_nan_colour(cmap), under=sheet.ground if has_no_zero else None),
        norm=scale.norm,
        alpha=(~cells.mask).astype(float),
        aspect="auto",
        interpolation="nearest",
        extent=(left - 0.5, left + columns * across - 0.5, top + rows * down - 0.5, top - 0.5),
    )
    axes.set(xlim=(left - 0.5, left + len(panel.keys) - 0.5), ylim=(top + len(panel.queries) - 0.5, top - 0.5))


def masked_look(sheet: Sheet) -> dict[str, Any]:
    """Return the hatching of masked cells."""
    return {"facecolor": sheet.ink(0.1), "edgecolor": sheet.ink(0.38), "hatch": "/////"}


def _nan_colour(cmap: Colormap) -> str:
    """Return the colour of NaN: the candidate farthest from all colours of the map."""
    used = cmap(np.linspace(0, 1, 64))[:, :3]
    return max(NAN_COLOURS, key=lambda name: float(np.abs(used - to_rgb(name)).sum(axis=1).min()))


def number_format(content: Heatmap, look: HeatmapLook, tiles: Sequence[DrawnPanel], unit: float) -> str | None:
    """Return the format of the numbers in cells; None if they are turned off or do not fit."""
    values = np.concatenate([tile.cells.compressed() for tile in tiles])
    values = values[~np.isnan(values)]
    if look.annotate == "no" or not 0 < values.size <= MOST_NUMBERS[look.annotate]:
        return None
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    decimals = cell_decimals(largest)
    spec = "" if not content.stage else "z.0e" if decimals is None else f"z.{decimals}f"
    spec = f"+{spec}" if content.is_difference else spec
    points = NUMBER_POINTS * unit
    width = DIGIT * points * max(len(_number_text(value, spec)) for value in values.tolist())
    fits = all(
        72 * tile.inches[0] / len(tile.panel.keys) > width
        and 72 * tile.inches[1] / len(tile.panel.queries) > 1.3 * points
        for tile in tiles
    )
    return spec if fits else None


def _number_text(value: float, spec: str) -> str:
    """Return a number formatted by `spec`, by default as in tables, with the sign `−` and a short exponent."""
    text = f"{value:{spec}}" if spec else number(value, 3)
    text = text.replace("inf", "∞").replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    return text.replace("-", "−")


def write_numbers(tile: DrawnPanel, spec: str, points: float) -> None:
    """Write numbers into cells, in black or white for the higher contrast (WCAG 2.2)."""
    axes, cells = tile.axes, tile.cells
    image: Any = axes.images[0]
    rgb = np.asarray(image.to_rgba(image.get_array()))[..., :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    colours = np.where(linear @ (0.2126, 0.7152, 0.0722) > 0.179, "black", "white")
    look: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontsize": points}
    for i, j in np.argwhere(~cells.mask & ~np.isnan(cells.data)).tolist():
        axes.text(j, i, _number_text(float(cells.data[i, j]), spec), color=str(colours[i, j]), **look)
