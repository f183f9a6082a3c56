"""The heatmaps of a run: `heatmaps` with all scorers side by side, and `heatmap_<label>` for each."""

from collections.abc import Callable, Mapping
from functools import partial

from matplotlib.figure import Figure

from attncli.show.heatmaps import heatmap_figure
from attncli.studies.study import Result, matrices_of


def figures(result: Result, note: Callable[[str], None]) -> Mapping[str, Callable[[], Figure]]:
    """What makes each figure; none without weights.

    What the first does not show as it is goes to `note`; the others only say the same again.
    """
    weights = matrices_of(result, "weights")
    each = {f"heatmap_{label}": partial(heatmap_figure, weights, labels=[label]) for label in weights.tensors}
    return {"heatmaps": partial(heatmap_figure, weights, note=note), **each} if each else {}
