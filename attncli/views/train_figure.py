"""train.png: accuracy against d, and the learning curves at the largest d; means, and the range over the seeds."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from attncli.runs.records import TrainResult
from attncli.show.figures import default_settings
from attncli.studies.study import Record
from attncli.views.fonts import typeface_for
from attncli.views.heatmap.frames import Box
from attncli.views.heatmap.page import FAINT, Page
from attncli.views.sweep_axes import Axis, panel, sizes_axis, unit_axis
from attncli.views.sweep_legend import Entry, legend, look_of
from attncli.views.sweep_page import LEFT_OF_PANEL, Drawn, Row, offset, open_page, x_values
from attncli.views.sweep_tables import by_label
from attncli.views.train_numbers import learning, of_equal_weights, several, sizes_of, task, trained_with

ROW = Row((3.3, 3.3), 2.5)
LOW, NAME_POINTS = 0.08, 7.0  # the level below which nothing can be written under it
BAND, ALL_BANDS = 0.16, 0.8  # opacity of one, and at most of as many as may lie upon each other


def train_figure(result: TrainResult) -> Drawn:
    """Accuracies with as many keys as the models were trained with."""
    summary = trained_with(result, result.comparisons)
    groups = by_label(summary)
    title = f"{task(result)}; {learning(result)}; {_shown(result)}"
    with default_settings():
        face = typeface_for([title, *groups])
        entries = [Entry(label, look_of(index)) for index, label in enumerate(groups)]
        known = legend(entries, ROW.width - LEFT_OF_PANEL - 0.3, face)
        page, boxes, below = open_page(ROW, title, [known], face)
        _draw_accuracy(page, boxes[0], result, groups)
        _draw_curves(page, boxes[1], result, groups)
        known.draw(page, boxes[0].left - 0.1, below)
        return Drawn(page.finish(), [face.note] if face.note else [])


def _shown(result: TrainResult) -> str:
    seeds = "lines are means, and bands the range, over the seeds" if result.settings["seeds"] > 1 else "one seed only"
    return f"{seeds}{'; interrupted' if result.interrupted else ''}"


def _draw_accuracy(page: Page, box: Box, result: TrainResult, groups: Mapping[str, Sequence[Record]]) -> None:
    summary = trained_with(result, result.comparisons)
    title = f"accuracy after {several(result.settings['steps'], 'step')}"
    axes = panel(page, box, title, sizes_axis(sizes_of(summary), box.width, page), unit_axis(""))
    _draw_equal_weights(page, box, axes, result, "left")  # where scorers mostly do well
    for index, records in enumerate(groups.values()):
        rows = sorted(records, key=lambda record: int(record["d"]))
        x = x_values(rows, False, offset(summary, False, index, len(groups)))
        ends = [[row[f"accuracy_{end}"] for row in rows] for end in ("min", "max")]
        axes.plot(x, [row["accuracy"] for row in rows], zorder=3, gid=f"accuracy-{index}", **look_of(index))
        _draw_range(axes, x, ends[0], ends[1], index, len(groups))


def _draw_curves(page: Page, box: Box, result: TrainResult, groups: Mapping[str, Sequence[Record]]) -> None:
    d = sizes_of([record for records in groups.values() for record in records])[-1]
    steps = [float(step) for step in result.steps.tolist()]
    axes = panel(page, box, f"accuracy while learning, d = {d}", _steps_axis(steps[-1]), unit_axis(""))
    _draw_equal_weights(page, box, axes, result, "right")  # where they have learnt
    for index, label in enumerate(groups):
        curve = result.curves.get(f"{label}/{d}/accuracy")
        if curve is not None:
            low, high, middle = curve.amin(0).tolist(), curve.amax(0).tolist(), curve.mean(0).tolist()
            look = {**look_of(index), "marker": "none"}
            axes.plot(steps, middle, zorder=3, gid=f"curve-{index}", **look)
            _draw_range(axes, steps, low, high, index, len(groups))


def _draw_equal_weights(page: Page, box: Box, axes: Axes, result: TrainResult, side: str) -> None:
    """The accuracy of weights that are all equal; its name below the line, or above where that is too low."""
    level, axis = of_equal_weights(result, result.settings["keys"]), unit_axis("")
    axes.axhline(level, color=FAINT, linestyle=":", linewidth=0.9, zorder=1.5, gid="equal-weights")
    height = box.bottom - (level - axis.low) / (axis.high - axis.low) * box.height
    place, above = box.left + 0.06 if side == "left" else box.left + box.width - 0.06, level < LOW
    look = {"ha": side, "va": "bottom" if above else "top", "gid": "equal-weights-name"}
    page.words(place, height + (-0.02 if above else 0.03), "equal weights", NAME_POINTS, FAINT, **look)


def _steps_axis(last: float) -> Axis:
    ticks = [float(tick) for tick in MaxNLocator(5, integer=True).tick_values(0, last) if 0 <= tick <= last]
    return Axis(-0.02 * last, 1.02 * last, ticks, [f"{tick:.0f}" for tick in ticks], "steps")


def _draw_range(
    axes: Axes, x: Sequence[float], low: Sequence[float], high: Sequence[float], index: int, count: int
) -> None:
    """A band, or a bar where there is one point only."""
    colour = look_of(index)["color"]
    if len(x) == 1:
        axes.vlines(x, low, high, colors=colour, linewidth=1.2, zorder=2.5, gid=f"range-{index}")
    else:
        opacity = min(BAND, ALL_BANDS / count)
        axes.fill_between(x, low, high, color=colour, alpha=opacity, linewidth=0, zorder=2, gid=f"range-{index}")
