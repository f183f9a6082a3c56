"""Panels side by side for the figures of studies: matplotlib's own axes, locators, legends and constrained layout."""

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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

from attncli.common.study import Result
from attncli.config.looks import Look
from attncli.errors import printable
from attncli.show.figures import Note, Picture, drawing, unheard
from attncli.show.themes import Arrangement, Sheet

Numbers = NDArray[np.float64]
PAD = 0.08  # inches around everything
CHARACTER = 0.6  # em that one takes in a title, about
SAMPLE = 4.8  # em of a legend that the sample of an entry takes, with the gap to the next
PAD_EM = 0.35  # em, on a page of a given size
COMPACT: dict[str, Any] = {
    "handlelength": 1.6,
    "handletextpad": 0.5,
    "columnspacing": 1.0,
    "labelspacing": 0.3,
    "borderpad": 0.2,
    "borderaxespad": 0.3,
}
COMPACT_SAMPLE = 2.6  # em, as SAMPLE, of a compact legend
LEAST = 18.0  # em of a panel's sides, with its texts, where the page may be as large as it needs
AROUND, WIDE = 5.0, 1.3  # em around a panel for its texts; its width to its height where it is well shaped
BESIDE = 0.4  # part of a page that a legend right of all panels takes at most
FITS, ROOM = 3.0, 6.0  # em of a panel's shorter side: where it can be read at all, and well
MOST_TRIED = 2  # numbers of panels beside each other
HOPEFUL = 0.5  # of the room that the best of them promises, where that is much
TOLERANCE = 2.0  # em that panels may lose for ticks and titles that fit them
AS_FIT: Any = "auto"  # ticks of matplotlib's locators
MOST_TICKS, ROOMY = 8, 6  # upwards; there is room for all of them from so many labels with gaps
TOGETHER = "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"
LONGEST = 40  # characters of a line of a legend
BAND, ALL_BANDS = 0.16, 0.8  # opacity of one, and at most of as many as may lie upon each other


def drawn(
    figure_of: Callable[[Result, Note, Sheet], Picture], result: Result, note: Note, look: Look, name: str = ""
) -> Picture:
    """The figure of a result in a look, in fonts that can draw its labels; what it cannot show goes to `note`.

    `name` is its file's, where it is not the study's.
    """
    with drawing([*result.labels, look.title or ""], note, look) as sheet:
        if sheet.size is None:
            return figure_of(result, note, sheet)
        found = _fitted(partial(figure_of, result), sheet)
        for text in found.notes:
            note(text)
        file = f"{name or result.study}.{look.format}"
        if not found.arrangement.titled and not look.title:
            note(f"{file}: there is no room for the line above the panels; the tables have what it says")
        if found.room < FITS * sheet.em:
            width, height = sheet.size
            enough = _enough(partial(figure_of, result), sheet, found.arrangement)
            note(f"{file}: the text does not fit into {width:g} x {height:g} inches{enough}")
        return found.figure


def one_figure(
    figure_of: Callable[[Result, Note, Sheet], Picture],
) -> Callable[[Result, Note, Look], Mapping[str, Callable[[], Picture]]]:
    """The `figures` of a study with one picture, which has the study's name."""
    return lambda result, note, look: {result.study: partial(drawn, figure_of, result, note, look)}


@dataclass(frozen=True)
class _Drawing:
    """A figure in an arrangement, the shorter side of its panels (below 0 where text is cut off), and its notes."""

    figure: Picture
    arrangement: Arrangement
    room: float
    notes: Sequence[str]


def _fitted(make: Callable[[Note, Sheet], Picture], sheet: Sheet) -> _Drawing:
    """The figure in the arrangement that leaves panels most room, with ticks and titles as many as they have room for.

    The subtitle is left out where it would leave panels too small.
    """
    grid: Any = make(unheard, sheet).axes[0].get_gridspec()
    count = grid.nrows * grid.ncols
    divisors = [each for each in range(1, count + 1) if count % each == 0]
    rooms = {each: _room(sheet, count, each) for each in divisors}
    likely = sorted(divisors, key=lambda each: -rooms[each])[:MOST_TRIED]
    most = rooms[likely[0]]
    if most > ROOM * sheet.em:  # with less of it such an estimate says little
        likely = [each for each in likely if rooms[each] > HOPEFUL * most]
    found = list[_Drawing]()
    for titled in (True, False):
        arrangements = [Arrangement(each, beside, titled) for each in likely for beside in (False, True)]
        best = max((_drawing(make, sheet, each) for each in arrangements), key=lambda each: each.room)
        again = _drawing(make, sheet, replace(best.arrangement, boxes=_boxes(best.figure)))
        found.append(again if again.room + TOLERANCE * sheet.em >= best.room else best)
        if found[0].room >= ROOM * sheet.em:
            break
    return max(found, key=lambda each: each.room)


