"""train.png: accuracy against d, and learning curves at the largest d; means, and the range over the seeds."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from attncli.show.numbers import several
from attncli.show.panels import REFERENCE, legend, look_of, name, panels, picture, sizes_axis, unit_axis
from attncli.studies.study import Result
from attncli.studies.train.findings import described

WIDTHS, HEIGHT = (3.8, 3.8), 3.4  # inches
BAND, ALL_BANDS = 0.16, 0.8  # opacity of one, and at most of as many as may lie upon each other
BESIDE = 1.04  # labels stand side by side where there is a single d: each so many times as far right


def pictures(result: Result, note: Callable[[str], None]) -> Mapping[str, Callable[[Path], None]]:
    """train.png."""
    return {"train.png": picture(train_figure, result, note)}


def train_figure(result: Result, note: Callable[[str], None]) -> Figure:
    """Accuracies with as many keys as the models were trained with."""
    settings, labels = result.settings, result.labels
    rows = [row for row in result.comparisons if row["keys"] == settings["keys"]]
    largest = max(row["d"] for row in rows)
    seeds = "lines are means over the seeds, and bands the range" if settings["seeds"] > 1 else "one seed only"
    ended = "; interrupted" if result.interrupted else ""
    figure, (sizes, learning) = panels(WIDTHS, HEIGHT, f"{described(settings)}; {seeds}{ended}")
    name(sizes, f"accuracy after {several(settings['steps'], 'step')}", "d")
    name(learning, f"accuracy while learning, d = {largest}", "steps")
    sizes_axis(sizes, (row["d"] for row in rows))
    learning.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], integer=True))
    for axes in (sizes, learning):
        unit_axis(axes)
        axes.axhline(settings["equal_weights"][str(settings["keys"])], zorder=1.5, gid="equal-weights", **REFERENCE)
    for index, label in enumerate(labels):
        look = look_of(index)
        own = sorted((row for row in rows if row["label"] == label), key=lambda row: int(row["d"]))
        low, high = ([row[f"accuracy_{end}"] for row in own] for end in ("min", "max"))
        shift = BESIDE ** (index - (len(labels) - 1) / 2) if largest == min(row["d"] for row in rows) else 1
        x, y = [row["d"] * shift for row in own], [row["accuracy"] for row in own]
        sizes.plot(x, y, zorder=3, gid=f"accuracy-{label}", **look)
        _draw_range(sizes, x, low, high, look["color"], len(labels))
        if (curve := result.tensors.get(f"{label}/{largest}/accuracy")) is not None:
            steps = result.tensors["steps"].tolist()
            learning.plot(steps, curve.mean(0).tolist(), zorder=3, gid=f"curve-{label}", **look | {"marker": ""})
            _draw_range(learning, steps, curve.amin(0).tolist(), curve.amax(0).tolist(), look["color"], len(labels))
    legend(figure, {label: look_of(index) for index, label in enumerate(labels)} | {"equal weights": REFERENCE})
    return figure


def _draw_range(
    axes: Axes, x: Sequence[float], low: Sequence[float], high: Sequence[float], colour: str, count: int
) -> None:
    """A band, or a bar where there is one point only."""
    if len(x) == 1:
        axes.vlines(x, low, high, colors=colour, linewidth=1.2, zorder=2.5, gid="range")
    else:
        axes.fill_between(x, low, high, color=colour, alpha=min(BAND, ALL_BANDS / count), linewidth=0, gid="range")
