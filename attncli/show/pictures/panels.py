"""Panels in one grid, laid out by matplotlib's constrained layout, and the axes, lines and legends of curves."""

import math
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, Formatter, FuncFormatter, LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import Bbox, TransformedBbox
from numpy.typing import NDArray
from rich.cells import cell_len

from attncli.config.looks import Look
from attncli.errors import printable
from attncli.results import Result
from attncli.show.pictures.figures import Note, Picture, PlainText, drawing
from attncli.show.pictures.themes import THIN, Sheet

Numbers = NDArray[np.float64]
Size = tuple[float, float]  # in inches
COLUMN, BOTH_COLUMNS = 4.2, 7.0  # inches, for the 3.3 or 6.9 of a paper
FEW_PANELS = 4  # fit into one column
CURVES: Size = (1.0, 1.0)  # shape of a panel of curves, for the choice of columns
SPARE = 30.0  # em of a page before its panels have their size
ONE_ROW = 3  # most panels that stand in one row, or in one column of a high page or of wide panels
PAGE, ROW_PAGE = (1.1, 1.0), (2.0, 1.0)  # shape of a page without a given size: of many panels, and of few
LEAST = (4.0, 4.0)  # em; smallest readable width and height of curves
NARROWEST = 0.6  # inches; narrowest panel on a page without a given size
INNER = 0.8  # share of a panel in its place, beside its ticks
CHARACTER = 0.6  # em that a character takes on average
TOGETHER = "\N{NO-BREAK SPACE}"
LONGEST, HANDLE = 40, 4.0  # of a legend: characters of a line, and em beside a text
NEAR, SAME, DASH = 0.5, 0.5, 3.0  # of lines below others: points apart, share of their points, widths of a dash
BAND, ALL_BANDS = 0.16, 0.8  # opacity of a band, and of all bands together
ROOM = 0.3  # least height of bands beyond the lines: in decades, or relative to the largest value
LEAST_PLAIN, MOST_PLAIN = 1e-3, 1e5  # range of tick labels written without powers of ten
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def drawn(
    figure_of: Callable[[Result, Note, Sheet], Picture], result: Result, note: Note, look: Look, name: str = ""
) -> Picture:
    """Return the picture of a result, laid out with the user's options.

    Args:
        figure_of: function that makes the picture on a sheet.
        result: the result to draw.
        note: is called with a sentence on anything that is left out.
        look: the user's options.
        name: the name of the file in notes; by default the name of the study.
    """
    with drawing(result.labels, note, look, result.about, result.scorers) as sheet:
        figure = figure_of(result, note, sheet)
        lay_out(figure, (10 * BOTH_COLUMNS, 10 * BOTH_COLUMNS / figure.shape), note, name or result.study)
        return figure


def one_figure(
    figure_of: Callable[[Result, Note, Sheet], Picture],
) -> Callable[[Result, Note, Look], Mapping[str, Callable[[], Picture]]]:
    """Return the function `figures` for a study with a single picture, which has the name of the study."""
    return lambda result, note, look: {result.study: partial(drawn, figure_of, result, note, look)}


def columns_of(count: int, shape: Size, sheet: Sheet, step: int = 1, *, beside: float = 0.0) -> int:
    """Return the number of columns that makes panels of this shape largest, with `beside` em of text on their left.

    Panels form groups of `step`: a row has whole groups, or a group has whole rows. Few panels are one group.
    """
    is_few = count <= ONE_ROW
    (width, height), step = sheet.size or (ROW_PAGE if is_few else PAGE), count if is_few else step
    able: Sequence[int] = range(1, count + 1)
    if step > 1:
        able = [columns for columns in able if count % columns == 0 and (columns % step == 0 or step % columns == 0)]
    beside *= sheet.em if sheet.size else 0.0

    def room(columns: int) -> float:
        return min((width / columns - beside) / shape[0], height / math.ceil(count / columns) / shape[1])

    return max(able, key=room)


