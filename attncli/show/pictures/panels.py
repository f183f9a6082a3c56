"""Panels in one grid, laid out once by matplotlib's constrained layout, and the axes, lines and legends of curves."""

import math
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import (
    FixedLocator,
    Formatter,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullLocator,
)
from numpy.typing import NDArray
from rich.cells import cell_len

from attncli.config.looks import Look
from attncli.errors import InputError, got, printable
from attncli.results import Result
from attncli.show.pictures.figures import Note, Picture, PlainText, drawing
from attncli.show.pictures.themes import THIN, Sheet

Numbers = NDArray[np.float64]
Size = tuple[float, float]  # in inches
COLUMN, BOTH_COLUMNS = 4.2, 7.0  # inches, for the 3.3 or 6.9 of a paper
ONE_ROW = 3  # most panels that stand in one row, or in one column of a high page or of wide panels
PAGE, ROW_PAGE = (1.1, 1.0), (2.0, 1.0)  # shape of a page without a given size: of many panels, and of few
LEAST = (7.0, 4.5)  # em; smallest readable width and height of curves
CHARACTER = 0.6  # em that a character takes on average
AROUND = 0.8  # inches below a panel of curves for its labels
TOGETHER = "\N{NO-BREAK SPACE}"
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
        if look.panel is not None:
            _keep_panel(figure, look.panel, name or result.study)
        lay_out(figure, note, name or result.study)
        return figure


def one_figure(
    figure_of: Callable[[Result, Note, Sheet], Picture],
) -> Callable[[Result, Note, Look], Mapping[str, Callable[[], Picture]]]:
    """Return the function `figures` for a study with a single picture, which has the name of the study."""
    return lambda result, note, look: {result.study: partial(drawn, figure_of, result, note, look)}


def grid_columns(count: int, shape: Size, sheet: Sheet, around: Size = (0.0, 0.0)) -> int:
    """Return the number of columns that makes panels of this shape largest; few panels are one row or one column.

    Texts beside and above each panel take `around` inches with 9 points, however small a page of a given size is.
    """
    width, height = sheet.size or (ROW_PAGE if count <= ONE_ROW else PAGE)
    choices = (1, count) if count <= ONE_ROW else range(1, count + 1)
    panel, texts = np.array(shape), np.array(around)

    def room(columns: int) -> float:
        place = np.array([width / columns, height / math.ceil(count / columns)])
        shares = (place - sheet.unit * texts) / panel if sheet.size else place / (panel + texts)
        return float(shares.min())

    return max(choices, key=room)


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


def panels(
    sheet: Sheet, count: int, title: str, facts: Iterable[str] = (), *, columns: int | None = None
) -> tuple[Picture, list[Axes]]:
    """Return a picture with `count` panels of curves in a grid, below a title and a subtitle of facts."""
    columns = columns or grid_columns(count, (1.0, 1.0), sheet)
    rows = math.ceil(count / columns)
    across, down = (1, 1) if sheet.look.panel else (columns, rows)
    width = COLUMN if across * down <= 4 and across <= 2 else BOTH_COLUMNS
    figure = page(sheet, (width, down * (width / across / Picture.shape + AROUND)), title, facts)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in axes[count:]:
        spare.remove()
    return figure, axes[:count]


def check_panel(number: int, count: int, name: str) -> None:
    """Raise InputError if a picture with `count` panels has none with this number, counted from 1."""
    if number > count:
        expected = f"expected {'1, the only panel' if count == 1 else f'1 to {count}, a panel'} of {name}"
        raise InputError.of(got(number, expected), ["panel"])


def _keep_panel(figure: Picture, number: int, name: str) -> None:
    """Remove all panels of curves but one, counted from 1, and the entries of the legend that it does not have."""
    axes = list(figure.axes)
    check_panel(number, len(axes), name)
    for panel in axes:
        if panel is not axes[number - 1]:
            panel.remove()
    chosen = axes[number - 1]
    chosen.set_subplotspec(figure.add_gridspec(1, 1)[0])
    labels = {str(artist.get_label()).lstrip("_") for artist in chosen.get_children()}
    figure.entries = {text: look for text, look in figure.entries.items() if text.lstrip("_") in labels}


