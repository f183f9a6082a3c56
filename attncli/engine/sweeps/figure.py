"""sweep.png: the metric against the swept keys, as lines over one key, heatmaps over two, small multiples over more."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from attncli.config.looks import Look
from attncli.engine.sweeps.columns import companions, is_number, picture_axes, shown, swept_columns
from attncli.engine.sweeps.summary import summary, summary_names
from attncli.errors import printable
from attncli.results import Result, Row, SweepResult
from attncli.show.pictures.figures import Note, Picture
from attncli.show.pictures.heatmaps import draw_heatmap
from attncli.show.pictures.matrices import Heatmap, Panel
from attncli.show.pictures.panels import RoomyLocator, decades_axis, draw_line, drawn, frame, legend, name, panels
from attncli.show.pictures.scales import spans_decades
from attncli.show.pictures.themes import Sheet
from attncli.studies import load_study

MOST_PANELS, MOST_COLUMNS = 16, 4
WORDS = {  # of keys, for axes; others are words themselves
    "lr": "learning rate",
    "std": "standard deviation",
    "df": "degrees of freedom",
    "rho": "correlation",
    "num_hiddens": "hidden units",
}
SHAPE, ENTRY_KEY = re.compile(r"(?:data\.)?(\w+)\.shape\[(\d+)\]"), re.compile(r"scorers\[(\d+)\]")
ENTRY = "entry"  # column with the labels of several runs
UNEVEN = 1.6  # in geometric numbers, the largest ratio of neighbours is less than this times the smallest ratio
Axis = tuple[str, list[Any]]


def figures(result: SweepResult, note: Note, look: Look) -> Mapping[str, Callable[[], Picture]]:
    """Return the function that draws sweep.png, by the picture's name; an empty mapping if no row has the metric."""
    has_values = any(row.get(result.metric) is not None for row in result.records)
    return {"sweep": partial(sweep_figure, result, note, look)} if has_values else {}


def sweep_figure(result: SweepResult, note: Note, look: Look) -> Picture:
    """Draw means over the seeds as heatmaps if two keys vary, else as lines with 95 % intervals."""
    title = "" if result.about else f"Sweep of {printable(result.name)}"
    axes = picture_axes(result)
    if len(axes) != 2:
        return lines_figure(result, note, look, title=title)
    mean = summary_names(result)["mean"]
    panels, sides = _tables(result, _rows(result), [*axes.items()], mean)
    return draw_heatmap(Heatmap(panels, title, sides=sides, name="sweep", about=result.about), look, note)


def lines_figure(result: SweepResult, note: Note, look: Look, *, title: str) -> Picture:
    """Draw means over the seeds as lines with 95 % intervals."""
    axes = [*picture_axes(result).items()] or [("label", result.labels)]  # of a sweep over seeds only
    axes.sort(key=lambda axis: (not _is_numeric(axis[1]), -len(axis[1])))
    return drawn(partial(_lines, rows=_rows(result), axes=axes, title=title), result, note, look, "sweep")


def _rows(result: SweepResult) -> list[Row]:
    """Return the rows of the summary that have a mean of the metric."""
    mean = summary_names(result)["mean"]
    return [row for row in summary(result, [result.metric]) if row[mean] is not None]


def runs_figures(results: Mapping[str, Result], look: Look, note: Note) -> Mapping[str, Callable[[], Picture]]:
    """Return the function that draws the metric of several runs, given by name; empty if no numeric column varies.

    The picture has a panel for each scorer, with a line for each run over a number such as d.
    """
    result = _as_one(results)
    if result is None or not any(map(_is_numeric, picture_axes(result).values())):
        return {}
    return {"runs": partial(lines_figure, result, note, look, title="All runs")}


def _as_one(results: Mapping[str, Result]) -> SweepResult | None:
    """Return several runs as one sweep over scorers, labelled with the runs' names; None if no row has the metric."""
    first = next(iter(results.values()))
    axes, metric = list[Mapping[str, Sequence[Any]]](), load_study(first.study).metric
    if isinstance(first, SweepResult):
        axes, metric = [*first.axes], first.metric
    labels = list(dict.fromkeys(label for result in results.values() for label in result.labels))
    axes.append({ENTRY: labels})
    records = [
        {ENTRY: row["label"], **row, "label": name} for name, result in results.items() for row in result.records
    ]
    has_values = any(row.get(metric) is not None for row in records)
    layers = {name: number for result in results.values() for name, number in result.layers.items()}
    return (
        SweepResult(first.study, first.name, records, layers=layers, axes=axes, metric=metric) if has_values else None
    )


