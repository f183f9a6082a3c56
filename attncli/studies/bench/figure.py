"""bench.png: time and memory against n, or against the first size that changes, with two panels for each measure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

from attncli.config.looks import Look
from attncli.core.numbers import duration, several
from attncli.errors import in_bytes
from attncli.results import Result, Row
from attncli.show.pictures.figures import Note, Picture
from attncli.show.pictures.panels import decades_axis, draw_line, legend, name, one_figure, panels, sizes_axis
from attncli.show.pictures.themes import Sheet
from attncli.studies.bench.columns import quartiles
from attncli.studies.bench.options import IMPLEMENTATIONS
from attncli.studies.bench.rows import Line, changing, conditions, row_size, rows_by_line

PANELS = {"seconds": "time per call", "peak_bytes": "peak memory"}
STROKES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (1, 1.3)),
    (0, (4, 1.3, 1, 1.3)),
    (0, (8, 2)),
)  # by index in IMPLEMENTATIONS
RING = 120  # area around the marker of a noisy time, in square points
FILLS = ("full", "left", "none", "bottom", "top")  # of markers, likewise


def figures(result: Result, note: Note, look: Look) -> Mapping[str, Callable[[], Picture]]:
    """Return a mapping with the function that draws bench.png, empty if nothing was timed."""
    timed = any(record["seconds"] for record in result.records)
    return one_figure(bench_figure)(result, note, look) if timed else {}


def bench_figure(result: Result, note: Note, sheet: Sheet) -> Picture:
    """Draw time and memory against one size; the other sizes are fixed to the sizes of the largest timed row."""
    axes = changing(result.records)
    axis = axes[0] if axes else "n"
    last = max((record for record in result.records if record["seconds"]), key=row_size)
    records = [record for record in result.records if all(record[other] == last[other] for other in axes[1:])]
    if len(records) < len(result.records):
        sizes = ", ".join(f"{key} = {records[0][key]}" for key in axes[1:])
        note(f"bench.png shows {sizes} only; the tables and records.csv have all sizes")
    lost = sum(1 for record in records if record["seconds"] and not record["peak_bytes"])
    if lost:
        note(f"bench.png: memory of {several(lost, 'row')} is not drawn: it is 0 or unknown")
    looks = _looks(list(rows_by_line(result.records)), sheet)
    measures = list(dict.fromkeys(record["measure"] for record in records))
    facts = [", ".join(conditions(result, records)), "bars: lower to upper quartile", "memory: without the inputs"]
    if any(record.get("noisy") for record in records):
        facts.append("circled: noisy, slower than at a larger size")
    figure, drawn = panels(sheet, len(PANELS) * len(measures), "Time and memory", facts)
    axes_left = iter(drawn)
    for measure in measures:
        lines = rows_by_line([record for record in records if record["measure"] == measure and record["seconds"]])
        for key, quantity in PANELS.items():
            panel = next(axes_left)
            _draw_panel(panel, key, axis, lines, looks, result)
            name(panel, f"{measure}: {quantity}", axis if axis in axes else "")
    timed = rows_by_line([record for record in records if record["seconds"]])
    legend(figure, {", ".join(line): look for line, look in looks.items() if line in timed})
    return figure


def _draw_panel(
    panel: Axes, key: str, axis: str, lines: Mapping[Line, Sequence[Row]], looks: Mapping[Line, Any], result: Result
) -> None:
    """Draw time or memory of all lines, side by side if there is a single size."""
    single = axis not in changing(result.records)
    for index, (line, records) in enumerate(lines.items()):
        measured = [record for record in records if record[key]]
        x = np.array([index if single else record[axis] for record in measured])
        y = np.array([record[key] for record in measured])
        points = [y, y, y]
        if key == "seconds":
            points[1:] = np.transpose([quartiles(result, record) for record in measured])
        draw_line(panel, x, points, looks[line], gid=key)
        noisy = [bool(record.get("noisy")) for record in measured]
        if key == "seconds" and any(noisy):
            panel.scatter(
                x[noisy], y[noisy], RING, "none", edgecolors=looks[line]["color"], zorder=4, clip_on=False, gid="noisy"
            )
    if single:
        panel.set_xlim(-1, len(lines))
        panel.xaxis.set_major_locator(NullLocator())
    else:
        sizes_axis(panel, [record[axis] for record in result.records])
    if key == "seconds":
        decades_axis(panel, lambda seconds: duration(seconds).replace(".00 ", " ").replace(".0 ", " "))
    else:
        panel.set_yscale("log", base=2)
        panel.yaxis.set_major_locator(LogLocator(base=2))
        panel.yaxis.set_minor_locator(NullLocator())
        panel.yaxis.set_major_formatter(lambda size, _: in_bytes(size).replace(".0 ", " "))


def _looks(lines: Sequence[Line], sheet: Sheet) -> dict[Line, dict[str, Any]]:
    """Return the options of each line: colour and marker by label, the marker's fill and the dash by implementation."""
    looks, by_line = sheet.lines(title for title, _ in lines), {}
    for title, implementation in lines:
        kind, look = IMPLEMENTATIONS.index(implementation), looks[title]
        fill = {"fillstyle": FILLS[kind], "markerfacecoloralt": sheet.ground}
        if FILLS[kind] == "none":  # hides the line behind the marker
            fill = {"markerfacecolor": sheet.ground}
        edge = {"markeredgecolor": look["color"], "markeredgewidth": 1.6 * look["markeredgewidth"]} if kind else {}
        by_line[title, implementation] = (
            look | fill | edge | {"linestyle": STROKES[kind], "label": ", ".join((title, implementation))}
        )
    return by_line
