"""saturation.png: entropy, largest weight and the Jacobian's norm against d, medians with quartiles."""

from collections.abc import Callable, Mapping
from functools import partial

from matplotlib.figure import Figure

from attncli.show.figures import Note
from attncli.show.numbers import entries, sizes
from attncli.show.panels import REFERENCE, figure_in_fonts, legend, look_of, panels
from attncli.studies.pairs.figure import Points
from attncli.studies.saturation.study import of_softmax
from attncli.studies.study import Result

WIDTHS, HEIGHT = (3.3, 3.3, 3.3), 3.6
TITLES = {"entropy": "entropy / ln m", "max_weight": "largest weight", "jacobian": "norm of the {}Jacobian"}


def figures(result: Result, note: Note) -> Mapping[str, Callable[[], Figure]]:
    """saturation.png; what it cannot show goes to `note`."""
    return {"saturation": partial(figure_in_fonts, figure_of, result, note)}


def figure_of(result: Result, note: Note) -> Figure:
    """Three panels over the same sizes or heads; dotted lines where all weights are equal."""
    points = Points(result, note)
    facts = [*sizes(result.records), "median and quartiles over the rows"]
    figure, axes = panels(WIDTHS, HEIGHT, f"{entries(result.settings)}; {', '.join(facts)}")
    softmax = "softmax " if of_softmax(result.records) else ""
    for each, (column, title) in zip(axes, TITLES.items(), strict=True):
        each.axhline(result.settings["uniform"][column], zorder=1, **REFERENCE)
        quartiles = (f"{column}_median", f"{column}_q25", f"{column}_q75")
        points.draw(each, title.format(softmax), quartiles, decades=column == "jacobian", bands=True)
    line = {"linestyle": "none"} if points.real else {}
    looks = {label: {**look_of(index), **line} for index, label in enumerate(points.curves)}
    whose = "" if softmax else "softmax: "
    legend(figure, looks | {f"{whose}uniform weights over {result.records[0]['keys']} keys": REFERENCE})
    return figure