def _metric(result: SweepResult) -> str:
    """Return the heading of the metric, with its unit."""
    return swept_columns(result)[result.metric].name_with_unit


def _axis(result: SweepResult, key: str) -> str:
    """Return the title of an axis: its name, and below it the names of the keys that vary together with it."""
    return "\nwith ".join(_word(result, name) for name in [key, *companions(result, key)])


def _word(result: SweepResult, key: str) -> str:
    """Return a key in words: `scale` for `scorers[0].scale`, or `scale of dot` if another scale is swept, too."""
    words = [_last_word(result, name) for name in result.swept]
    word, parent = _last_word(result, key), key.rpartition(".")[0].rpartition(".")[2]
    if words.count(word) < 2:
        return word
    entry = ENTRY_KEY.fullmatch(parent)
    index = int(entry[1]) if entry else len(result.labels)
    return f"{word} of {result.labels[index] if index < len(result.labels) else parent}"


def _last_word(result: SweepResult, key: str) -> str:
    """Return the last part of a key without an index. The axis of a tensor is named after the things it counts."""
    if shape := SHAPE.fullmatch(key):
        tensor, heads = shape[1], ["heads"] * any(row.get("head") is not None for row in result.heads)
        names = ["batch", *heads, tensor, f"size of {tensor}"]
        return names[int(shape[2])] if int(shape[2]) < len(names) else key
    last = key.rpartition(".")[2].partition("[")[0]
    return WORDS.get(last, last.replace("_", " "))


def _lines(
    result: SweepResult,
    note: Note,
    sheet: Sheet,
    *,
    rows: Sequence[Row],
    axes: Sequence[Axis],
    title: str,
) -> Picture:
    """Draw lines over the first of `axes`, in a panel for each combination of values on the other axes.

    `rows` are of `summary`.
    """
    (x, values), *others = axes
    names = summary_names(result)
    most = max((row[names["count"]] for row in rows), default=0)
    spreads = "bars" if x == "label" or len(values) == 1 else "bands"
    facts = [f"means of {most} runs", f"{spreads}: 95 % intervals"] if most > 1 else []
    facets, columns = _facets(rows, others, note)
    figure, facet_axes = panels(sheet, len(facets), title, facts, columns=columns)
    for other in facet_axes[1:]:
        other.sharey(facet_axes[0])
    is_log = not swept_columns(result)[result.metric].is_linear and spans_decades(row[names["mean"]] for row in rows)
    lines = sheet.lines(result.labels)
    grid: Any = facet_axes[0].get_gridspec()
    for index, (axes_, facet) in enumerate(zip(facet_axes, facets, strict=True)):
        here = [row for row in rows if all(row[key] == value for (key, _), value in zip(others, facet, strict=True))]
        about = [_named(result, key, value) for (key, _), value in zip(others, facet, strict=True)]
        is_lowest, is_first = index + grid.ncols >= len(facets), index % grid.ncols == 0
        if sheet.look.panel:
            is_lowest = is_first = True
        name(axes_, "\n".join(about), _axis(result, x) if is_lowest else "", _metric(result) if is_first else "")
        axes_.tick_params(which="both", labelleft=is_first)
        for label, line in lines.items():
            of_label = [row for row in here if row["label"] == label]
            points = sorted(of_label, key=lambda row: _position(row[x], values))
            where = np.array([_position(row[x], values) for row in points], dtype=float)
            mean, low, high = (np.array([row[names[end]] for row in points], float) for end in ("mean", "low", "high"))
            ends = [
                np.where(np.isnan(end), mean, end) for end in (low, high)
            ]  # the mean of a single run has no interval
            draw_line(axes_, where, [mean, *ends], line, bands=len(lines), gid=f"{result.metric}-{label}")
        _x_axis(result, axes_, x, values)
    facet_axes[0].set_yscale("log" if is_log else "linear")
    frame(facet_axes, spreads)
    for axes_ in facet_axes if is_log else ():
        decades_axis(axes_)
    if x != "label":
        legend(figure, lines)
    return figure


