"""The panels of bench.png: one figure of every line, on logarithmic axes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes

from attncli.studies.study import Record
from attncli.views.bench_axes import across, bytes_axis, times_axis
from attncli.views.bench_lines import Line
from attncli.views.bench_looks import Looks
from attncli.views.bench_sizes import name_of
from attncli.views.heatmap.frames import Box
from attncli.views.heatmap.page import Page
from attncli.views.sweep_axes import MARGIN_FACTOR, panel

if TYPE_CHECKING:
    from torch import Tensor

PANELS = {"seconds": "time of a call", "peak_bytes": "peak memory beyond the inputs"}
SPREAD = 1.5  # over which part of the panel the points of the only size share out


@dataclass(frozen=True)
class Curves:
    """The lines of one measure, and the records of all measures, which have the same axes and can be compared."""

    measure: str
    lines: Mapping[Line, Sequence[Record]]
    looks: Looks
    records: Sequence[Record]
    times: "Mapping[str, Tensor]"

    def quartiles(self, record: Record) -> tuple[float, float]:
        """Lower and upper one of the rounds of a record; the median for both where rounds are not known."""
        rounds = self.times.get(name_of(record))
        if rounds is None:
            return record["seconds"], record["seconds"]
        low, high = np.quantile(rounds.numpy(), [0.25, 0.75])
        return float(low), float(high)


def draw_panel(page: Page, box: Box, key: str, axis: str, curves: Curves) -> None:
    """`key` is one of PANELS, `axis` the size from left to right; points of an only size stand side by side."""
    x = across([record[axis] for record in curves.records], axis, box.width, page)
    y = times_axis(_ends(curves)) if key == "seconds" else bytes_axis(_bytes(curves.records))
    axes = panel(page, box, f"{curves.measure}: {PANELS[key]}", x, y)
    spread = 0.0 if several(curves.records, axis) else SPREAD
    for index, (line, records) in enumerate(curves.lines.items()):
        known = [record for record in records if positive(record[key])]
        aside = spread * ((index + 0.5) / len(curves.lines) - 0.5)
        places = [record[axis] * MARGIN_FACTOR**aside for record in known]
        axes.plot(places, [record[key] for record in known], zorder=3, gid=key, **curves.looks[line])
        if key == "seconds" and known:
            _draw_ranges(axes, places, [curves.quartiles(record) for record in known], curves.looks[line]["color"])


def several(records: Sequence[Record], axis: str) -> bool:
    """Whether there is more than one size to draw."""
    return len({record[axis] for record in records}) > 1


def positive(value: float | None) -> bool:
    """Whether a logarithmic axis can show it."""
    return value is not None and math.isfinite(value) and value > 0


def _draw_ranges(axes: Axes, x: Sequence[float], ranges: Sequence[tuple[float, float]], colour: Any) -> None:
    low, high = zip(*ranges, strict=True)
    axes.vlines(x, low, high, colors=colour, linewidth=1.0, zorder=2.5, gid="range")


def _ends(curves: Curves) -> list[float]:
    """Medians and quartiles."""
    return [value for record in curves.records for value in (record["seconds"], *curves.quartiles(record))]


def _bytes(records: Sequence[Record]) -> list[float]:
    return [record["peak_bytes"] for record in records if record["peak_bytes"] is not None]
