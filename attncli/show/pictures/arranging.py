"""Arrange the panels of a heatmap on its page: their sizes, rows and columns, names and tokens."""

import math
from collections.abc import Mapping, Sequence, Set
from itertools import pairwise
from typing import Any

from matplotlib.axis import Axis
from matplotlib.ticker import MaxNLocator

from attncli.config.looks import HeatmapLook
from attncli.show.pictures.cells import DIGIT, MOST_NUMBERS, NUMBER_POINTS, DrawnPanel
from attncli.show.pictures.figures import Note, Picture
from attncli.show.pictures.matrices import Heatmap, Panel
from attncli.show.pictures.panels import Size, columns_of, folded, lay_out
from attncli.show.pictures.scales import WEIGHTS
from attncli.show.pictures.themes import Sheet

CELL, LINE = 0.33, 0.14  # inches of a cell with a number, and of a line with a token
LEAST, LEAST_MORE, LEAST_LONG = 1.3, 0.3, 3.4  # em; smallest readable side of one cell, of each more, and of many
ROOMIER = 1.4  # factor on the smallest readable side where the page has no given size
SIDE, LONGEST_SIDE, LONGEST_NAMED, LONGEST_NUMBERED = 3.0, 5.0, 7.5, 15.0  # inches of a panel
FEW_PANELS, SMALL_SIDE = 4, 2.0  # more panels than these are drawn smaller, down to this side in inches
MOST_ROWS = 4  # of heads or batch elements below each other on a page without a given size; more may stand side by side
BESIDE = 6.0  # em of the name of a row and of its tokens
GAP = 0.4  # em between two texts beside each other
AROUND = (0.3, 0.45)  # inches beside and above a panel for ticks and a title
ROOMY = 2.0  # inches around a panel that are enough for any labels
SLOT = 0.7  # estimated share of the page that is cells


def _is_table(panels: Sequence[Panel]) -> bool:
    """Whether panels have several labels, which are columns, and several heads or batch elements, which are rows."""
    return min(len({panel.label for panel in panels}), len({panel.row_name for panel in panels})) > 1


def arranged(panels: Sequence[Panel], shape: Size, sheet: Sheet) -> tuple[int, list[int]]:
    """Return the number of columns, and the index of each panel in the grid, counted row by row.

    Labels are columns, heads and batch elements are rows; with many rows, groups of columns stand side by side.
    """
    if not _is_table(panels):
        return columns_of(len(panels), shape, sheet), [*range(len(panels))]
    labels, names = (list(dict.fromkeys(getattr(panel, name) for panel in panels)) for name in ("label", "row_name"))
    many = len(labels)
    is_few = sheet.size is None and len(names) <= MOST_ROWS
    groups = 1 if is_few else columns_of(len(names), (many * shape[0], shape[1]), sheet, beside=BESIDE)
    return groups * many, [names.index(panel.row_name) * many + labels.index(panel.label) for panel in panels]


def _least_side(cells: int) -> float:
    """Return the smallest readable side, in em, of a panel with this number of cells along it."""
    return min(LEAST + LEAST_MORE * (cells - 1), LEAST_LONG)


def panel_size(content: Heatmap, look: HeatmapLook, sheet: Sheet) -> Size:
    """Return the size of a panel on a page without a given size, with room for numbers in few cells."""
    panels = content.panels
    n, m = _sides(panels)
    longest = max(n, m)
    side = min(CELL * longest, SIDE + 0.012 * longest, LONGEST_SIDE)
    side = max(side * min(1.0, (FEW_PANELS / len(panels)) ** 0.5), min(side, SMALL_SIDE))
    if any(isinstance(axis, tuple) for panel in panels for axis in (panel.queries, panel.keys)):
        side = max(side, min(LINE * longest, LONGEST_NAMED))
    if look.annotate == "yes":
        side = max(side, min(CELL * longest, LONGEST_NUMBERED))
    digits = 7 if not content.stage else 6 if content.is_difference else 4 if content.stage in WEIGHTS else 5
    is_numbered = look.annotate == "yes" or n * m * len(panels) <= MOST_NUMBERS[look.annotate]
    wider = max(1.0, 1.05 * DIGIT * digits * NUMBER_POINTS / 72 / CELL) if is_numbered else 1.0
    least = [max(sheet.unit * CELL, ROOMIER * _least_side(cells) * sheet.em) for cells in (m, n)]
    width = wider * max(sheet.unit * m * side / longest, least[0])
    return width, max(sheet.unit * n * side / longest, least[1])


def _sides(panels: Sequence[Panel]) -> tuple[int, int]:
    """Return the largest numbers of queries and of keys."""
    return max(len(panel.queries) for panel in panels), max(len(panel.keys) for panel in panels)


