"""Panels side by side for the figures of studies: matplotlib's own axes, locators, legends and constrained layout."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, LogFormatter, LogLocator, NullFormatter, NullLocator

from attncli.show.numbers import printable

# Okabe and Ito (2008), "Color universal design", without the yellow, which is too pale for lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
LARGEST, SMALLER = 7.2, 0.2  # points; each label's markers are smaller than those below, which show around them
REFERENCE: dict[str, Any] = {"color": "0.15", "linewidth": 0.9, "linestyle": (0, (1, 1.5))}
POINTS, DPI = 9.0, 200
CHARACTER = 0.075  # inches that one takes in a title, about
MOST_SIZES = 10  # steps from the first to the last tick of an axis of sizes, at most


def look_of(index: int) -> dict[str, Any]:
    """Colour and marker of the label with this index; markers tell apart what has the same colour."""
    colour = COLOURS[index % len(COLOURS)]
    size = LARGEST - SMALLER * (index % len(MARKERS))
    marker = {"marker": MARKERS[index % len(MARKERS)], "markersize": size, "markeredgewidth": 0.6}
    return {"color": colour, "linewidth": 1.2, "markeredgecolor": "white", **marker}


def panels(widths: Sequence[float], height: float, title: str, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure with panels of these widths and this height in inches side by side, below a title that is folded."""
    figure = Figure(figsize=(sum(widths), height * rows), dpi=DPI, layout="constrained")
    lines = textwrap.wrap(printable(title), int(sum(widths) / CHARACTER))
    figure.suptitle("\n".join(lines), fontsize=POINTS)
    made = figure.subplots(rows, len(widths), width_ratios=widths, squeeze=False)
    axes = list(np.ravel(made))
    for each in axes:
        each.tick_params(labelsize=POINTS - 1, length=3, width=0.6)
        each.grid(True, color="0.9", linewidth=0.6)
        each.set_axisbelow(True)
        each.spines[["top", "right"]].set_visible(False)
    return figure, axes


def name(axes: Axes, title: str, x: str, y: str = "") -> None:
    """Titles of a panel and of its sides."""
    axes.set_title(printable(title), fontsize=POINTS)
    axes.set_xlabel(x, fontsize=POINTS)
    axes.set_ylabel(y, fontsize=POINTS)


def sizes_axis(axes: Axes, sizes: Iterable[int]) -> None:
    """Sizes such as d on a logarithmic axis, with the sizes themselves as ticks where there is room for them."""
    found = sorted(set(sizes))
    ticks = found[-1:]
    for size in reversed(found[:-1]):
        if ticks[-1] / size >= (found[-1] / found[0]) ** (1 / MOST_SIZES):
            ticks.append(size)
    axes.set_xscale("log")
    axes.set_xlim(found[0] / 1.6, found[-1] * 1.6)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.xaxis.set_minor_locator(NullLocator())


def decades_axis(axes: Axes) -> None:
    """A logarithmic axis upwards, labelled at powers of ten, or between them where those are too few."""
    axes.set_yscale("log", nonpositive="clip")
    axes.yaxis.set_major_locator(LogLocator(numticks=8))
    axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5), numticks=8))
    axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 1.5), labelOnlyBase=False))
    axes.tick_params(axis="y", which="minor", labelsize=POINTS - 2)
    if len(axes.get_yticks()) > 4:
        axes.yaxis.set_minor_formatter(NullFormatter())


def unit_axis(axes: Axes) -> None:
    """0 to 1, with room for a line at either end."""
    axes.set_ylim(-0.03, 1.03)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1.0])


def legend(figure: Figure, looks: Mapping[str, Mapping[str, Any]], columns: int = 4) -> None:
    """A legend below all panels: what each text stands for, as options of a line."""
    lines = [Line2D([], [], **look) for look in looks.values()]
    texts = [textwrap.fill(printable(text), 40) for text in looks]
    figure.legend(
        lines, texts, loc="outside lower center", ncols=min(columns, len(texts)), fontsize=POINTS - 1, frameon=False
    )