def page(sheet: Sheet, size: Size, title: str, facts: Iterable[str] = ()) -> Picture:
    """Return a picture without panels, with a title and facts. `size` is for 9 points, if the sheet has no size.

    The question of the experiment, if it has one, is the title, and the picture's own title the first fact.
    """
    if sheet.about and sheet.look.title is None:
        title, facts = sheet.about, [*filter(None, [title]), *facts]
    text = title if sheet.look.title is None else sheet.look.title
    figure = Picture(sheet, sheet.unit * size[0], sheet.unit * size[1], facts, layout="constrained")
    figure.title = figure.suptitle(_together(text), x=0.01, ha="left", wrap=True)
    figure.subtitle = figure.text(0.01, 0.5, "", color=sheet.ink(0.7), va="top", wrap=True)
    figure.title.__class__ = figure.subtitle.__class__ = PlainText
    return figure


def _together(text: str) -> str:
    """Return a text that is not broken inside `name = value` and `q . k`."""
    return text and re.sub(r" ([=.]) ", rf"{TOGETHER}\1{TOGETHER}", printable(text))


def grid(sheet: Sheet, count: int, columns: int, title: str, facts: Iterable[str] = ()) -> tuple[Picture, list[Axes]]:
    """Return a picture with panels in columns below a title and a subtitle of facts, before they are laid out."""
    rows = math.ceil(count / columns)
    width = COLUMN if count <= FEW_PANELS and columns <= 2 else BOTH_COLUMNS
    figure = page(sheet, (width, rows * width / columns), title, facts)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for index, spare in enumerate(axes[count:], count):
        spare.remove()
        axes[index - columns].xaxis.set_in_layout(False)  # its labels use the free place below it
    return figure, axes[:count]


def lay_out(figure: Picture, panel: Size, note: Note, name: str, *, widest: float = 0.0, least: Size = LEAST) -> None:
    """Write the subtitle and lay a picture out, with a note if its panels become too small to read.

    A page without a given size grows or shrinks until its panels have the size `panel`. They are smaller, with the same
    shape, if the page would be wider than `widest` inches, by default its present width. `least` is the smallest
    readable width and height in em.
    """
    sheet, axes = figure.sheet, [panel for panel in figure.axes if panel.get_subplotspec() is not None]
    file = f"{name}.{sheet.look.format}"
    if sheet.look.words:
        _translate(figure, axes)
    facts = "; ".join(figure.facts) if sheet.look.subtitle is None else sheet.look.subtitle
    figure.subtitle.set_text(_together(facts))
    spec, smallest = axes[0].get_gridspec(), np.array(least) * sheet.em
    assert spec is not None
    if sheet.size is None:  # high enough to measure the room around the panels, whatever the texts need
        width, height = figure.get_size_inches()
        figure.set_size_inches(width, height + SPARE * sheet.em)
    fits = _execute(figure)
    if sheet.size is None:
        page, sides = figure.get_size_inches(), _panel_size(figure, axes)
        around = page - (spec.ncols * sides[0], spec.nrows * sides[1])
        share = min(1.0, max(((widest or page[0]) - around[0]) / spec.ncols, NARROWEST) / panel[0])
        figure.set_size_inches(around + share * np.array((spec.ncols * panel[0], spec.nrows * panel[1])))
        fits = _execute(figure)
    elif figure.subtitle.get_text() and not (fits and (_panel_size(figure, axes) >= smallest).all()):
        note(f"{file}: no room for the subtitle")
        figure.subtitle.set_text("")
        fits = _execute(figure)
    if not fits and figure.legends:
        note(f"{file}: no room for the legend")
        for legend_ in [*figure.legends]:
            legend_.remove()
        fits = _execute(figure)
    figure.set_layout_engine(None)  # or it would be laid out again, to the same result, each time it is drawn
    for axes_ in axes:  # the solver's last digits vary, and with them the bytes of files
        axes_.set_position(np.round(axes_.get_position().bounds, 9).tolist())
        axes_.set_in_layout(True)
        _show_whole_markers(axes_)
        _show_hidden_lines(axes_)
    for axes_ in figure.axes:
        locator: Any = axes_.get_axes_locator()
        axes_.apply_aspect(locator(axes_, None) if locator else None)  # colour bars have their size only when drawn
        thin_ticks(axes_.xaxis)
        thin_ticks(axes_.yaxis)
    if not (fits and (_panel_size(figure, axes) >= smallest).all()):
        width, height = figure.get_size_inches()
        size = f"{width:.3g} x {height:.3g} inches with text of {sheet.points:.3g} points"
        note(f"warning: {file}: the panels are too small to read on {size}; make the page larger")


