"""variance.png: the variance against d (of real tensors by head) beside the histogram of scores at the largest d."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from attncli.runs.records import SweepResult
from attncli.show.figures import default_settings
from attncli.show.numbers import DOTS, counted, entries, finite
from attncli.studies.study import Record
from attncli.views.fonts import typeface_for
from attncli.views.heatmap.page import Page
from attncli.views.sweep_axes import Axis, decades_axis, panel
from attncli.views.sweep_legend import REFERENCE, Entry, legend, look_of
from attncli.views.sweep_page import Drawn, Row, lost, offset, open_page, x_axis, x_values
from attncli.views.sweep_tables import by_label
from attncli.views.variance_histogram import REACH, Density, densities, normal_density

ROW = Row((3.7, 3.2), 2.6)
ASIDE = (1 / 1.25, 1.25)  # from where to where, as parts of d, the theory of the only d is drawn
THEORY = {"exact": "-", "limit": (0, (5, 2))}


def variance_figure(result: SweepResult) -> Drawn:
    """Measured points with 95 % intervals on their theory; scores of one distribution share a line of the histogram."""
    real = "from" in result.settings
    groups = by_label(result.curve)
    shown = densities(result.histograms)
    title = _title(result)
    names = [*groups, *(_joined(density) for density in shown)]
    with default_settings():
        face = typeface_for([title, *names])
        legends = [
            legend(_scorer_entries(groups, real), ROW.widths[0], face),
            legend(_density_entries(shown, list(groups), _normal(result)), ROW.widths[1], face),
        ]
        page, boxes, below = open_page(ROW, title, legends, face)
        axes = [x_axis(result.curve, real, ROW.widths[0], page), decades_axis(_heights(result.curve), "variance")]
        left = panel(page, boxes[0], "variance of the scores", *axes)
        notes = _draw_variances(left, groups, real, axes[1].low)
        _draw_histograms(page, boxes[1], shown, list(groups), _largest(result))
        for part, box in zip(legends, boxes, strict=True):
            part.draw(page, box.left - 0.1, below)
        return Drawn(page.finish(), [*notes, *([face.note] if face.note else [])])


def _title(result: SweepResult) -> str:
    samples = sorted({record["samples"] for record in result.curve})
    what = "pairs" if "from" in result.settings else "samples"
    least, most = counted(samples[0]), counted(samples[-1])
    return f"{entries(result.settings)}; {least if least == most else f'{least} to {most}'} {what} for each point"


def _largest(result: SweepResult) -> int:
    return max([histogram.d for histogram in result.histograms.values()], default=0)


def _heights(records: Sequence[Record]) -> list[float]:
    measured = finite(record[key] for record in records for key in ("variance", "theory_variance"))
    ends = finite(end for record in records for end in record["variance_ci"] or ())
    return [1.0, *measured, *ends]


def _joined(density: Density) -> str:
    return ", ".join(density.labels)


def _scorer_entries(groups: dict[str, list[Record]], real: bool) -> list[Entry]:
    looks = [Entry(label, look_of(index) | {"linestyle": "none"}) for index, label in enumerate(groups)]
    kinds = {record["theory"] for records in groups.values() for record in records}
    line: dict[str, Any] = {"color": "0.4", "linewidth": 0.9}
    theory = [Entry("theory", line | {"linestyle": THEORY["exact"]})] if "exact" in kinds else []
    theory += [Entry("limit for large sizes", line | {"linestyle": THEORY["limit"]})] if "limit" in kinds else []
    return [*looks, *theory, Entry("variance 1", REFERENCE)]


def _density_entries(shown: Sequence[Density], labels: Sequence[str], normal: str) -> list[Entry]:
    return [*(Entry(_joined(density), _line(density, labels)) for density in shown), Entry(normal, REFERENCE)]


def _normal(result: SweepResult) -> str:
    """Sums of many independent products are normal; other scorers need not be."""
    is_limit = "from" not in result.settings and all(record["scorer"] in DOTS for record in result.curve)
    return "standard normal, the limit for large d" if is_limit else "standard normal"


def _line(density: Density, labels: Sequence[str]) -> dict[str, Any]:
    look = look_of(labels.index(density.labels[0]))
    return {"color": look["color"], "linewidth": look["linewidth"]}


def _draw_variances(axes: Axes, groups: dict[str, list[Record]], real: bool, floor: float) -> list[str]:
    missing: dict[str, list[Record]] = {}
    curve = [record for records in groups.values() for record in records]
    axes.axhline(1.0, zorder=1, gid="one", **REFERENCE)
    for index, (label, records) in enumerate(groups.items()):
        drawable = [record for record in records if math.isfinite(record["variance"]) and record["variance"] > 0]
        missing[label] = [record for record in records if record not in drawable]
        _draw_theory(axes, records, look_of(index)["color"])
        x = x_values(drawable, real, offset(curve, real, index, len(groups)))
        _draw_intervals(axes, x, drawable, look_of(index)["color"], floor)
        look = look_of(index) | {"linestyle": "none", "zorder": 3, "gid": f"variance-{index}"}
        axes.plot(x, [record["variance"] for record in drawable], **look)
    return lost(missing, real, "variance")


def _draw_theory(axes: Axes, records: Sequence[Record], colour: str) -> None:
    """One line for each kind of theory, through the sizes that have it."""
    for kind, style in THEORY.items():
        known = sorted(
            (record["d"], record["theory_variance"])
            for record in records
            if record["theory"] == kind and finite([record["theory_variance"]]) and record["theory_variance"] > 0
        )
        if known:
            known = known if len(known) > 1 else [(known[0][0] * side, known[0][1]) for side in ASIDE]
            sizes, values = zip(*known, strict=True)
            axes.plot(sizes, values, color=colour, linewidth=0.9, linestyle=style, zorder=2, gid=f"theory-{kind}")


def _draw_intervals(axes: Axes, x: Sequence[float], records: Sequence[Record], colour: str, floor: float) -> None:
    """Vertical bars; what reaches down to 0 ends at the edge of the panel."""
    bars = [
        (place, max(interval[0], floor), interval[1])
        for place, record in zip(x, records, strict=True)
        if (interval := record["variance_ci"]) is not None and len(finite(interval)) == 2
    ]
    if bars:
        places, lows, highs = zip(*bars, strict=True)
        axes.vlines(places, lows, highs, colors=colour, linewidth=1.2, zorder=2.5, gid="interval")


def _draw_histograms(page: Page, box: Any, shown: Sequence[Density], labels: Sequence[str], d: int) -> None:
    x, y = normal_density()
    top = 1.08 * max([float(y.max()), *(float(density.heights.max()) for density in shown)])
    step = next(step for step in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, top) if top / step <= 6)
    ticks = [step * index for index in range(int(top / step) + 1)]
    across = Axis(-REACH, REACH, [-4, -2, 0, 2, 4], ["-4", "-2", "0", "2", "4"], "(score - mean) / std")
    up = Axis(0.0, top, ticks, [f"{tick:.2g}" for tick in ticks], "density")
    axes = panel(page, box, f"standardised scores at d = {d}" if d else "standardised scores", across, up)
    for index, density in enumerate(shown):
        look = _line(density, labels) | {"zorder": 2, "gid": f"histogram-{index}"}
        axes.stairs(density.heights, density.edges, **look)
    axes.plot(x, y, zorder=3, gid="normal", **REFERENCE)
