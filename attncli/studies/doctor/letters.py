"""The letters of layers and heads, for tables and pictures."""

from collections.abc import Mapping

from attncli.common.study import Result, by_label
from attncli.studies.doctor.checks import CHECKS

NOTHING = "·"
LETTERS = {check.key: check.letter for check in CHECKS}


def grids(result: Result) -> dict[str, dict[str, dict[int, str]]]:
    """Return the letters of the findings, by label, number of the layer ("" without layers), and head.

    A finding without a head applies to all heads of the layer. If there is no axis of heads, the head is 0.
    """
    found: dict[tuple[str, str | None, int | None], str] = {}
    for row in result.records:
        place = row["label"], row["layer"], row["head"]
        found[place] = found.get(place, "") + LETTERS[row["check"]]
    numbers, grids = result.settings.get("layers", {}), dict[str, dict[str, dict[int, str]]]()
    for label, rows in by_label(result.heads).items():
        for row in rows:
            layer, head = row["layer"], row["head"]
            of_layer = found.get((label, layer, None), "") if head is not None else ""
            letters = of_layer + found.get((label, layer, head), "")
            name = "" if layer is None else str(numbers[layer])
            grids.setdefault(label, {}).setdefault(name, {})[head or 0] = letters or NOTHING
    return grids


def source_of(result: Result) -> str:
    """Return the name of the model or file that was checked, or of the run."""
    settings = result.settings
    return str(settings.get("model") or settings.get("capture", {}).get("file") or result.name)


def heads_in(grid: Mapping[str, Mapping[int, str]]) -> list[int]:
    """Return the sorted numbers of the heads that occur in any layer."""
    return sorted({head for letters in grid.values() for head in letters})