def name_and_lay_out(
    figure: Picture, content: Heatmap, tiles: Sequence[DrawnPanel], wanted: Size, widest: float, note: Note
) -> str:
    """Name the panels and their axes, and lay them out; return a phrase on omitted labels, empty if there are none.

    Names of keys, and labels above columns, stand upright in all panels if any two of them would overlap.
    """
    n, m = _sides(content.panels)
    least = _least_side(m), _least_side(n)
    sizes = [wanted if figure.sheet.size is None else (wanted[0] / SLOT, wanted[1] / SLOT)] * len(tiles)
    upright, steps, notes, page = set[str](), _steps(figure, tiles, sizes), list[str](), figure.get_size_inches()
    is_one_row = _is_table(content.panels) or not any(tile.row for tile in tiles)
    for may_turn in (
        {"keys"},
        *[{"keys", "titles"} if is_one_row else {"keys"}] * 3,
    ):  # titles are folded anew at first
        _name(content, tiles, figure.sheet, upright, steps, sizes)
        figure.set_size_inches(*page)
        figure.set_layout_engine("constrained")
        notes.clear()
        lay_out(figure, wanted, notes.append, content.name, widest=widest, least=least)
        sizes, crowded = [tile.inches for tile in tiles], _crowded(figure, tiles) - upright
        before, turned = steps, crowded & may_turn
        if not turned:
            steps = {side: max(step, steps[side]) for side, step in _steps(figure, tiles, sizes).items()}
        if not crowded and steps == before:
            break
        upright |= turned
    for message in notes:
        note(message)
    return ", ".join(f"one in {step} of the {side} is shown" for side, step in before.items() if step > 1)


def _steps(figure: Picture, tiles: Sequence[DrawnPanel], sizes: Sequence[Size]) -> dict[str, int]:
    """Return the steps from one token of the queries and of the keys to the next on panels of these sizes in inches."""
    steps = {"queries": 1, "keys": 1}
    for tile, (width, height) in zip(tiles, sizes, strict=True):
        for side, length in (("queries", height), ("keys", width)):
            names = getattr(tile.panel, side)
            if isinstance(names, tuple):
                step = math.ceil(LINE * figure.sheet.unit * len(names) / length - 0.05)
                steps[side] = max(steps[side], step)
    return steps


def _name(
    content: Heatmap,
    tiles: Sequence[DrawnPanel],
    sheet: Sheet,
    upright: Set[str],
    steps: Mapping[str, int],
    sizes: Sequence[Size],
) -> None:
    """Write labels above their columns and heads beside their rows, or both above panels that are no table.

    Queries are labelled beside each row of panels and keys below each column, and where they differ between panels;
    one token in `steps`. `sizes` are the sizes of the panels in inches.
    """
    there = {(tile.row, tile.column): tile for tile in tiles}
    is_table = _is_table(content.panels)
    several = {name: len({getattr(tile.panel, name) for tile in tiles}) > 1 for name in ("label", "row_name")}
    for tile, (width, _) in zip(tiles, sizes, strict=True):
        axes, panel = tile.axes, tile.panel
        above, below_, left = (
            there.get((tile.row + down, tile.column + right)) for down, right in ((-1, 0), (1, 0), (0, -1))
        )
        title = panel.row_name if several["row_name"] and not several["label"] else panel.label
        inches = sheet.unit * (SMALL_SIDE if "titles" in upright else AROUND[0]) + width
        title = "" if is_table and above else folded(title, inches, sheet)
        axes.set_title(title, rotation=90 if "titles" in upright else 0)
        if is_table and (left is None or left.panel.row_name != panel.row_name):
            axes.set_ylabel(panel.row_name.replace(", ", "\n"), rotation=0, ha="right", va="center")
        axes.set_xlabel("" if below_ else folded(content.sides[1], width, sheet))
        is_labelled = left is None or left.panel.queries != panel.queries
        _set_ticks(axes.yaxis, panel.queries if is_labelled else (), steps["queries"])
        is_labelled = below_ is None or below_.panel.keys != panel.keys
        _set_ticks(axes.xaxis, panel.keys if is_labelled else (), steps["keys"])
        axes.tick_params(axis="x", labelrotation=90 if "keys" in upright else 0)


def _set_ticks(axis: Axis, names: tuple[str, ...] | range, step: int) -> None:
    """Label an axis with indices, or with one token in `step`."""
    if isinstance(names, range):
        axis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True, min_n_ticks=min(2, len(names))))
    else:
        axis.set_ticks(range(0, len(names), step), labels=names[::step])


def _crowded(figure: Picture, tiles: Sequence[DrawnPanel]) -> set[str]:
    """Return which of `titles`, `labels` of axes and `keys` overlap in a row of panels."""
    boxes = dict[tuple[str, int], list[Any]]()
    for tile in tiles:
        low, high = tile.axes.get_xlim()
        labels = zip(tile.axes.get_xticks(), tile.axes.get_xticklabels(), strict=True)
        keys = [label for tick, label in labels if low <= tick <= high]
        for kind, texts in (("titles", [tile.axes.title]), ("labels", [tile.axes.xaxis.label]), ("keys", keys)):
            boxes.setdefault((kind, tile.row), []).extend(text.get_window_extent() for text in texts if text.get_text())
    gap = GAP * figure.sheet.em * figure.dpi
    return {kind for (kind, _), row in boxes.items() if any(a.x1 + gap > b.x0 for a, b in pairwise(row))}
