"""variance.png: the variance against d (for real tensors by head), and the densities of each label's scores."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from attncli.core.numbers import number
from attncli.results import Result
from attncli.show.pictures.figures import Note, Picture
from attncli.show.pictures.panels import (
    AROUND,
    BOTH_COLUMNS,
    COLUMN,
    LEAST,
    PlainFormatter,
    column_width,
    folded,
    grid_columns,
    legend,
    one_figure,
    page,
    reference,
)
from attncli.show.pictures.themes import THIN, Sheet, mixed
from attncli.studies.pairs.entries import PairsFacts
from attncli.studies.pairs.figure import Curve, Points
from attncli.studies.variance.columns import density

THEORY = {"exact": ("theory", "-"), "limit": ("theory for large sizes", (0, (5, 2)))}
ONE, NORMAL = (0, (6, 2, 1, 2)), (0, (1, 3))  # dashes of the line at variance 1, and of normal densities
MOST_PANELS = 12  # of densities
LEFT = 1.3  # width of the panel on the left, relative to the panels of densities
SHAPES, SHAPE = {1: 1.4, 2: 1.0, 3: 0.75}, 1.3  # width to height of densities: in one row, by their number; in several
PALEST = 0.4  # share of the label's colour in the line of the smallest d
OUTSIDE = 0.002  # share of the scores beyond either end of an axis
STEEPEST = 12.0  # a peak more than this times as high as the lowest leaves its panel


def variance_figure(result: Result, note: Note, sheet: Sheet) -> Picture:
    """Draw variances with 95 % intervals beside the theory, and a panel with the densities of each label's scores."""
    lines, one = sheet.lines(result.labels), {**reference(sheet), "linestyle": ONE}
    points = Points(result, note, lines)
    bells = dict[str, list[int]]()  # the sizes d with a histogram of the label's scores
    for label in result.labels:
        sizes = sorted({int(d) for d in result.tensors[f"curve/{label}/d"]})
        if drawn := [d for d in sizes if f"histogram/{label}/{d}/edges" in result.tensors]:
            bells[label] = drawn
    if len(bells) > MOST_PANELS:
        note(f"variance.png has the densities of {MOST_PANELS} of {len(bells)} labels")
    kinds = {row["label"]: row["theory"] for row in result.records}
    samples = [int(count) for curve in points.curves.values() for count in curve["samples"]]
    many = " to ".join(dict.fromkeys([number(min(samples)), number(max(samples))]))
    pairs = "pairs in each head" if any("head" in curve for curve in points.curves.values()) else "pairs"
    facts = [PairsFacts.of(result).words, f"{many} {pairs if points.real else 'samples'}"]
    facts += [] if points.real else ["bars: 95 % intervals"]
    facts += ["dotted: normal with the theory's mean and variance"] * any(kinds.values())
    figure, left, right = _panels(sheet, [*bells][:MOST_PANELS], facts)
    left.axhline(1.0, zorder=1, label="_variance 1", **one)
    for label, kind in kinds.items():
        of_d, variances = points.curves[label]["d"], points.curves[label].get("theory_variance", np.zeros(1))
        if kind is not None and (variances > 0).any():
            if len(of_d) == 1:
                of_d, variances = of_d * np.array([1 / 1.25, 1.25]), variances.repeat(2)
            text, style = THEORY[kind]
            look = {"color": lines[label]["color"], "linewidth": THIN, "linestyle": style}
            left.plot(of_d, variances, label=f"_{text}", zorder=2, **look)
    columns = ("variance", "variance_ci_low", "variance_ci_high")
    points.draw(left, "variance of the scores", columns, decades=True, bands=False)
    sizes = sorted({d for with_bells in bells.values() for d in with_bells})
    shades = dict(zip(sizes, np.linspace(1, PALEST, len(sizes))[::-1].tolist(), strict=True))
    for axes, label in zip(right, bells, strict=False):
        colour = sheet.ink() if sheet.theme == "print" else lines[label]["color"]
        colours = {d: mixed(colour, sheet.ground, shades[d]) for d in bells[label]}
        _draw_densities(axes, result, label, colours, points.curves[label])
        axes.title.set_color(colour)
    looks = {label: {**line, "linestyle": "none"} for label, line in lines.items()}
    looks |= {
        text: {**one, "color": sheet.ink(0.6), "linestyle": dash}
        for kind, (text, dash) in THEORY.items()
        if kind in kinds.values()
    }
    looks["variance 1"] = one
    if len(sizes) > 1:
        looks |= {f"d = {d}": {"color": sheet.ink(share)} for d, share in shades.items()}
    if any(kinds.values()) and bells:
        looks["normal density"] = {**one, "linestyle": NORMAL}
    legend(figure, looks)
    return figure


