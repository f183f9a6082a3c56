"""Panels side by side for the figures of studies: matplotlib's own axes, locators, legends and constrained layout."""

import math
import textwrap
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator
from numpy.typing import NDArray
from rich.cells import cell_len

from attncli.config.looks import Look
from attncli.errors import printable
from attncli.show.figures import Note, Picture, drawing
from attncli.show.themes import Sheet
from attncli.studies.study import Result

Numbers = NDArray[np.float64]
PAD = 0.08  # inches around everything
CHARACTER = 0.6  # em that one takes in a title, about
SAMPLE = 4.8  # em of a legend that the sample of an entry takes, with the gap to the next
LEAST = 18.0  # em of a panel's sides, with its texts, where the page may be as large as it needs
AROUND, WIDE = 5.0, 1.3  # em around a panel for its texts; its width to its height where it is well shaped
NO_ROOM = "axes sizes collapsed to zero"  # what matplotlib says where texts take all of a page
AS_FIT: Any = "auto"  # ticks of matplotlib's locators
MOST_TICKS, ROOMY = 8, 6  # upwards; there is room for all of them from so many labels with gaps
LONGEST = 40  # characters of a line of a legend
BAND, ALL_BANDS = 0.16, 0.8  # opacity of one, and at most of as many as may lie upon each other


def drawn(figure_of: Callable[[Result, Note, Sheet], Picture], result: Result, note: Note, look: Look) -> Picture:
    """The figure of a result in a look, in fonts that can draw its labels; what it cannot show goes to `note`."""
    with drawing([*result.labels, look.title or ""], note, look) as sheet:
        figure = figure_of(result, note, sheet)
        if sheet.size is not None:
            _check_room(figure, note)
        return figure


def _check_room(figure: Picture, note: Note) -> None:
    """A note where a page is too small for its text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure.draw_without_rendering()
    (width, height), inked = figure.get_size_inches(), figure.get_tightbbox()
    is_cut = min(inked.x0, inked.y0, width - inked.x1, height - inked.y1) < 0
    if is_cut or any(NO_ROOM in str(each.message) for each in caught):
        note(f"{width:g} x {height:g} inches are too small for this picture; expected a larger size or smaller text")


def reference(sheet: Sheet) -> dict[str, Any]:
    """A line that is no scorer's."""
    width = 0.75 * sheet.settings["lines.linewidth"]
    return {"color": sheet.ink(0.85), "linewidth": width, "linestyle": (0, (1, 1.5)), "marker": ""}


