"""Panels of the studies against d: points at sizes or heads, with bars or bands."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from attncli.errors import printable
from attncli.results import Result
from attncli.show.pictures.figures import Note
from attncli.show.pictures.panels import Numbers, decades_axis, draw_line, frame, name, sizes_axis, unit_axis
from attncli.studies.pairs.entries import PairsFacts

Curve = dict[str, Numbers]  # columns of numbers, one per point
DODGE = 0.5  # share of a head's place, or of the only size, over which the labels are spread
MARGIN = 1.6  # between a size and the edge of its place, as a factor


class Points:
    """The points to plot, a curve for each label.

    Random pairs are sorted by d, with x = d; for tensors from a file, x is the head's number. Labels that share x
    positions are shifted so that they do not overlap.
    """

    def __init__(self, result: Result, note: Note, lines: Mapping[str, Mapping[str, Any]]) -> None:
        """Take the tensors `curve/...` of a result; `lines` maps labels to the matplotlib options of their lines."""
        self.real, self.captured = PairsFacts.of(result).source is not None, result.capture is not None
        self.note = note
        self.lines = lines
        self.curves: dict[str, Curve] = {label: {} for label in result.labels}
        for key, tensor in result.tensors.items():
            if key.startswith("curve/"):
                label, _, column = key.removeprefix("curve/").rpartition("/")
                order = result.tensors[f"curve/{label}/d"].argsort(stable=True)
                self.curves[label][column] = tensor[order].numpy()
        for index, curve in enumerate(self.curves.values()):
            shift = DODGE * ((index + 0.5) / len(self.curves) - 0.5)
            sizes = curve["d"] * MARGIN ** (shift if len(curve["d"]) == 1 else 0.0)
            curve["x"] = curve.get("head", np.zeros(1)) + shift if self.real else sizes

    def draw(self, axes: Axes, title: str, columns: tuple[str, str, str], *, decades: bool, bands: bool) -> None:
        """Draw the points with their intervals; `columns` names the values and the low and high ends.

        The y axis is logarithmic with `decades`, else from 0 to 1, or further if points lie above 1. Points over
        several sizes get lines with `bands` if wanted; all others get error bars.
        """
        heads = "heads of all layers" if self.captured else "head" if "head" in next(iter(self.curves.values())) else ""
        name(axes, title, heads if self.real else "d")
        axes.set_yscale("log" if decades else "linear")
        highest, lost = 1.0, []
        for label, curve in self.curves.items():
            drawn = np.isfinite(curve[columns[0]]) & ((curve[columns[0]] > 0) | (not decades))
            if not drawn.all():
                lost.append(printable(label))
            points = [curve[column][drawn] for column in columns]
            highest = max([highest, *points[2]])
            if bands and not self.real and drawn.sum() > 1:
                draw_line(axes, curve["x"][drawn], points, self.lines[label], bands=len(self.curves))
            else:
                draw_line(axes, curve["x"][drawn], points, self.lines[label], linestyle="none")
        if decades:
            frame([axes], "bands" if bands and not self.real else "bars")
        if decades or highest <= 1.0:
            (decades_axis if decades else unit_axis)(axes)
        if not self.real:
            sizes_axis(axes, map(int, curve["d"]))
        elif "head" in curve:
            axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        else:
            axes.set_xlim(-0.5, 0.5)
            axes.set_xticks([0], ["all pairs"])
        if lost:
            missing = "not positive" if decades else "no number"
            self.note(f"not drawn where it is {missing}: {title} of {', '.join(lost)}")