def _translate(figure: Picture, axes: Sequence[Axes]) -> None:
    """Replace texts by the look's words for them."""
    sheet = figure.sheet
    widths: dict[Any, float] = {
        text: column_width(panel) for panel in axes for text in (panel.title, panel.xaxis.label)
    }
    widths[figure.title], other = figure.get_figwidth(), LONGEST * CHARACTER * sheet.em
    figure.facts = [figure.translation(fact) for fact in figure.facts]
    for text in {*figure.findobj(Text)} - {*figure.translated}:
        before = " ".join(text.get_text().replace(TOGETHER, " ").split())
        after = figure.translation(before)
        if after != before:
            text.set_text(folded(after, widths.get(text, other), sheet))
    for axis in (axis for panel in axes for axis in (panel.xaxis, panel.yaxis)):
        low, high = sorted(axis.get_view_interval())
        ticks = [tick for tick in axis.get_majorticklocs().tolist() if low <= tick <= high]
        labels = axis.get_major_formatter().format_ticks(ticks)
        translations = [figure.translation(label) for label in labels]
        if translations != labels:
            axis.set_ticks(ticks, translations)


def _execute(figure: Picture) -> bool:
    """Run matplotlib's layout, with room for the subtitle; return whether the panels have room beside their texts."""
    layout: Any = figure.get_layout_engine()
    subtitle = figure.subtitle
    height, padding = figure.bbox.height, layout.get()["h_pad"] * figure.dpi
    room = subtitle.get_window_extent().height + padding if subtitle.get_text() else 0.0
    layout.set(rect=(0, 0, 1, max(0.1, 1 - room / height)))
    with warnings.catch_warnings(record=True, action="always") as caught:
        layout.execute(figure)
    subtitle.set_y((figure.title.get_window_extent().y0 - padding) / height)
    return not any("constrained_layout" in str(warning.message) for warning in caught)


def _show_whole_markers(axes: Axes) -> None:
    """Let markers on the edge of a panel reach beyond it."""
    figure: Any = axes.figure
    points = 72 * axes.get_position().size * figure.get_size_inches()
    for line in axes.lines:
        if line.get_marker() not in ("", "None"):
            beyond = (line.get_markersize() / 2 + line.get_markeredgewidth()) / points
            line.set_clip_box(TransformedBbox(Bbox([-beyond, 1 + beyond]), axes.transAxes))


def _show_hidden_lines(axes: Axes) -> None:
    """Show lines below others that have mostly the same points: they have dashes and markers in turn."""
    groups, near = list[list[Line2D]](), NEAR * axes.figure.dpi / 72
    for line in axes.lines:
        points = axes.transData.transform(line.get_xydata())
        if line.get_marker() in ("", "None") or not len(points):  # a reference, or nothing
            continue
        for group in groups:
            others = axes.transData.transform(group[0].get_xydata())
            if len(others) == len(points) and (np.abs(points - others).max(1) < near).mean() > SAME:
                group.append(line)
                break
        else:
            groups.append([line])
    for group in groups:
        for index, line in enumerate(group):
            if index and line.get_linestyle() != "None":
                line.set_linestyle((DASH * (len(group) - index), (DASH, DASH * (len(group) - 1))))
            if len(group) > 1 and line.get_markevery() is None and np.size(line.get_xdata()) >= len(group):
                line.set_markevery((index, len(group)))


