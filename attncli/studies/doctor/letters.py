"""The letters of layers and heads, for tables and pictures."""

from collections.abc import Mapping

from attncli.results import Result, by_label
from attncli.studies.doctor.checks import CHECKS

NOTHING = "·"
LETTERS = {check.key: check.letter for check in CHECKS}


Cell = Mapping[str, float]  # the values of a head's findings, by letter


def grid_cells(result: Result) -> dict[str, dict[str, dict[int, Cell]]]:
    """Return the values of the findings by letter, by label, number of the layer ("" without layers), and head.

    If there is no axis of heads, the head is 0.
    """
    cells: dict[tuple[str, str | None, int | None], dict[str, float]] = {}
    for row in result.records:
        cells.setdefault((row["label"], row["layer"], row["head"]), {})[LETTERS[row["check"]]] = row["value"]
    grids = dict[str, dict[str, dict[int, Cell]]]()
    for label, rows in by_label(result.heads).items():
        for row in rows:
            layer, head = row["layer"], row["head"]
            name = "" if layer is None else str(result.layers[layer])
            grids.setdefault(label, {}).setdefault(name, {})[head or 0] = cells.get((label, layer, head), {})
    return grids


def heads_in(grid: Mapping[str, Mapping[int, object]]) -> list[int]:
    """Return the sorted numbers of the heads that occur in any layer."""
    return sorted({head for letters in grid.values() for head in letters})
