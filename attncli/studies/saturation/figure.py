"""saturation.png: entropy, largest weight and the softmax Jacobian's norm against d, medians with quartiles."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attncli.show.figures import save_figure
from attncli.show.numbers import entries, sizes
from attncli.show.panels import REFERENCE, decades_axis, drawing, legend, look_of, name, panels, unit_axis
from attncli.studies.pairs.figure import Places
from attncli.studies.pairs.result import curves
from attncli.studies.saturation.rows import uniform_norm
from attncli.studies.study import Result

Note = Callable[[str], None]
WIDTHS, HEIGHT = (3.3, 3.3, 3.3), 3.6
TITLES = {"entropy": "entropy / ln m", "max_weight": "largest weight", "jacobian": "norm of the softmax Jacobian"}
BAND, ALL_BANDS = 0.16, 0.8  # opacity of one, and at most of as many as may lie upon each other
BELOW = 100.0  # how far below the lowest median the norms may reach; their panel ends there


def pictures(result: Result, note: Note) -> Mapping[str, Callable[[Path], None]]:
    """saturation.png; what it cannot show goes to `note`."""
    return {"saturation.png": partial(_draw, result, note)}


def _draw(result: Result, note: Note, path: Path) -> None:
    with drawing(result.labels, note):
        save_figure(figure_of(result, note), path)


def figure_of(result: Result, note: Note = lambda text: None) -> Figure:
    """Three panels over the same sizes or heads; dotted lines where all weights are equal."""
    points, real = curves(result), "from" in result.settings
    facts = [*sizes(result.records), "median and quartiles over the rows"]
    figure, axes = panels(WIDTHS, HEIGHT, f"{entries(result.settings)}; {', '.join(facts)}")
    keys = {record["keys"] for record in result.records}
    places, m = Places(points, real), keys.pop() if len(keys) == 1 else None
    for each, (column, title) in zip(axes, TITLES.items(), strict=True):
        name(each, title, "")
        _draw_panel(each, column, places, m, note)
    joined = {"linestyle": "none"} if real else {}
    looks: dict[str, dict[str, Any]] = {label: look_of(index) | joined for index, label in enumerate(points)}
    legend(figure, looks | ({f"uniform weights over {m} keys": REFERENCE} if m else {}))
    return figure


def _draw_panel(axes: Axes, column: str, places: Places, keys: int | None, note: Note) -> None:
    logarithmic = column == "jacobian"
    axes.set_yscale("log" if logarithmic else "linear", **({"nonpositive": "clip"} if logarithmic else {}))
    if keys:
        uniform = {"entropy": 1.0, "max_weight": 1 / keys, "jacobian": uniform_norm(keys)}[column]
        axes.axhline(uniform, zorder=1, **REFERENCE)
    shown, medians = {}, [1.0]
    for index, (label, curve) in enumerate(places.curves.items()):
        median, low, high = (curve[f"{column}_{part}"] for part in ("median", "q25", "q75"))
        shown[label] = np.isfinite(median) & ((median > 0) | (not logarithmic))
        medians += list(median[shown[label]])
        order = np.argsort(places.of(index))
        order = order[shown[label][order]]
        if places.real or len(order) == 1:
            places.draw(
                axes, index, *(np.where(shown[label], each, np.nan) for each in (median, low, high)), linestyle="none"
            )
        else:
            band = min(BAND, ALL_BANDS / len(places.curves))
            colour, x = look_of(index)["color"], places.of(index)[order]
            axes.fill_between(x, low[order], high[order], color=colour, alpha=band, linewidth=0, zorder=2)
            axes.plot(x, median[order], **look_of(index), zorder=3)
    if logarithmic:
        axes.set_ylim(bottom=max(axes.get_ylim()[0], min(medians) / BELOW))
    (decades_axis if logarithmic else unit_axis)(axes)
    places.set_up(axes)
    places.tell_lost({label: list(each) for label, each in shown.items()}, TITLES[column], note)
