"""Panels side by side for the figures of studies: matplotlib's own axes, locators, legends and constrained layout."""

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator
from numpy.typing import NDArray
from rich.cells import cell_len

from attncli.errors import printable
from attncli.show.figures import DPI, Note, Picture, drawing
from attncli.studies.study import Result

Numbers = NDArray[np.float64]
# Okabe and Ito (2008), "Color universal design", without the yellow, which is too pale for lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
LARGEST, SMALLER = 7.2, 0.2  # points; each label's markers are smaller than those below, which show around them
REFERENCE: dict[str, Any] = {"color": "0.15", "linewidth": 0.9, "linestyle": (0, (1, 1.5))}
POINTS = 9.0
PAD = 0.08  # inches around everything
CHARACTER = 0.075  # inches that one takes in a title, about
SAMPLE = 0.6  # inches of a legend that the sample of an entry takes, with the gap to the next
LONGEST = 40  # characters of a line of a legend
BAND, ALL_BANDS = 0.16, 0.8  # opacity of one, and at most of as many as may lie upon each other


def figure_in_fonts(figure_of: Callable[[Result, Note], Figure], result: Result, note: Note) -> Figure:
    """The figure of a result in fonts that can draw its labels; what it cannot show goes to `note`."""
    with drawing(result.labels, note):
        return figure_of(result, note)


def look_of(index: int) -> dict[str, Any]:
    """Colour and marker of the label with this index; markers tell apart what has the same colour."""
    colour = COLOURS[index % len(COLOURS)]
    size = LARGEST - SMALLER * (index % len(MARKERS))
    marker = {"marker": MARKERS[index % len(MARKERS)], "markersize": size, "markeredgewidth": 0.6}
    return {"color": colour, "linewidth": 1.2, "markeredgecolor": "white", **marker}


def panels(widths: Sequence[float], height: float, title: str, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure with panels of these widths and this height in inches side by side, below a title that is folded.

    Panels below each other have the same axis upwards.
    """
    figure = Picture(
        figsize=(sum(widths), height * rows), dpi=DPI, layout=ConstrainedLayoutEngine(h_pad=PAD, w_pad=PAD)
    )
    lines = textwrap.wrap(printable(title), int(sum(widths) / CHARACTER))
    figure.suptitle("\n".join(lines), fontsize=POINTS)
    axes = list(np.ravel(figure.subplots(rows, len(widths), width_ratios=widths, sharey="col", squeeze=False)))
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


def draw_line(
    axes: Axes, x: Numbers, points: Sequence[Numbers], look: Mapping[str, Any], *, bands: int = 0, **options: Any
) -> None:
    """A line through points, and their low and high ends: as a band where there are so many `bands`, else as bars."""
    y, low, high = points
    if bands and len(x) > 1:
        opacity = min(BAND, ALL_BANDS / bands)
        axes.fill_between(x, low, high, color=look["color"], alpha=opacity, linewidth=0, zorder=2)
    else:
        axes.vlines(x, low, high, colors=look["color"], linewidth=1.2, zorder=2.5)
    axes.plot(x, y, zorder=3, **{**look, **options})


def sizes_axis(axes: Axes, sizes: Iterable[int]) -> None:
    """Sizes such as d on a logarithmic axis, with the sizes themselves as ticks where there is room for them."""
    found = sorted(set(sizes))
    axes.set_xscale("log")
    axes.set_xlim(found[0] / 1.6, found[-1] * 1.6)
    inches = axes.get_window_extent().width / axes.figure.dpi / math.log(2.56 * found[-1] / found[0])
    for step in range(1, len(found) + 1):
        shown = found[::-1][::step]
        if all(math.log(b / a) * inches > CHARACTER * (len(str(b)) + 0.5) for b, a in pairwise(shown)):
            break
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.xaxis.set_minor_locator(NullLocator())


def decades_axis(axes: Axes, text: Callable[[float], str] = "{:g}".format) -> None:
    """A logarithmic axis upwards, labelled at powers of ten, or between them where those are too few.

    To be called once everything is drawn.
    """
    axes.set_yscale("log", nonpositive="clip")
    axes.yaxis.set_major_locator(LogLocator(numticks=8))
    axes.yaxis.set_major_formatter(lambda value, _: text(value))
    axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5), numticks=8))
    low, high = axes.get_ylim()
    few = sum(low <= tick <= high for tick in axes.get_yticks()) < 3
    axes.yaxis.set_minor_formatter(lambda value, _: text(value) if few else "")
    axes.tick_params(axis="y", which="minor", labelsize=POINTS - 2)


def unit_axis(axes: Axes) -> None:
    """0 to 1, with room for a line at either end."""
    axes.set_ylim(-0.03, 1.03)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1.0])


def legend(figure: Figure, looks: Mapping[str, Mapping[str, Any]]) -> None:
    """A legend below all panels, in as many columns as fit: what each text stands for, as options of a line."""
    lines = [Line2D([], [], **look) for look in looks.values()]
    texts = [textwrap.fill(printable(text), LONGEST) for text in looks]
    widths = [SAMPLE + CHARACTER * max(map(cell_len, text.splitlines())) for text in texts]
    rows = range(1, len(texts) + 1)
    columns = ([max(widths[start : start + count]) for start in range(0, len(texts), count)] for count in rows)
    fitting = next((each for each in columns if sum(each) <= figure.get_figwidth()), widths[:1])
    figure.legend(lines, texts, loc="outside lower center", ncols=len(fitting), fontsize=POINTS - 1, frameon=False)
