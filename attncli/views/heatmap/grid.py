"""How the panels of a heatmap are set in rows and columns."""

import math
from collections.abc import Iterable

from attncli.views.heatmap.panels import Panel, Selection

SHAPE_WANTED = 1.4  # width to height of a picture that fits a page
UNUSUAL = 1.0  # what leaving the usual order costs: a strip e times as long as wanted


def arrange(selection: Selection, width: float, height: float) -> list[list[Panel | None]]:
    """Panels of about `width` x `height` in rows and columns: places below each other, labels side by side.

    Where that would be a very long strip, several places share a row, or the labels of one place wrap.
    """
    labels, places = selection.labels, selection.places
    heads = len({head for _, head in places})
    line = [(label, place) for place in places for label in labels]
    usual = _usual_columns(len(labels), heads, len(places))

    def cost(columns: int) -> float:
        rows = -(-len(line) // columns)
        shape = abs(math.log(columns * width / (rows * height) / SHAPE_WANTED))
        empty = (rows * columns - len(line)) / len(line)
        return shape + empty + (0.0 if usual in (None, columns) else UNUSUAL)

    columns = min(_column_counts(len(labels), heads, len(places)), key=cost)
    cells = [selection.panels.get(key) for key in line]
    cells += [None] * (-len(cells) % columns)
    return [cells[start : start + columns] for start in range(0, len(cells), columns)]


def _usual_columns(labels: int, heads: int, places: int) -> int | None:
    """A column for each label, or of one label for each head; None where neither says anything."""
    if labels > 1:
        return labels
    return heads if 1 < heads < places else None


def _column_counts(labels: int, heads: int, places: int) -> Iterable[int]:
    """Numbers of columns that keep the labels of a place together and, where there are heads, whole batch elements."""
    if places == 1:
        return range(1, labels + 1)
    whole = heads > 1 and places > heads and places % heads == 0
    return [labels * k for k in range(1, places + 1) if not whole or heads % k == 0 or k % heads == 0]
