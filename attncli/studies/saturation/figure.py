"""saturation.png: entropy, largest weight and the softmax Jacobian's norm against d, medians with quartiles."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from attncli.show.numbers import entries, sizes
from attncli.show.panels import REFERENCE, Note, legend, look_of, panels, picture
from attncli.studies.pairs.figure import Points
from attncli.studies.saturation.rows import uniform_norm
from attncli.studies.study import Result

WIDTHS, HEIGHT = (3.3, 3.3, 3.3), 3.6
TITLES = {"entropy": "entropy / ln m", "max_weight": "largest weight", "jacobian": "norm of the softmax Jacobian"}


def pictures(result: Result, note: Note) -> Mapping[str, Callable[[Path], None]]:
    """saturation.png; what it cannot show goes to `note`."""
    return {"saturation.png": picture(figure_of, result, note)}


def figure_of(result: Result, note: Note) -> Figure:
    """Three panels over the same sizes or heads; dotted lines where all weights are equal."""
    points = Points(result, note)
    facts = [*sizes(result.records), "median and quartiles over the rows"]
    figure, axes = panels(WIDTHS, HEIGHT, f"{entries(result.settings)}; {', '.join(facts)}")
    looks: dict[str, dict[str, Any]] = {label: look_of(index) for index, label in enumerate(points.curves)}
    if points.real:
        looks = {label: look | {"linestyle": "none"} for label, look in looks.items()}
    uniform = {}
    keys = {record["keys"] for record in result.records}
    if len(keys) == 1:
        (m,) = keys
        uniform = {"entropy": 1.0, "max_weight": 1 / m, "jacobian": uniform_norm(m)}
        looks[f"uniform weights over {m} keys"] = REFERENCE
    for each, (column, title) in zip(axes, TITLES.items(), strict=True):
        if uniform:
            each.axhline(uniform[column], zorder=1, **REFERENCE)
        quartiles = (f"{column}_median", f"{column}_q25", f"{column}_q75")
        points.draw(each, title, quartiles, decades=column == "jacobian", bands=True)
    legend(figure, looks)
    return figure
