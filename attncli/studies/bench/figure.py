"""bench.png: time and memory against n, or against the first size that changes, two panels for each measure."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from attncli.errors import in_bytes
from attncli.show.figures import Note
from attncli.show.numbers import duration, several
from attncli.show.panels import (
    COLOURS,
    MARKERS,
    decades_axis,
    draw_line,
    figure_in_fonts,
    legend,
    look_of,
    name,
    panels,
    sizes_axis,
)
from attncli.studies.bench.options import IMPLEMENTATIONS
from attncli.studies.bench.rows import Line, changing, conditions, lines_of, raw_name, size_of
from attncli.studies.study import Record, Result

PANELS = {"seconds": "time per call", "peak_bytes": "peak memory without the inputs"}
STROKES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1.3)), (0, (4, 1.3, 1, 1.3)))  # of IMPLEMENTATIONS, in order
WIDTH, HEIGHT = 3.9, 2.6  # of a panel, in inches


def figures(result: Result, note: Note) -> Mapping[str, Callable[[], Figure]]:
    """bench.png, where anything was timed; what it cannot show goes to `note`."""
    timed = any(record["seconds"] for record in result.records)
    return {"bench": partial(figure_in_fonts, bench_figure, result, note)} if timed else {}


def bench_figure(result: Result, note: Note) -> Figure:
    """Of sizes beside the one that is drawn along, those of the largest row with a time."""
    axes = changing(result.records)
    axis = axes[0] if axes else "n"
    last = max((record for record in result.records if record["seconds"]), key=size_of)
    shown = [record for record in result.records if all(record[other] == last[other] for other in axes[1:])]
    if len(shown) < len(result.records):
        sizes = ", ".join(f"{key} = {shown[0][key]}" for key in axes[1:])
        note(f"bench.png shows {sizes} only; the tables and records.csv have all sizes")
    lost = sum(1 for record in shown if record["seconds"] and not record["peak_bytes"])
    if lost:
        note(f"bench.png: memory of {several(lost, 'row')} is not drawn: it is 0 or unknown")
    looks = _looks(list(lines_of(result.records)))
    measures = list(dict.fromkeys(record["measure"] for record in shown))
    heading = f"{', '.join(conditions(result, shown))}; bars: lower to upper quartile"
    figure, drawn = panels([WIDTH, WIDTH], HEIGHT, heading, rows=len(measures))
    places = iter(drawn)
    for measure in measures:
        lines = lines_of([record for record in shown if record["measure"] == measure and record["seconds"]])
        for key, what in PANELS.items():
            panel = next(places)
            _draw_panel(panel, key, axis, lines, looks, result)
            name(panel, f"{measure}: {what}", axis if axis in axes else "")
    there = lines_of([record for record in shown if record["seconds"]])
    legend(figure, {", ".join(line): look for line, look in looks.items() if line in there})
    figure.set_figheight(figure.get_figheight() + figure.legends[0].get_window_extent().height / figure.dpi)
    return figure


def _draw_panel(
    panel: Axes, key: str, axis: str, lines: Mapping[Line, Sequence[Record]], looks: Mapping[Line, Any], result: Result
) -> None:
    """One figure of all lines; those of a single size stand side by side."""
    single = axis not in changing(result.records)
    for index, (line, records) in enumerate(lines.items()):
        known = [record for record in records if record[key]]
        x = np.array([index if single else record[axis] for record in known])
        y = np.array([record[key] for record in known])
        points = [y, y, y]
        if key == "seconds":
            rounds = [result.tensors[raw_name(record)].numpy() for record in known]
            points[1:] = np.transpose([np.quantile(each, [0.25, 0.75]) for each in rounds])
        draw_line(panel, x, points, looks[line], gid=key)
    if single:
        panel.set_xlim(-1, len(lines))
        panel.xaxis.set_major_locator(NullLocator())
    else:
        sizes_axis(panel, [record[axis] for record in result.records])
    if key == "seconds":
        decades_axis(panel, duration)
    else:
        panel.set_yscale("log", base=2)
        panel.yaxis.set_major_locator(LogLocator(base=2, numticks=7))
        panel.yaxis.set_minor_locator(NullLocator())
        panel.yaxis.set_major_formatter(lambda size, _: in_bytes(size).replace(".0 ", " "))


def _looks(lines: Sequence[Line]) -> dict[Line, dict[str, Any]]:
    """A colour for each label, a marker and a stroke for each implementation; only attncli's markers are filled."""
    subjects: dict[str, int] = {}
    found = {}
    for index, line in enumerate(lines):
        title, implementation = line
        subject, kind = subjects.setdefault(title, len(subjects)), IMPLEMENTATIONS.index(implementation)
        marker = MARKERS[(len(IMPLEMENTATIONS) * (subject // len(COLOURS)) + kind) % len(MARKERS)]
        colour = COLOURS[subject % len(COLOURS)]
        open_ = {"markerfacecolor": "white", "markeredgecolor": colour, "markeredgewidth": 1.0} if kind else {}
        found[line] = look_of(index) | {"color": colour, "marker": marker, "linestyle": STROKES[kind]} | open_
    return found
