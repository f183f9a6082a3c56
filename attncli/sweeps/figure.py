"""sweep.png: the metric against what is swept, as lines over one key, heatmaps over two, small multiples over more."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise, product
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.ticker import MaxNLocator

from attncli.common.study import Record, Result
from attncli.config.looks import Look
from attncli.errors import printable
from attncli.numbers import number
from attncli.show.figures import Note, Picture
from attncli.show.panels import Numbers, decades_axis, draw_line, drawn, legend, name, panels
from attncli.show.scales import extend_of, norm_of, spans_decades, within
from attncli.show.themes import Sheet
from attncli.sweeps.columns import axes_of, columns_of, companions, is_number, shown
from attncli.sweeps.summary import summary, summary_names

WIDTH, HEIGHT = 5.2, 3.6  # inches of a single panel
SMALL = (2.6, 2.2)  # of one among several
CELL, LABELS = 0.5, 1.2  # inches: of a cell of a heatmap, and of the labels beside it
LETTERS = 7  # of ticks that an inch has room for
MOST_PANELS = 16
MOST_NUMBERED = 150  # cells of a heatmap with numbers in them
UNEVEN = 1.6  # ratios of neighbours in a geometric row of numbers differ by less
Axis = tuple[str, list[Any]]


def figures(result: Result, note: Note, look: Look) -> Mapping[str, Callable[[], Picture]]:
    """sweep.png, where some row has the metric."""
    there = any(row.get(result.settings["metric"]) is not None for row in result.records)
    return {"sweep": partial(drawn, sweep_figure, result, note, look, "sweep")} if there else {}


def sweep_figure(result: Result, note: Note, sheet: Sheet) -> Picture:
    """Means over the seeds; bands are their 95 % intervals."""
    metric, names = result.settings["metric"], summary_names(result)
    axes = [*axes_of(result).items()] or [("label", result.labels)]  # of a sweep over nothing but the seed
    rows = [row for row in summary(result, [metric]) if row[names["mean"]] is not None]
    most = max((row[names["count"]] for row in rows), default=0)
    title = f"{_metric(result)}; means of {most} runs" if most > 1 else _metric(result)
    if len(axes) == 2:
        return _heatmaps(result, sheet, rows, axes, names["mean"], title)
    axes.sort(key=lambda axis: (not _is_numeric(axis[1]), -len(axis[1])))
    bands = ", with 95 % intervals" if most > 1 else ""
    return _lines(result, note, sheet, rows, axes, names, f"{title}{bands}")


def _metric(result: Result) -> str:
    """The metric as tables head it, with its unit."""
    return columns_of(result)[result.settings["metric"]].name_with_unit


def _axis(result: Result, key: str) -> str:
    """An axis by its keys: the one whose values stand there, and below it what goes along with it."""
    return "\nwith ".join([key, *companions(result, key)])


def _lines(
    result: Result,
    note: Note,
    sheet: Sheet,
    rows: Sequence[Record],
    axes: Sequence[Axis],
    names: Mapping[str, str],
    title: str,
) -> Picture:
    """One panel for each combination of the values of all axes but the first, which goes to the right."""
    (x, values), *others = axes
    facets, columns = _facets(rows, others, note)
    width, height = SMALL if others else (WIDTH, HEIGHT)
    figure, places = panels(sheet, [width] * columns, height, title, rows=-(-len(facets) // columns), quantities=1)
    lines, is_log = sheet.lines(result.labels), spans_decades(row[names["mean"]] for row in rows)
    grid: Any = places[0].get_gridspec()
    for index, (axes_, facet) in enumerate(zip(places, facets, strict=False)):
        here = [row for row in rows if all(row[key] == value for (key, _), value in zip(others, facet, strict=True))]
        about = [
            f"{key.rpartition('.')[2]} = {_tick(key, value, of)}"  # `scale` for `scorers[0].scale`
            for (key, of), value in zip(others, facet, strict=True)
        ]
        if about:
            axes_.set_title("\n".join(map(printable, about)))
        is_lowest, is_first = index + grid.ncols >= len(facets), index % grid.ncols == 0
        axes_.set(xlabel=_axis(result, x) if is_lowest else "", ylabel=_metric(result) if is_first else "")
        axes_.tick_params(which="both", labelleft=is_first)
        for label, line in lines.items():
            own = [row for row in here if row["label"] == label]
            points = sorted(own, key=lambda row: _position(row[x], values))
            where = np.array([_position(row[x], values) for row in points], dtype=float)
            mean, low, high = (np.array([row[names[end]] for row in points], float) for end in ("mean", "low", "high"))
            ends = [np.where(np.isnan(end), mean, end) for end in (low, high)]  # a mean of one run has none
            draw_line(axes_, where, [mean, *ends], line, bands=len(lines), gid=f"{result.settings['metric']}-{label}")
        _x_axis(axes_, x, values)
    for axes_ in places[: len(facets)] if is_log else ():
        decades_axis(axes_)
    for spare in places[len(facets) :]:
        spare.set_axis_off()
    if x != "label":
        legend(figure, lines)
    return figure


def _facets(rows: Sequence[Record], axes: Sequence[Axis], note: Note) -> tuple[list[tuple[Any, ...]], int]:
    """The combinations of values that rows have, the last of many, and how many of them stand beside each other."""
    there = {tuple(row[key] for key, _ in axes) for row in rows}
    facets = [facet for facet in product(*(values for _, values in axes)) if facet in there]
    if len(facets) > MOST_PANELS:
        note(f"sweep.png has {MOST_PANELS} of {len(facets)} combinations of {', '.join(key for key, _ in axes)}")
        facets = facets[-MOST_PANELS:]
    values = axes[-1][1] if axes else ()
    columns = len(values) if values and len(facets) % len(values) == 0 else min(4, len(facets))
    return facets, min(columns, MOST_PANELS)


def _position(value: Any, values: Sequence[Any]) -> float:
    return float(value) if _is_numeric(values) else float(list(values).index(value))


def _is_numeric(values: Sequence[Any]) -> bool:
    return all(map(is_number, values))


def is_geometric(values: Sequence[Any]) -> bool:
    """Whether numbers grow by about the same factor from one to the next, and not by about the same amount."""
    if len(values) < 3 or not _is_numeric(values) or min(values) <= 0:
        return False
    pairs = list(pairwise(sorted(values)))
    ratios, steps = [b / a for a, b in pairs], [b - a for a, b in pairs]
    return bool(max(ratios) / min(ratios) < min(UNEVEN, max(steps) / min(steps)))


def _x_axis(axes: Axes, key: str, values: Sequence[Any]) -> None:
    ticks = [_tick(key, value, values) for value in values]
    if not _is_numeric(values):
        axes.set_xticks(range(len(values)), ticks)
        axes.margins(x=0.15)
    elif is_geometric(values):
        axes.set_xscale("log")
        axes.set_xticks([float(value) for value in values], ticks)
        axes.minorticks_off()
    elif all(isinstance(value, int) for value in values):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        return
    _turn(axes, ticks, WIDTH)


def _turn(axes: Axes, ticks: Sequence[str], width: float) -> None:
    """Let many letters below an axis stand aslant."""
    if sum(len(tick) + 1 for tick in ticks) > LETTERS * width:
        axes.tick_params(axis="x", rotation=45)


def _tick(key: str, value: Any, values: Sequence[Any]) -> str:
    """A value beside an axis; layers have numbers, as in tables."""
    return str(list(values).index(value)) if key == "layer" else shown(value)


def _heatmaps(
    result: Result, sheet: Sheet, rows: Sequence[Record], axes: Sequence[Axis], mean: str, title: str
) -> Picture:
    """A panel for each label, with one scale of colours."""
    (y, down), (x, across) = ((key, sorted(values) if _is_numeric(values) else values) for key, values in axes)
    width, height = max(SMALL[0], CELL * len(across)), max(SMALL[1], CELL * len(down) * 0.8)
    widths = [width + LABELS, *[width] * (len(result.labels) - 1)]
    figure, places = panels(sheet, widths, height, title)
    tables = {label: np.full((len(down), len(across)), np.nan) for label in result.labels}
    for row in rows:
        tables[row["label"]][down.index(row[y]), across.index(row[x])] = row[mean]
    norm = norm_of(list(tables.values()), columns_of(result)[result.settings["metric"]].signed)
    colours = matplotlib.colormaps[matplotlib.rcParams["image.cmap"]]
    image = None
    for place, (label, table) in zip(places, tables.items(), strict=True):
        look: dict[str, Any] = {"aspect": "auto", "origin": "lower", "gid": f"{mean}-{label}"}
        image = place.imshow(within(norm, table), norm=norm, cmap=colours, **look)
        name(place, label, _axis(result, x), _axis(result, y) if place is places[0] else "")
        ticks = [_tick(x, value, across) for value in across]
        place.set_xticks(range(len(across)), ticks)
        place.set_yticks(range(len(down)), [_tick(y, value, down) for value in down] if place is places[0] else [])
        place.grid(False)
        if table.size <= MOST_NUMBERED:
            _write_numbers(place, table, norm, colours)
        _turn(place, ticks, width)
    assert image is not None, "a sweep with records has labels"
    every, words = np.concatenate([*tables.values()]), "\ncolours by the logarithm" if isinstance(norm, LogNorm) else ""
    figure.colorbar(image, ax=places, extend=extend_of(norm, every), label=f"{_metric(result)}{words}", format="%g")
    return figure


def _write_numbers(axes: Axes, table: Numbers, norm: Any, colours: Any) -> None:
    shown = norm(within(norm, table))
    for (row, column), value in np.ndenumerate(table):
        if np.isfinite(value):
            red, green, blue, _ = colours(float(shown[row, column]))
            dark = 0.3 * red + 0.6 * green + 0.1 * blue < 0.5
            ink = "white" if dark else "black"
            axes.text(column, row, number(float(value), 3), ha="center", va="center", color=ink, fontsize="x-small")
