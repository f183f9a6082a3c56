"""doctor.png: layers and heads, with a letter for each kind of finding."""

import textwrap
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch

from attncli.common.study import Result
from attncli.config.looks import Look
from attncli.errors import printable
from attncli.show.figures import Note, Picture, drawing
from attncli.show.looks import PALETTE
from attncli.show.panels import columns_of, grid, lay_out
from attncli.show.themes import Sheet, mixed
from attncli.studies.doctor.checks import CHECKS
from attncli.studies.doctor.letters import NOTHING, grids, heads_in, source_of

CELL = (0.34, 0.24)  # inches of a cell
SMALLEST = (2.4, 0.5)  # inches of a panel
LEAST = (1.6, 1.1)  # em; smallest readable cell
PER_LINE = 3  # letters of a cell
ORDER = (11, 1, 8, 0, 3, 5, 2, 4, 7, 6)  # of the checks' colours in the palette: red ones for faults
SHARES = {"fault": 0.55, "remark": 0.3}  # of the colour of a check in the background of its cells
EMPTY = 0.04  # share of the text colour in the background of other cells
PLACES = {check.letter: place for place, check in enumerate(CHECKS)}


def figures(result: Result, note: Note, look: Look) -> Mapping[str, Callable[[], Picture]]:
    """Return a mapping from `doctor` to the function that draws the picture."""
    return {"doctor": partial(doctor_figure, result, note, look)}


def doctor_figure(result: Result, note: Note, look: Look) -> Picture:
    """Return a picture with a panel (layers, heads) for each label, and the letters of the findings in the cells."""
    found = grids(result)
    rows = max(len(each) for each in found.values())
    columns = max(len(heads_in(each)) for each in found.values())
    with drawing([*found, look.title or ""], note, look) as sheet:
        shape = max(columns * CELL[0], SMALLEST[0]), max(rows * CELL[1], SMALLEST[1])
        title = f"{source_of(result)}: attention heads"
        figure, axes = grid(sheet, len(found), columns_of(len(found), shape, sheet), title)
        for each, (label, letters) in zip(axes, found.items(), strict=True):
            _draw(each, sheet, letters)
            each.set_title(printable(label) if len(found) > 1 else "")
        cells = [cell for letters in found.values() for row in letters.values() for cell in row.values()]
        _legend(figure, set("".join(cells)))
        lay_out(figure, shape, note, "doctor", widest=10 * shape[0] + 10, least=(LEAST[0] * columns, LEAST[1] * rows))
        return figure


def _draw(axes: Axes, sheet: Sheet, letters: Mapping[str, Mapping[int, str]]) -> None:
    heads = heads_in(letters)
    cells = np.array([[_ground(sheet, row.get(head, NOTHING)) for head in heads] for row in letters.values()])
    axes.imshow(cells, aspect="auto", interpolation="none")
    for y, row in enumerate(letters.values()):
        for x, head in enumerate(heads):
            text = row.get(head, NOTHING)
            if text != NOTHING:
                size = sheet.points * (0.8 if len(text) <= PER_LINE else 0.55)
                shown = "\n".join(textwrap.wrap(text, PER_LINE))
                axes.text(x, y, shown, ha="center", va="center", fontsize=size, linespacing=0.9)
    axes.set_xticks(range(len(heads)), map(str, heads))
    axes.set_yticks(range(len(letters)), [*letters])
    axes.set(xlabel="Heads", ylabel="Layers" if any(letters) else "")
    axes.set_xticks(np.arange(len(heads) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(letters) + 1) - 0.5, minor=True)
    axes.tick_params(which="both", length=0)
    axes.grid(visible=False)
    axes.grid(which="minor", color=sheet.ground, linewidth=1.0)


def _ground(sheet: Sheet, letters: str) -> tuple[float, float, float]:
    """Return the background of a cell: the colour of its first check, stronger for a fault."""
    place = PLACES.get(letters[0])
    if place is None:
        return to_rgb(sheet.ink(EMPTY))
    colour = sheet.ink() if sheet.theme == "print" else PALETTE[ORDER[place]][sheet.theme == "dark"]
    share = SHARES[CHECKS[place].kind] / (2 if sheet.theme == "print" else 1)
    return to_rgb(mixed(colour, sheet.ground, share))


def _legend(figure: Picture, letters: set[str]) -> None:
    """Draw a legend of the letters below the panel, each in the colour of its cells."""
    shown = [check for check in CHECKS if check.letter in letters]
    patches = [
        Patch(facecolor=_ground(figure.sheet, check.letter), label=f"{check.letter}  {check.key}") for check in shown
    ]
    for columns in range(max(len(patches), 1), 0, -1):
        drawn = figure.legend(handles=patches, loc="outside lower center", ncols=columns) if patches else None
        if drawn is None or columns == 1 or drawn.get_window_extent().width <= figure.bbox.width:
            return
        drawn.remove()