def thin_ticks(axis: Axis) -> None:
    """Leave out numbers of an axis that would overlap: keep 0 and one in two or fewer, or only the ends."""
    low, high = sorted(axis.get_view_interval())
    ticks = zip(map(float, axis.get_majorticklocs()), axis.get_ticklabels(), strict=False)  # no labels where hidden
    shown = [(tick, label) for tick, label in ticks if low <= tick <= high and label.get_text()]
    if len(shown) < 2 or any(
        any(map(str.isalpha, label.get_text())) or label.get_rotation() % 90 for _, label in shown
    ):
        return
    zero = next((index for index, (tick, _) in enumerate(shown) if tick == 0), 0)
    choices = [shown[zero % step :: step] for step in range(1, len(shown))]
    for kept in [*(choice for choice in choices if len(choice) > 1), [shown[0], shown[-1]]]:
        boxes = [label.get_window_extent() for _, label in kept]
        if not any(a.overlaps(b) for a, b in pairwise(boxes)):
            break
    if len(kept) < len(shown):
        axis.set_ticks([tick for tick, _ in kept], [label.get_text() for _, label in kept])


def _panel_size(figure: Picture, axes: Sequence[Axes]) -> Numbers:
    """Return the least width and the least height of the panels, in inches."""
    inches: Numbers = np.min([panel.get_position().size for panel in axes], axis=0) * figure.get_size_inches()
    return inches


def panels(
    sheet: Sheet, count: int, title: str, facts: Iterable[str] = (), *, step: int = 1
) -> tuple[Picture, list[Axes]]:
    """Return a picture with `count` panels of curves in a grid, with groups of `step` panels in whole rows."""
    return grid(sheet, count, columns_of(count, CURVES, sheet, step), title, facts)


def folded(text: str, inches: float, sheet: Sheet) -> str:
    """Return a text wrapped evenly to this width in inches, long words after underscores; not inside `name = value`."""
    together = _together(text)
    character = sheet.em * CHARACTER * max(1.0, cell_len(together) / max(1, len(together)))  # Chinese is wider
    width = max(8, int(inches / character))
    if max(map(len, together.split()), default=0) > width:
        together = together.replace("_", "_\v")
    longest = max(map(len, re.split("[ \n\v]", together)), default=0)
    lines = even = textwrap.wrap(together, width, replace_whitespace=False)
    while len(lines) > 1 and width > longest and len(even) == len(lines):  # lines of about the same length
        width, lines = width - 1, even
        even = textwrap.wrap(together, width, replace_whitespace=False)
    return "\n".join(lines).replace("\v", "").replace(TOGETHER, " ")


def name(axes: Axes, title: str, x: str, y: str = "") -> None:
    """Set the titles of a panel and of its axes; `title` and `x` may have several lines."""
    figure, inches = axes.figure, column_width(axes)
    assert isinstance(figure, Picture)
    title, x = ("\n".join(folded(line, inches, figure.sheet) for line in text.split("\n")) for text in (title, x))
    axes.set(title=title, xlabel=x, ylabel=y)


def column_width(axes: Axes) -> float:
    """Return about the width of a panel in inches, before it is laid out."""
    figure: Any = axes.figure
    spec: Any = axes.get_subplotspec()
    ratios = spec.get_gridspec().get_width_ratios()
    share = sum(ratios[column] for column in spec.colspan) / sum(ratios)
    return float(INNER * figure.get_figwidth() * share)


def reference(sheet: Sheet) -> dict[str, Any]:
    """Return the options of a dotted reference line."""
    return {"color": sheet.ink(0.85), "linewidth": THIN, "linestyle": (0, (1, 1.5)), "marker": ""}


def draw_line(
    axes: Axes, x: Numbers, points: Sequence[Numbers], look: Mapping[str, Any], *, bands: int = 0, **options: Any
) -> None:
    """Draw a line through `points` (y, low, high), with low to high as a band, or as vertical bars if `bands` is 0.

    `look` has matplotlib's options of a line, `bands` is the number of bands in the panel.
    """
    y, low, high = points
    options = {**look, **options}
    if bands and len(x) > 1:
        opacity = min(BAND, ALL_BANDS / bands)
        axes.fill_between(x, low, high, color=look["color"], alpha=opacity, linewidth=0, zorder=2)
    else:
        axes.vlines(x, low, high, colors=look["color"], linewidth=look["linewidth"], zorder=2.5)
    axes.plot(x, y, zorder=3, **options)


