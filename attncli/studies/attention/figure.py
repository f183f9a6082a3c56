"""heatmaps.png with all scorers side by side, and heatmap_<label>.png for each."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from attncli.show.figures import save_figure
from attncli.show.heatmaps import heatmap_figure
from attncli.studies.study import Matrices, Result, matrices_of


def pictures(result: Result, note: Callable[[str], None]) -> Mapping[str, Callable[[Path], None]]:
    """What draws each file; none without weights.

    What the first does not show as it is goes to `note`; the others only say the same again.
    """
    weights = matrices_of(result, "weights")
    each = {f"heatmap_{label}.png": partial(_draw, weights, [label], _silently) for label in weights.tensors}
    return {"heatmaps.png": partial(_draw, weights, None, note), **each} if each else {}


def _draw(weights: Matrices, labels: Sequence[str] | None, note: Callable[[str], None], path: Path) -> None:
    heatmap = heatmap_figure(weights, labels=labels)
    for line in heatmap.notes:
        note(line)
    save_figure(heatmap.figure, path)


def _silently(line: str) -> None:
    """Takes a note and keeps it to itself."""
