"""saturation.png: entropy, largest weight and the softmax Jacobian's norm against d, medians with quartile bands."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from attncli.runs.records import SweepResult
from attncli.show.figures import default_settings
from attncli.show.numbers import entries, finite, sizes
from attncli.studies.study import Record
from attncli.views.fonts import typeface_for
from attncli.views.heatmap.frames import Box
from attncli.views.heatmap.page import Page
from attncli.views.saturation_weights import uniform_norm
from attncli.views.sweep_axes import Axis, decades_axis, panel, unit_axis
from attncli.views.sweep_legend import REFERENCE, Entry, legend, look_of
from attncli.views.sweep_page import LEFT_OF_PANEL, Drawn, Row, lost, offset, open_page, x_axis, x_values
from attncli.views.sweep_tables import by_label, same

ROW = Row((2.55, 2.55, 2.55), 2.3)
TITLES = {"entropy": "entropy / ln m", "max_weight": "largest weight", "jacobian": "norm of the softmax Jacobian"}
BAND, ALL_BANDS = 0.16, 0.8  # opacity of one, and at most of as many as may lie upon each other
CUT: dict[str, Any] = {"color": "0.4", "linestyle": "none", "marker": 7, "markersize": 5.0}  # 7 has its tip there
BELOW = 100.0  # how far below the lowest median a band may reach before the panel cuts it


def saturation_figure(result: SweepResult) -> Drawn:
    """Three panels over the same sizes or heads; dotted lines where all weights are equal."""
    groups = by_label(result.curve)
    facts = [*sizes(result.curve), "median and quartiles over the rows"]
    title = f"{entries(result.settings)}; {', '.join(facts)}"
    with default_settings():
        face = typeface_for([title, *groups])
        keys = result.curve[0]["keys"] if same(result.curve, "keys") else None
        known = legend(_entries(result, groups, keys), ROW.width - LEFT_OF_PANEL - 0.3, face)
        page, boxes, below = open_page(ROW, title, [known], face)
        notes: list[str] = []
        for name, box in zip(TITLES, boxes, strict=True):
            notes += _draw_panel(page, box, name, result, groups, keys)
        known.draw(page, boxes[0].left - 0.1, below)
        return Drawn(page.finish(), [*notes, *([face.note] if face.note else [])])


def _entries(result: SweepResult, groups: Mapping[str, Sequence[Record]], keys: int | None) -> list[Entry]:
    real = "from" in result.settings
    entries = [Entry(label, look_of(index) | _joined(real)) for index, label in enumerate(groups)]
    entries += [Entry(f"uniform weights over {keys} keys", REFERENCE)] if keys else []
    norms = _norms(result.curve, keys)
    cut = any(_cut("jacobian", record, norms) for record in result.curve)
    return [*entries, *([Entry("lower quartile below the panel", CUT)] if cut else [])]


def _joined(real: bool) -> dict[str, Any]:
    """Heads are not joined by a line: their order means nothing."""
    return {"linestyle": "none"} if real else {}


def _cut(name: str, record: Record, axis: Axis) -> bool:
    """Whether the panel shows the median, and ends above the lower quartile."""
    return _drawable(record[f"{name}_median"], axis) and bool(record[f"{name}_q25"] < axis.low)


def _draw_panel(
    page: Page,
    box: Box,
    name: str,
    result: SweepResult,
    groups: Mapping[str, Sequence[Record]],
    keys: int | None,
) -> list[str]:
    real = "from" in result.settings
    y = _norms(result.curve, keys) if name == "jacobian" else unit_axis("")
    axes = panel(page, box, TITLES[name], x_axis(result.curve, real, box.width, page), y)
    if keys:
        level = {"entropy": 1.0, "max_weight": 1 / keys, "jacobian": uniform_norm(keys)}[name]
        axes.axhline(level, zorder=1, gid=f"uniform-{name}", **REFERENCE)
    missing: dict[str, list[Record]] = {}
    for index, (label, records) in enumerate(groups.items()):
        drawable = [record for record in records if _drawable(record[f"{name}_median"], y)]
        missing[label] = [record for record in records if record not in drawable]
        drawable.sort(key=lambda record: record["head" if real else "d"] or 0)
        x = x_values(drawable, real, offset(result.curve, real, index, len(groups)))
        quartiles = _quartiles(name, drawable, y)
        look = look_of(index) | _joined(real) | {"zorder": 3}
        _mark_cut(axes, [place for place, record in zip(x, drawable, strict=True) if _cut(name, record, y)], index)
        axes.plot(x, [record[f"{name}_median"] for record in drawable], **look, gid=f"{name}-{index}")
        _draw_quartiles(
            axes, x, quartiles, look_of(index)["color"], None if real else min(BAND, ALL_BANDS / len(groups))
        )
    return lost(missing, real, TITLES[name])


def _drawable(value: float, axis: Axis) -> bool:
    return bool(finite([value])) and (value > 0 or not axis.logarithmic)


def _norms(records: Sequence[Record], keys: int | None) -> Axis:
    """Around all medians; bands may reach far below them, where nothing is to be seen."""
    medians = [value for value in finite(record["jacobian_median"] for record in records) if value > 0]
    quartiles = finite(record[f"jacobian_{end}"] for record in records for end in ("q25", "q75"))
    least = min(medians, default=1.0) / BELOW
    uniform = [uniform_norm(keys)] if keys else []
    return decades_axis([*medians, *uniform, *(value for value in quartiles if value >= least)], "")


def _quartiles(name: str, records: Sequence[Record], axis: Axis) -> tuple[list[float], list[float]]:
    """Lower and upper quartiles; those of 0 end at the edge of a logarithmic panel."""
    floor = axis.low if axis.logarithmic else 0.0
    lower, upper = ([record[f"{name}_{end}"] for record in records] for end in ("q25", "q75"))
    return [max(value, floor) for value in lower], upper


def _mark_cut(axes: Axes, x: Sequence[float], index: int) -> None:
    """Triangles on the lower edge, where a band or bar goes on below it."""
    if x:
        look = CUT | {"color": look_of(index)["color"], "zorder": 4, "clip_on": False, "gid": "cut"}
        axes.plot(x, [axes.get_ylim()[0]] * len(x), **look)


def _draw_quartiles(
    axes: Axes, x: Sequence[float], quartiles: tuple[list[float], list[float]], colour: str, opacity: float | None
) -> None:
    """A band, or bars where points are not joined (no `opacity`) or there is only one."""
    if opacity is None or len(x) == 1:
        axes.vlines(x, *quartiles, colors=colour, linewidth=1.2, zorder=2.5, gid="quartiles")
    elif x:
        axes.fill_between(x, *quartiles, color=colour, alpha=opacity, linewidth=0, zorder=2, gid="quartiles")
