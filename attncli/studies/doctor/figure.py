"""doctor.png: layers and heads, with a letter for each kind of finding, the stronger the further beyond its limit."""

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby, product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch, Rectangle

from attncli.config.looks import Look
from attncli.core.numbers import number
from attncli.errors import printable
from attncli.results import Result
from attncli.show.pictures.figures import Note, Picture, drawing
from attncli.show.pictures.looks import PALETTE
from attncli.show.pictures.panels import check_panel, draw_legend, grid_columns, lay_out, page
from attncli.show.pictures.themes import THIN, Sheet, mixed
from attncli.studies.doctor.checks import CHECKS, Check
from attncli.studies.doctor.columns import source_name
from attncli.studies.doctor.letters import Cell, grid_cells, heads_in

CELL = (0.34, 0.24)  # inches of a cell
SMALLEST = (2.4, 0.5)  # inches of a panel
AROUND = (0.9, 0.8)  # inches beside and below a panel for its labels
LEAST = (1.6, 1.1)  # em; smallest readable cell
PER_LINE = 3  # letters of a cell
ORDER = (12, 1, 8, 0, 3, 5, 2, 4, 7, 6)  # of the checks' colours in the palette: red ones for faults
COLOURS = [PALETTE[index] for index in ORDER]
COLOURS.insert(3, ("#b0302a", "#ff8f7a"))  # of the check `batch`
SHARES = (0.12, 0.6)  # of the colour of a check in the background, at its limit and at the most extreme value
EMPTY = 0.04  # share of the text colour in the background of cells without findings


def figures(result: Result, note: Note, look: Look) -> Mapping[str, Callable[[], Picture]]:
    """Return a mapping from `doctor` to the function that draws the picture."""
    return {"doctor": partial(doctor_figure, result, note, look)}


def doctor_figure(result: Result, note: Note, look: Look) -> Picture:
    """Return a picture with a panel (layers, heads) for each label, and the letters of the findings in the cells.

    A cell has the colour of its check, stronger for values further beyond the limit; with several findings it has a
    strip for each. If layers have different masks, lines part these, and the masks stand on the right.
    """
    cells = grid_cells(result)
    if look.panel is not None:
        check_panel(look.panel, len(cells), "doctor")
        cells = dict([[*cells.items()][look.panel - 1]])
    rows = max(len(layers) for layers in cells.values())
    columns = max(len(heads_in(layers)) for layers in cells.values())
    values = dict[str, list[float]]()  # by letter
    for cell in (cell for layers in cells.values() for heads in layers.values() for cell in heads.values()):
        for letter, value in cell.items():
            values.setdefault(letter, []).append(value)
    masks = {str(result.layers[name]): summary["mask"] for name, summary in result.summaries.items()}
    shades = {check.letter: Shades(check, values[check.letter]) for check in CHECKS if check.letter in values}
    with drawing(cells, note, look, result.about) as sheet:
        shape = max(columns * CELL[0], SMALLEST[0]), max(rows * CELL[1], SMALLEST[1])
        title = f"{source_name(result)}: attention heads"
        count = grid_columns(len(cells), shape, sheet)
        size = (count * (shape[0] + AROUND[0]), math.ceil(len(cells) / count) * (shape[1] + AROUND[1]))
        figure = page(sheet, size, title)
        axes = list(figure.subplots(math.ceil(len(cells) / count), count, squeeze=False).flat)
        for spare in axes[len(cells) :]:
            spare.remove()
        for panel, (label, layers) in zip(axes, cells.items(), strict=False):
            _draw(panel, sheet, layers, shades)
            _draw_masks(panel, sheet, [masks.get(layer, "") for layer in layers] if len({*masks.values()}) > 1 else [])
            panel.set_title(printable(label) if len(cells) > 1 else "")
        patches = [Patch(facecolor=shade.colour(sheet, shade.ends[1])) for shade in shades.values()]
        if patches:  # each in the strongest colour of its cells
            draw_legend(figure, [shade.about for shade in shades.values()], patches)
        lay_out(figure, note, "doctor", least=(LEAST[0] * columns, LEAST[1] * rows))
        return figure