def _drawing(make: Callable[[Note, Sheet], Picture], sheet: Sheet, arrangement: Arrangement) -> _Drawing:
    notes = list[str]()
    figure = make(notes.append, replace(sheet, arrangement=arrangement))
    layout: Any = figure.get_layout_engine()
    layout.execute(figure)
    (width, height), inked = figure.get_size_inches(), figure.get_tightbbox()
    room = min(inked.x0, inked.y0, width - inked.x1, height - inked.y1)
    legends: Any = [each.get_window_extent() for each in figure.legends]
    titles: Any = [text.get_window_extent() for text in figure.texts if text.get_text()]
    if any(each.overlaps(title) for each in legends for title in titles):
        room = -max(width, height)
    if room >= 0:
        room = min(min(box.width * width, WIDE * box.height * height) for box in _boxes(figure))
    return _Drawing(figure, arrangement, float(room), notes)


def _boxes(figure: Picture) -> list[Any]:
    """The places of all panels, as parts of the page."""
    return [axes.get_position() for axes in figure.axes if axes.get_subplotspec() is not None]


def _enough(make: Callable[[Note, Sheet], Picture], sheet: Sheet, arrangement: Arrangement) -> str:
    """The words for a page that would be large enough, as wide as this one if possible; none where there is none."""
    assert sheet.size is not None
    width, height = sheet.size
    for wider in (1.0, 2.0):
        for higher in (1.25, 1.5, 2.0, 3.0):
            size = [round(width * wider, 1), round(height * higher, 1)]
            larger = replace(sheet, size=size)
            if _drawing(make, larger, replace(arrangement, boxes=())).room >= FITS * sheet.em:
                return f"; about {size[0]:g} x {size[1]:g} would do"
    return ""


def reference(sheet: Sheet) -> dict[str, Any]:
    """A line that is no scorer's."""
    width = 0.75 * sheet.settings["lines.linewidth"]
    return {"color": sheet.ink(0.85), "linewidth": width, "linestyle": (0, (1, 1.5)), "marker": ""}


def panels(
    sheet: Sheet, widths: Sequence[float], height: float, title: str, rows: int = 1, quantities: int | None = None
) -> tuple[Picture, list[Axes]]:
    """A figure with panels of these widths and this height in inches side by side, below a title that is folded.

    Panels show so many `quantities` in turn, and those of one quantity have the same axis upwards; by default each
    panel of a row has a quantity of its own. Large text has larger panels. On a page of a given size they stand as they
    have most room.
    """
    turn = len(widths) if quantities is None else quantities
    least, count, beside = LEAST * sheet.em, rows * len(widths), len(widths)
    arrangement, pad = sheet.arrangement, PAD if sheet.size is None else min(PAD, PAD_EM * sheet.em)
    layout = ConstrainedLayoutEngine(h_pad=pad, w_pad=pad)
    figure = Picture(sheet, sum(max(each, least) for each in widths), max(height, least) * rows, layout=layout)
    if arrangement is not None:
        beside = arrangement.columns
    if sheet.look.title or arrangement is None or arrangement.titled:
        figure.suptitle(folded(sheet.look.title or title, figure.get_figwidth(), sheet))
    ratios = widths if beside == len(widths) else [1] * beside
    axes = list(np.ravel(figure.subplots(count // beside, beside, width_ratios=ratios, squeeze=False)))
    for index, each in enumerate(axes[turn:]):
        each.sharey(axes[index % turn])
    for each, box in zip(axes, arrangement.boxes if arrangement is not None else (), strict=False):
        each.set_position(box)
        each.set_in_layout(True)  # the place is only what ticks are chosen by
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
    together = shown.replace(" = ", TOGETHER)  # a name and its value stay in one line
    return textwrap.fill(together, max(8, int(inches / width))).replace(TOGETHER, " = ")


def name(axes: Axes, title: str, x: str, y: str = "") -> None:
    """Titles of a panel and of its sides."""
    figure: Any = axes.figure
    grid: Any = axes.get_gridspec()
    arrangement, em = figure.sheet.arrangement, figure.sheet.em
    if arrangement is not None and arrangement.boxes:
        room = axes.get_position().width * figure.get_figwidth() + em / 2
    else:
        room = figure.get_figwidth() / grid.ncols - AROUND * em / 2
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
        if all(math.log(b / a) * inches > em * CHARACTER * (len(str(b)) + 1) for b, a in pairwise(shown)):
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
    """A legend below all panels, in as many columns as fit: what each text stands for, as options of a line.

    On a page of a given size it is compact, and stands right of them where they have more room then.
    """
    lines = [Line2D([], [], **look) for look in looks.values()]
    em, arrangement, width = figure.sheet.em, figure.sheet.arrangement, figure.get_figwidth()
    beside, sample = arrangement is not None and arrangement.beside, SAMPLE if arrangement is None else COMPACT_SAMPLE
    room = int(((BESIDE if beside else 1) * width / em - sample) / CHARACTER)
    texts = [textwrap.fill(printable(text), min(LONGEST, max(8, room))) for text in looks]
    widths = [em * (sample + CHARACTER * max(map(cell_len, text.splitlines()))) for text in texts]
    rows = range(1, len(texts) + 1)
    columns = ([max(widths[start : start + count]) for start in range(0, len(texts), count)] for count in rows)
    fitting = widths[:1] if beside else next((each for each in columns if sum(each) <= width), widths[:1])
    look: dict[str, Any] = {"loc": "outside right center" if beside else "outside lower center", "ncols": len(fitting)}
    if arrangement is not None:
        look |= COMPACT
    figure.legend(lines, texts, **look)