def panels(
    sheet: Sheet, widths: Sequence[float], height: float, title: str, rows: int = 1
) -> tuple[Picture, list[Axes]]:
    """A figure with panels of these widths and this height in inches side by side, below a title that is folded.

    Panels below each other have the same axis upwards. Large text has larger panels. On a page of a given size they
    stand as they have most room.
    """
    least, count, beside = LEAST * sheet.em, rows * len(widths), len(widths)
    layout = ConstrainedLayoutEngine(h_pad=PAD, w_pad=PAD)
    figure = Picture(sheet, sum(max(each, least) for each in widths), max(height, least) * rows, layout=layout)
    if sheet.size is not None:
        beside = max((each for each in range(1, count + 1) if count % each == 0), key=partial(_room, sheet, count))
    figure.suptitle(folded(sheet.look.title or title, figure.get_figwidth(), sheet))
    ratios = widths if beside == len(widths) else [1] * beside
    axes = list(np.ravel(figure.subplots(count // beside, beside, width_ratios=ratios, squeeze=False)))
    for index, each in enumerate(axes[len(widths) :]):
        each.sharey(axes[index % len(widths)])
    return figure, axes


def _room(sheet: Sheet, count: int, beside: int) -> float:
    """The shorter side of a panel on a page of a given size, where so many of them stand beside each other."""
    assert sheet.size is not None
    width, height = sheet.size
    around = AROUND * sheet.em
    return min(width / beside - around, WIDE * ((height - around) * beside / count - around))


def folded(text: str, inches: float, sheet: Sheet) -> str:
    """A text in lines of at most this length."""
    shown = printable(text)
    width = sheet.em * CHARACTER * max(1.0, cell_len(shown) / max(1, len(shown)))
    return textwrap.fill(shown, max(8, int(inches / width)))


def name(axes: Axes, title: str, x: str, y: str = "") -> None:
    """Titles of a panel and of its sides."""
    figure: Any = axes.figure
    grid: Any = axes.get_gridspec()
    room = figure.get_figwidth() / grid.ncols - AROUND * figure.sheet.em / 2
    axes.set(title=folded(title, room, figure.sheet), xlabel=x, ylabel=y)


def draw_line(
    axes: Axes, x: Numbers, points: Sequence[Numbers], look: Mapping[str, Any], *, bands: int = 0, **options: Any
) -> None:
    """A line through points, and their low and high ends: as a band where there are so many `bands`, else as bars."""
    y, low, high = points
    if bands and len(x) > 1:
        opacity = min(BAND, ALL_BANDS / bands)
        axes.fill_between(x, low, high, color=look["color"], alpha=opacity, linewidth=0, zorder=2)
    else:
        axes.vlines(x, low, high, colors=look["color"], linewidth=look["linewidth"], zorder=2.5)
    axes.plot(x, y, zorder=3, **{**look, **options})


def sizes_axis(axes: Axes, sizes: Iterable[int]) -> None:
    """Sizes such as d on a logarithmic axis, with the sizes themselves as ticks where there is room for them."""
    found = sorted(set(sizes))
    axes.set_xscale("log")
    axes.set_xlim(found[0] / 1.6, found[-1] * 1.6)
    em = FontProperties(size=matplotlib.rcParams["xtick.labelsize"]).get_size_in_points() / 72
    inches = axes.get_window_extent().width / axes.figure.dpi / math.log(2.56 * found[-1] / found[0])
    for step in range(1, len(found) + 1):
        shown = found[::-1][::step]
        if all(math.log(b / a) * inches > em * CHARACTER * (len(str(b)) + 0.5) for b, a in pairwise(shown)):
            break
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.xaxis.set_minor_locator(NullLocator())


def decades_axis(axes: Axes, text: Callable[[float], str] = "{:g}".format) -> None:
    """A logarithmic axis upwards, labelled at powers of ten, or between them where those are too few.

    To be called once everything is drawn.
    """
    axes.set_yscale("log", nonpositive="clip")
    axes.yaxis.set_major_locator(LogLocator(numticks=MOST_TICKS if (roomy := _is_roomy(axes)) else AS_FIT))
    axes.yaxis.set_major_formatter(lambda value, _: text(value))
    axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5), numticks=MOST_TICKS if roomy else AS_FIT))
    low, high = axes.get_ylim()
    few = roomy and sum(low <= tick <= high for tick in axes.get_yticks()) < 3
    axes.yaxis.set_minor_formatter(lambda value, _: text(value) if few else "")


def unit_axis(axes: Axes) -> None:
    """0 to 1, with room for a line at either end."""
    axes.set_ylim(-0.03, 1.03)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1.0] if _is_roomy(axes) else [0, 0.5, 1.0])


def _is_roomy(axes: Axes) -> bool:
    """Whether there is room for ticks upwards as many as there may be."""
    return axes.yaxis.get_tick_space() >= ROOMY


def legend(figure: Picture, looks: Mapping[str, Mapping[str, Any]]) -> None:
    """A legend below all panels, in as many columns as fit: what each text stands for, as options of a line."""
    lines = [Line2D([], [], **look) for look in looks.values()]
    em = figure.sheet.em
    room = int((figure.get_figwidth() / em - SAMPLE) / CHARACTER)
    texts = [textwrap.fill(printable(text), min(LONGEST, max(8, room))) for text in looks]
    widths = [em * (SAMPLE + CHARACTER * max(map(cell_len, text.splitlines()))) for text in texts]
    rows = range(1, len(texts) + 1)
    columns = ([max(widths[start : start + count]) for start in range(0, len(texts), count)] for count in rows)
    fitting = next((each for each in columns if sum(each) <= figure.get_figwidth()), widths[:1])
    figure.legend(lines, texts, loc="outside lower center", ncols=len(fitting))