def lay_out(
    figure: Picture, note: Note, name: str, *, least: Size = LEAST, adjust: Callable[[], bool] = lambda: False
) -> None:
    """Write the subtitle and the legend and lay a picture out, with a note if its panels are too small to read.

    A page without a given size grows by its texts; on another one, low panels have the room of the subtitle, then of
    the legend. `least` is the smallest readable width and height of a panel in em. `adjust` changes texts once the
    panels have places, and returns whether it did.
    """
    sheet, axes = figure.sheet, [panel for panel in figure.axes if panel.get_subplotspec() is not None]
    file = f"{name}.{sheet.look.format}"
    if figure.entries:
        draw_legend(figure, [*figure.entries], [Line2D([], [], **look) for look in figure.entries.values()])
    if sheet.look.words:
        _translate(figure, axes)
    facts = "; ".join(figure.facts) if sheet.look.subtitle is None else sheet.look.subtitle
    figure.subtitle.set_text(_together(facts))
    width, height = figure.get_size_inches()
    if sheet.size is None:
        texts = [text for text in (figure.title, figure.subtitle) if text.get_text()]
        room = sum(text.get_window_extent().height for text in (*texts, *figure.legends)) / figure.dpi
        figure.set_size_inches(width, height + room + 0.5 * sheet.em * len(texts))
    smallest = np.array(least) * sheet.em
    lowest = np.array([0.0, smallest[1] if sheet.size else 0.0])
    fits = _execute(figure)
    if adjust():
        fits = _execute(figure)
    if sheet.size is not None and facts and not (fits and _has_room(figure, axes, lowest)):
        note(f"{file}: no room for the subtitle")
        figure.subtitle.set_text("")
        fits = _execute(figure)
    if figure.legends and not (fits and _has_room(figure, axes, lowest)):
        note(f"{file}: no room for the legend")
        figure.legends.clear()
        fits = _execute(figure)
    figure.set_layout_engine(None)  # or it would be laid out again, to the same result, each time it is drawn
    for panel in axes:  # the solver's last digits vary, and with them the bytes of files
        panel.set_position(np.round(panel.get_position().bounds, 9).tolist())
        panel.set_in_layout(True)
        _show_hidden_lines(panel)
    if figure.rows_label is not None:  # matplotlib sets it in the middle of the page, which has a title
        figure.rows_label.set_y(0.5 * (min(p.get_position().y0 for p in axes) + max(p.get_position().y1 for p in axes)))
    if not (fits and _has_room(figure, axes, smallest)):
        width, height = figure.get_size_inches()
        cure = "make the page larger" if len(axes) == 1 else "make the page larger, or draw one with --panel N"
        size = f"{width:.3g} x {height:.3g} inches with text of {sheet.points:.3g} points"
        note(f"warning: {file}: the panels are too small to read on {size}; {cure}")


def _has_room(figure: Picture, axes: Sequence[Axes], smallest: Numbers) -> bool:
    """Whether all panels have at least this width and height in inches."""
    sides = np.min([panel.get_position().size for panel in axes], axis=0) * figure.get_size_inches()
    return bool((sides >= smallest).all())


def _translate(figure: Picture, axes: Sequence[Axes]) -> None:
    """Replace texts by the look's words for them."""
    figure.facts = [figure.translation(fact) for fact in figure.facts]
    for text in {*figure.findobj(Text)} - {*figure.translated}:
        before = " ".join(text.get_text().replace(TOGETHER, " ").split())
        after = figure.translation(before)
        if after != before:
            text.set_text(after)
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


def folded(text: str, inches: float, sheet: Sheet) -> str:
    """Return a text wrapped to about this width in inches, long names after underscores; not inside `name = value`."""
    together = _together(text)
    character = sheet.em * CHARACTER * max(1.0, cell_len(together) / max(1, len(together)))  # Chinese is wider
    width = max(8, int(inches / character))
    if max(map(len, together.split()), default=0) > width:
        together = together.replace("_", "_\v")
    lines = textwrap.wrap(together, width, break_long_words=False, replace_whitespace=False)
    return "\n".join(lines).replace("\v", "").replace(TOGETHER, " ")


def column_width(axes: Axes) -> float:
    """Return about the width in inches that the title of a panel may have."""
    figure, spec = axes.figure, axes.get_subplotspec()
    assert isinstance(figure, Picture)
    assert spec is not None
    return 0.85 * figure.get_figwidth() / (1 if figure.sheet.look.panel else spec.get_gridspec().ncols)


def name(axes: Axes, title: str, x: str, y: str = "") -> None:
    """Set the titles of a panel and of its axes; `title` and `x` may have several lines."""
    figure, inches = axes.figure, column_width(axes)
    assert isinstance(figure, Picture)
    title, x = ("\n".join(folded(line, inches, figure.sheet) for line in text.split("\n")) for text in (title, x))
    axes.set(title=title, xlabel=x, ylabel=y)


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


class RoomyLocator(FixedLocator):
    """Ticks at fixed places, as many of them as the axis has room for when it is drawn."""

    def __call__(self) -> Any:
        """Return the places of the ticks."""
        axis: Any = self.axis
        self.nbins = max(2, axis.get_tick_space())
        return super().__call__()


def sizes_axis(axes: Axes, sizes: Iterable[int]) -> None:
    """Set up a logarithmic axis with ticks at sizes such as d, thinned out if there is little room."""
    ticks = sorted(set(sizes))
    axes.set_xscale("log")
    axes.set_xlim(ticks[0] / 1.6, ticks[-1] * 1.6)
    axes.xaxis.set_major_locator(RoomyLocator(ticks))
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
    """Set the entries of the legend below all panels; `looks` has the options of the line for each text."""
    figure.entries = dict(looks)


def draw_legend(figure: Picture, texts: Sequence[str], handles: Sequence[Artist]) -> None:
    """Draw a legend below all panels in as many columns as fit."""
    texts = [figure.translation(text) for text in texts]
    for columns in range(len(texts), 0, -1):
        box = figure.legend([*handles], texts, loc="outside lower center", ncols=columns)
        if columns == 1 or box.get_window_extent().width <= figure.bbox.width:
            figure.translated += box.get_texts()
            return
        box.remove()