def _facets(rows: Sequence[Row], axes: Sequence[Axis], note: Note) -> tuple[list[tuple[Any, ...]], int | None]:
    """Return the combinations of the axes' values in the rows, at most the last MOST_PANELS, and the columns of panels.

    The panels of a row differ in the value on the last axis only, if there are few values and all rows are complete.
    """
    present = {tuple(row[key] for key, _ in axes) for row in rows}
    facets = [facet for facet in product(*(values for _, values in axes)) if facet in present]
    if len(facets) > MOST_PANELS:
        note(f"the picture has {MOST_PANELS} of {len(facets)} combinations of {', '.join(key for key, _ in axes)}")
        facets = facets[-MOST_PANELS:]
    across = len(axes[-1][1]) if axes else 1
    return facets, across if 1 < across <= MOST_COLUMNS and len(facets) % across == 0 else None


def _position(value: Any, values: Sequence[Any]) -> float:
    return float(value) if _is_numeric(values) else float(list(values).index(value))


def _is_numeric(values: Sequence[Any]) -> bool:
    return all(map(is_number, values))


def is_geometric(values: Sequence[Any]) -> bool:
    """Whether numbers grow by about the same factor, rather than by about the same amount."""
    if len(values) < 3 or not _is_numeric(values) or min(values) <= 0:
        return False
    pairs = list(pairwise(sorted(values)))
    ratios, steps = [b / a for a, b in pairs], [b - a for a, b in pairs]
    return bool(max(ratios) / min(ratios) < min(UNEVEN, max(steps) / min(steps)))


def _x_axis(result: SweepResult, axes: Axes, key: str, values: Sequence[Any]) -> None:
    ticks = [_tick(result, key, value) for value in values]
    if not _is_numeric(values):
        axes.set_xticks(range(len(values)), ticks)
        axes.margins(x=0.15)
    elif is_geometric(values):
        axes.set_xscale("log")
        texts = {float(value): tick for value, tick in sorted(zip(values, ticks, strict=True))}
        axes.xaxis.set_major_locator(RoomyLocator([*texts]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: texts.get(value, "")))
        axes.minorticks_off()
        return
    elif all(isinstance(value, int) for value in values):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        return
    if sum(len(tick) + 1 for tick in ticks) > 3 * axes.xaxis.get_tick_space():
        axes.tick_params(axis="x", rotation=45)


def _named(result: SweepResult, key: str, value: object) -> str:
    """Return a value with the last part of its key, such as `scale = 2`; text in a study's own column stands alone."""
    text = _tick(result, key, value)
    stands_alone = isinstance(value, str) and key != "layer" and (key not in result.swept or key == ENTRY)
    return text if stands_alone else f"{_word(result, key)} = {text}"


def _tick(result: SweepResult, key: str, value: Any) -> str:
    """Return the tick label of a value; for a layer it is its number, as in tables."""
    return shown(result.layers.get(value, value) if key == "layer" else value)


def _tables(
    result: SweepResult, rows: Sequence[Row], axes: Sequence[Axis], mean: str
) -> tuple[list[Panel], tuple[str, str]]:
    """Return a heatmap panel for each label, and the titles of its vertical and horizontal axis.

    The values of the first of two `axes` go upwards, and of the second to the right; `mean` is the drawn column.
    """
    (y, down), (x, across) = ((key, sorted(values) if _is_numeric(values) else values) for key, values in axes)
    tables = []
    for label in result.labels:
        table = torch.full((len(down), len(across)), torch.nan, dtype=torch.float64)
        for row in rows:
            if row["label"] == label:
                table[-1 - down.index(row[y]), across.index(row[x])] = row[mean]
        names = [tuple(_tick(result, key, value) for value in values) for key, values in ((y, down), (x, across))]
        sides = names[0][::-1], names[1]
        tables.append(Panel(printable(label), "", (0, 0), table, ~table.isnan(), *sides, quantity=_metric(result)))
    return tables, (_axis(result, y), _axis(result, x))