def frame(axes: Sequence[Axes], spreads: str) -> None:
    """Limit the common vertical axis of panels if their `spreads`, such as bands, would leave the lines little height.

    The spreads then reach beyond the lines by half of the lines' range, or by ROOM, and the subtitle says so.
    """
    scale, figure = axes[0].yaxis.get_transform().transform, axes[0].figure
    assert isinstance(figure, Picture)
    is_log = axes[0].get_yscale() == "log"
    values = np.concatenate([np.asarray(line.get_ydata(), float) for panel in axes for line in panel.lines])
    values = values[np.isfinite(values) & ((values > 0) | (not is_log))]
    if not values.size:
        return
    ends: Numbers = scale(np.array([values.min(), values.max()]))
    room = max(np.ptp(ends) / 2, ROOM if is_log else ROOM * np.abs(values).max())
    limits: Numbers = scale(np.array(axes[0].get_ylim()))
    framed = np.clip(limits, ends[0] - room, ends[1] + room)
    if (framed != limits).any():
        axes[0].set_ylim(*axes[0].yaxis.get_transform().inverted().transform(framed))
        figure.facts.append(f"{spreads} far beyond the lines are cut off")


def sizes_axis(axes: Axes, sizes: Iterable[int]) -> None:
    """Set up a logarithmic axis with ticks at sizes such as d, thinned out if there is little room."""
    ticks = sorted(set(sizes))
    axes.set_xscale("log")
    axes.set_xlim(ticks[0] / 1.6, ticks[-1] * 1.6)
    axes.xaxis.set_major_locator(FixedLocator(ticks, nbins=max(2, axes.xaxis.get_tick_space())))
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.xaxis.set_minor_locator(NullLocator())


class PlainFormatter(Formatter):
    """Formatter of all ticks of an axis as plain numbers, or as powers of ten if some ticks are small or large."""

    def __call__(self, value: float, pos: int | None = None) -> str:
        """Return the label of a single number, with three digits where it has decimals."""
        return f"{value:{'g' if abs(value) >= 1000 else '.3g'}}".replace("-", "−")

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        """Return the labels of all ticks."""
        if all(LEAST_PLAIN <= abs(value) < MOST_PLAIN for value in values if value):
            return [self(value) for value in values]
        return [_power(value) for value in values]


def _power(value: float) -> str:
    """Return a number such as `10⁻⁵`, `−2·10⁶` or `0`."""
    digits, _, exponent = f"{abs(value):.2e}".partition("e")
    power = f"10{str(int(exponent)).translate(SUPERSCRIPTS)}"
    sign = "−" if value < 0 else ""
    return "0" if not value else sign + (power if digits == "1.00" else f"{float(digits):g}·{power}")


def decades_axis(axes: Axes, text: Callable[[float], str] | None = None) -> None:
    """Make the vertical axis logarithmic, with ticks at powers of ten, and between them on a short range."""
    axes.set_yscale("log", nonpositive="clip")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if high > 100 * low else (1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)) if text else PlainFormatter())


def unit_axis(axes: Axes) -> None:
    """Set up a vertical axis from 0 to 1, with room for a line at either end."""
    axes.set_ylim(-0.03, 1.03)
    axes.yaxis.set_major_locator(MaxNLocator("auto", steps=[2.5, 5, 10]))


def legend(figure: Picture, looks: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw a legend below all panels; `looks` has the options of the line for each text."""
    draw_legend(figure, [*looks], [Line2D([], [], **look) for look in looks.values()])


def draw_legend(figure: Picture, texts: Sequence[str], handles: Sequence[Artist]) -> None:
    """Draw a legend below all panels in as many columns as fit; many long texts are folded into two columns."""
    sheet, texts = figure.sheet, [figure.translation(text) for text in texts]
    whole, half = LONGEST * CHARACTER * sheet.em, figure.get_figwidth() / 2 - HANDLE * sheet.em
    layouts = [(columns, whole) for columns in range(len(texts), 0, -1)]
    if len(texts) > 2:
        layouts.insert(-1, (2, half))
    for columns, inches in layouts:
        names = [folded(text, inches, sheet) for text in texts]
        drawn = figure.legend([*handles], names, loc="outside lower center", ncols=columns)
        if columns == 1 or drawn.get_window_extent().width <= figure.bbox.width:
            figure.translated += drawn.get_texts()
            return
        drawn.remove()
