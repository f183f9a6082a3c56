"""variance.png: the variance against d (for real tensors by head), and the histogram of scores at the largest d."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from attncli.common.pairs.figure import Curve, Points
from attncli.common.study import Result
from attncli.numbers import entries, number
from attncli.show.figures import Note, Picture
from attncli.show.panels import PlainFormatter, legend, name, one_figure, panels, reference
from attncli.show.themes import THIN, Sheet
from attncli.studies.variance.columns import density

THEORY = {"exact": ("theory", "-"), "limit": ("theory for large sizes", (0, (5, 2)))}
UNEQUAL = 10.0  # ratio of the largest standard deviation to the smallest from which on the axis is logarithmic
REACH = 4.5  # standard deviations of the histogram to either side


def figure_of(result: Result, note: Note, sheet: Sheet) -> Picture:
    """Draw variances with 95 % intervals beside the theory, and histograms with the normal density."""
    lines, standard = sheet.lines(result.labels), reference(sheet)
    points = Points(result, note, lines)
    samples = [int(count) for curve in points.curves.values() for count in curve["samples"]]
    many = " to ".join(dict.fromkeys([number(min(samples)), number(max(samples))]))
    facts = [entries(result.settings), f"{many} {'pairs' if points.real else 'samples'} for each point"]
    figure, (left, right) = panels(sheet, 2, "Variance of the scores", facts)
    left.axhline(1.0, zorder=1, **standard)
    looks = {label: {**line, "linestyle": "none"} for label, line in lines.items()}
    kinds = {row["label"]: row["theory"] for row in result.records}
    for label, kind in kinds.items():
        if kind is not None and (points.curves[label]["theory_variance"] > 0).any():
            _draw_theory(left, points.curves[label], lines[label], THEORY[kind][1])
    columns = ("variance", "variance_ci_low", "variance_ci_high")
    points.draw(left, "variance of the scores", columns, decades=True, bands=False)
    _draw_histograms(right, result, lines, standard)
    for kind, (text, style) in THEORY.items():
        if kind in kinds.values():
            looks[text] = {**standard, "color": sheet.ink(0.6), "linestyle": style}
    legend(figure, looks | {"variance 1, standard normal": standard})
    return figure


figures = one_figure(figure_of)


def _draw_theory(axes: Axes, curve: Curve, line: Mapping[str, Any], style: Any) -> None:
    sizes, values = curve["d"], curve["theory_variance"]
    if len(sizes) == 1:
        sizes, values = sizes * np.array([1 / 1.25, 1.25]), values.repeat(2)
    axes.plot(sizes, values, color=line["color"], linewidth=THIN, linestyle=style, zorder=2)


def _draw_histograms(
    axes: Axes, result: Result, lines: Mapping[str, Mapping[str, Any]], standard: Mapping[str, Any]
) -> None:
    """Draw each density divided by its peak, since wide densities are low; use a log axis if widths differ much."""
    largest = max(record["d"] for record in result.records)
    name(axes, f"scores at d = {largest}", "score", "density / its peak")
    histograms = result.settings["histograms"]
    spreads = {label: of for label, of in histograms.items() if of["std"] and math.isfinite(of["std"])}
    ends = [about["mean"] + side * REACH * about["std"] for about in spreads.values() for side in (-1, 1)]
    axes.set_xlim(min([-1.0, *ends]), max([1.0, *ends]))
    stds = [about["std"] for about in spreads.values()] or [1.0]
    if max(stds) > UNEQUAL * min(stds):
        axes.set_xscale("symlog", linthresh=min(stds))
        least, most = (
            10.0 ** math.floor(math.log10(each)) for each in (10 * min(stds), min(map(abs, axes.get_xlim())))
        )
        axes.set_xticks([sign * each for each in {max(min(1.0, most), least), most} for sign in (-1, 1)] + [0.0])
        axes.xaxis.set_major_formatter(PlainFormatter())
        axes.minorticks_off()
    else:
        axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10]))
    x = np.linspace(-REACH, REACH, 181)
    axes.plot(x, np.exp(-(x**2) / 2), zorder=3, **standard)
    for label, line in lines.items():
        if label in spreads:
            edges, heights = density(result, label)
            look = {key: line[key] for key in ("color", "linewidth", "linestyle")}
            axes.stairs(heights / heights.max(), edges, zorder=2, **look)
    axes.set_ylim(bottom=0)
