"""variance.png: the variance against d (of real tensors by head) beside the histogram of scores at the largest d."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attncli.show.figures import save_figure
from attncli.show.numbers import counted, entries
from attncli.show.panels import REFERENCE, decades_axis, drawing, legend, look_of, name, panels
from attncli.studies.pairs.figure import Numbers, Places
from attncli.studies.pairs.result import Curve, curves
from attncli.studies.study import Result

Note = Callable[[str], None]
WIDTHS, HEIGHT = (4.4, 3.9), 4.2
THEORY = {"exact": "-", "limit": (0, (5, 2))}
REACH = 4.5  # how many standard deviations the histogram shows to either side
ENOUGH = 625  # samples in the fullest bin: its standard error is 1/25 of it
TOGETHER = (1, 2, 4, 5, 10)  # numbers of bins that may be merged into one
ALIKE = 0.002  # densities that differ by less, at most of them 0.4, lie upon each other


def pictures(result: Result, note: Note) -> Mapping[str, Callable[[Path], None]]:
    """variance.png; what it cannot show goes to `note`."""
    return {"variance.png": partial(_draw, result, note)}


def _draw(result: Result, note: Note, path: Path) -> None:
    with drawing(result.labels, note):
        save_figure(figure_of(result, note), path)


def figure_of(result: Result, note: Note = lambda text: None) -> Figure:
    """Measured points with 95 % intervals on their theory, and histograms with the normal density."""
    points, real = curves(result), "from" in result.settings
    kinds = {row["label"]: row["theory"] for row in result.records}
    figure, (left, right) = panels(WIDTHS, HEIGHT, _title(result, points))
    _draw_variances(left, Places(points, real), kinds, note)
    _draw_histograms(right, result, points)
    looks: dict[str, dict[str, Any]] = {label: look_of(index) for index, label in enumerate(points)}
    line = {"color": "0.4", "linewidth": 0.9}
    looks |= {"theory": line | {"linestyle": THEORY["exact"]}} if "exact" in kinds.values() else {}
    looks |= {"theory for large sizes": line | {"linestyle": THEORY["limit"]}} if "limit" in kinds.values() else {}
    legend(figure, looks | {"variance 1, standard normal": REFERENCE})
    return figure


def _title(result: Result, points: Mapping[str, Curve]) -> str:
    samples = [int(count) for curve in points.values() for count in curve["samples"]]
    least, most = counted(min(samples)), counted(max(samples))
    what = "pairs" if "from" in result.settings else "samples"
    return f"{entries(result.settings)}; {least if least == most else f'{least} to {most}'} {what} for each point"


def _draw_variances(axes: Axes, places: Places, kinds: Mapping[str, str | None], note: Note) -> None:
    name(axes, "variance of the scores", "", "variance")
    axes.set_yscale("log", nonpositive="clip")
    axes.axhline(1.0, zorder=1, **REFERENCE)
    shown = {}
    for index, (label, curve) in enumerate(places.curves.items()):
        kind = kinds[label]
        if kind is not None and (curve["theory_variance"] > 0).any():
            _draw_theory(axes, curve, look_of(index)["color"], THEORY[kind])
        shown[label] = np.isfinite(curve["variance"]) & (curve["variance"] > 0)
        ends = (np.where(shown[label], curve[f"variance_ci_{end}"], np.nan) for end in ("low", "high"))
        places.draw(axes, index, np.where(shown[label], curve["variance"], np.nan), *ends, linestyle="none")
    decades_axis(axes)
    places.set_up(axes)
    places.tell_lost({label: list(each) for label, each in shown.items()}, "variance", note)


def _draw_theory(axes: Axes, curve: Curve, colour: str, style: Any) -> None:
    order = np.argsort(curve["d"])
    sizes, values = curve["d"][order], curve["theory_variance"][order]
    if len(sizes) == 1:
        sizes, values = sizes * np.array([1 / 1.25, 1.25]), values.repeat(2)
    axes.plot(sizes, values, color=colour, linewidth=0.9, linestyle=style, zorder=2)


def _draw_histograms(axes: Axes, result: Result, points: Mapping[str, Curve]) -> None:
    """Densities that lie upon each other get thinner lines, so that those below show around them."""
    largest = max(int(curve["d"].max()) for curve in points.values())
    name(axes, f"standardised scores at d = {largest}", "(score - mean) / std", "density")
    x = np.linspace(-REACH, REACH, 181)
    axes.plot(x, np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi), zorder=3, **REFERENCE)
    axes.set_xlim(-REACH, REACH)
    densities = {
        label: density(result.tensors[f"histogram/{label}/edges"].numpy(), counts.numpy(), curve)
        for label, curve in points.items()
        if (counts := result.tensors.get(f"histogram/{label}/counts")) is not None
    }
    waiting = list(densities)
    for label, (edges, heights) in densities.items():
        waiting.remove(label)
        above = sum(alike(heights, densities[other][1]) for other in waiting)
        axes.stairs(
            heights, edges, color=look_of(list(points).index(label))["color"], linewidth=1.2 + 1.5 * above, zorder=2
        )
    axes.set_ylim(bottom=0)


def alike(some: Numbers, others: Numbers) -> bool:
    """Whether two histograms lie upon each other."""
    return some.shape == others.shape and bool(np.abs(some - others).max() <= ALIKE)


def density(edges: Numbers, counts: Numbers, curve: Curve) -> tuple[Numbers, Numbers]:
    """Edges and heights of the density of (score - mean) / std, with the moments of all pairs of the largest d.

    Neighbouring bins are shown as one, so that chance moves the height of the fullest by 4 % at most.
    """
    last = curve["d"] == curve["d"].max()
    samples, means, variances = (curve[key][last] for key in ("samples", "mean", "variance"))
    mean = np.average(means, weights=samples)
    std = math.sqrt(np.average(variances + (means - mean) ** 2, weights=samples))
    merged = next((n for n in TOGETHER if counts.reshape(-1, n).sum(axis=1).max() >= ENOUGH), TOGETHER[-1])
    edges, counts = (edges[::merged] - mean) / std, counts.reshape(-1, merged).sum(axis=1)
    return edges, counts / (samples.sum() * np.diff(edges))