figures = one_figure(variance_figure)


def _panels(sheet: Sheet, labels: Sequence[str], facts: Sequence[str]) -> tuple[Picture, Axes, list[Axes]]:
    """Return a picture with a panel on the left, and with a panel for each label in a grid to its right."""
    count = len(labels)
    columns = grid_columns(count, (1.0, 1.0), sheet) if count else 0
    rows = math.ceil(count / columns) if count else 1
    height = BOTH_COLUMNS / (LEFT + columns) / (SHAPES.get(columns, SHAPE) if rows == 1 else SHAPE)
    size = (COLUMN, COLUMN / SHAPE) if sheet.look.panel else (BOTH_COLUMNS, rows * (height + AROUND))
    figure = page(sheet, size, "Variance and density of the scores", facts)
    spec = figure.add_gridspec(rows, 1 + columns, width_ratios=[LEFT, *[1.0] * columns])
    left, right = figure.add_subplot(spec[:, 0]), list[Axes]()
    for index, label in enumerate(labels):
        right.append(figure.add_subplot(spec[index // columns, 1 + index % columns]))
        is_alone = sheet.look.panel is not None
        x, y = (
            "score" if is_alone or index + columns >= count else "",
            "density" if index % columns == 0 or is_alone else "",
        )
        right[-1].set(title=folded(label, column_width(right[-1]), sheet), xlabel=x, ylabel=y)
    return figure, left, right


def _draw_densities(axes: Axes, result: Result, label: str, colours: Mapping[int, str], curve: Curve) -> None:
    """Draw the density at each d in its colour, with the normal density of the same mean and variance in theory."""
    figure: Any = axes.figure
    ends, peaks = [], []
    for d, colour in colours.items():
        edges, heights = density(result, label, d)
        axes.plot((edges[1:] + edges[:-1]) / 2, heights, color=colour, label=f"d = {d}", zorder=3)
        inside = np.flatnonzero(np.abs(np.cumsum(heights * np.diff(edges)) - 0.5) < 0.5 - OUTSIDE)
        ends += [edges[inside[0]], edges[min(inside[-1] + 2, len(heights))]]
        peaks.append(heights.max())
        mean, variance = (float(curve[f"theory_{moment}"][curve["d"] == d][0]) for moment in ("mean", "variance"))
        if variance > 0 and math.isfinite(mean):
            x = mean + math.sqrt(variance) * np.linspace(-4, 4, 161)
            y = np.exp(-((x - mean) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
            axes.plot(x, y, zorder=4, label="_normal density", **{**reference(figure.sheet), "linestyle": NORMAL})
            peaks[-1] = max(peaks[-1], y.max())
    axes.set_xlim(min(ends), max(ends))
    axes.set_ylim(0, 1.1 * min(max(peaks), STEEPEST * min(peaks)))
    least_ticks = 1 if column_width(axes) < LEAST[0] * figure.sheet.em else 2
    axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], min_n_ticks=least_ticks))
    axes.xaxis.set_major_formatter(PlainFormatter())
    axes.tick_params(axis="y", length=0, labelleft=False)
    axes.grid(visible=False, axis="y")