class Shades:
    """The shades of a check in its own colour, from pale at the limit to strong at the most extreme of its values."""

    def __init__(self, check: Check, values: Sequence[float]) -> None:
        finite = [value for value in values if math.isfinite(value)] or [check.limit]
        self.check = check
        self.ends = sorted((min(finite), max(finite)), reverse=check.is_below)

    def colour(self, sheet: Sheet, value: float) -> tuple[float, float, float]:
        """Return the background of a cell with this value."""
        palette = COLOURS[CHECKS.index(self.check)]
        colour = sheet.ink() if sheet.theme == "print" else palette[sheet.theme == "dark"]
        span, beyond = self.ends[1] - self.check.limit, value - self.check.limit
        depth = min(max(beyond / span, 0.0), 1.0) if span and math.isfinite(beyond) else 1.0
        share = SHARES[0] + (SHARES[1] - SHARES[0]) * depth
        return to_rgb(mixed(colour, sheet.ground, share / (2 if sheet.theme == "print" else 1)))

    @property
    def about(self) -> str:
        """The letter and the name of the check, and the range of its values."""
        fault = "fault, " if self.check.kind == "fault" else ""
        ends = " to ".join(dict.fromkeys(number(end, 2) for end in self.ends))
        return f"{self.check.letter}  {fault}{self.check.key} {ends}"


def _draw(axes: Axes, sheet: Sheet, layers: Mapping[str, Mapping[int, Cell]], shades: Mapping[str, Shades]) -> None:
    heads = heads_in(layers)
    colours = np.full((len(layers), len(heads), 3), to_rgb(sheet.ink(EMPTY)))
    for (y, row), (x, head) in product(enumerate(layers.values()), enumerate(heads)):
        cell = row.get(head, {})
        strips = [shades[letter].colour(sheet, value) for letter, value in cell.items()]
        colours[y, x] = (strips or colours[y, x : x + 1])[0]
        for index, colour in enumerate(strips[1:], 1):
            left, width = x - 0.5 + index / len(strips), 1 / len(strips)
            axes.add_patch(Rectangle((left, y - 0.5), width, 1.0, facecolor=colour, linewidth=0.0))
        size = sheet.points * (0.8 if len(cell) <= PER_LINE else 0.55)
        text = "\n".join(textwrap.wrap("".join(cell), PER_LINE))
        if text:
            axes.text(x, y, text, ha="center", va="center", fontsize=size, linespacing=0.9)
    axes.imshow(colours, aspect="auto", interpolation="none")
    axes.set_xticks(range(len(heads)), map(str, heads))
    axes.set_yticks(range(len(layers)), [*layers])
    axes.set(xlabel="Heads", ylabel="Layers" if any(layers) else "")
    axes.set_xticks(np.arange(len(heads) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(layers) + 1) - 0.5, minor=True)
    axes.tick_params(which="both", length=0)
    axes.grid(visible=False)
    axes.grid(which="minor", color=sheet.ground, linewidth=1.0)


def _draw_masks(axes: Axes, sheet: Sheet, masks: Sequence[str]) -> None:
    """Write the mask of each group of neighbouring layers with one mask beside it, with a line below the group."""
    middles, start = dict[float, str](), 0
    for mask, group in groupby(masks):
        end = start + len([*group])
        middles[(start + end - 1) / 2] = mask
        if end < len(masks):
            axes.axhline(end - 0.5, color=sheet.ink(), linewidth=THIN)
        start = end
    if middles:
        side = axes.secondary_yaxis("right")
        side.set_yticks([*middles], [*middles.values()])
        side.tick_params(length=0)
        side.spines["right"].set_visible(False)
