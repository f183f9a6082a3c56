"""train.png: accuracy against d, and learning curves at the largest d, as means and ranges over the seeds."""

from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from attncli.core.numbers import several
from attncli.results import Result
from attncli.show.pictures.figures import Note, Picture
from attncli.show.pictures.panels import draw_line, legend, name, one_figure, panels, reference, sizes_axis, unit_axis
from attncli.show.pictures.themes import Sheet
from attncli.studies.train.columns import TrainFacts

APART = 0.15  # distance of markers on a learning curve, relative to the panel's diagonal
BESIDE = 1.04  # factor between neighbouring labels if there is a single d


def train_figure(result: Result, note: Note, sheet: Sheet) -> Picture:
    """Draw accuracies, on test sequences with as many keys as in training, and learning curves."""
    trained, lines, chance = TrainFacts.of(result), sheet.lines(result.labels), reference(sheet)
    rows = [row for row in result.comparisons if row["keys"] == trained.keys]
    largest = max(row["d"] for row in rows)
    title, facts = trained.words.split(": ", 1)
    seeds = ["lines: means over the seeds", "bands: range"] if trained.seeds > 1 else ["one seed only"]
    ended = ["interrupted"] if result.interrupted else []
    figure, (sizes, learning) = panels(sheet, 2, title.capitalize(), [facts, *seeds, *ended])
    name(sizes, f"accuracy after {several(trained.steps, 'step')}", "d")
    name(learning, f"accuracy while learning, d = {largest}", "steps")
    sizes_axis(sizes, (row["d"] for row in rows))
    learning.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    for axes in (sizes, learning):
        unit_axis(axes)
        axes.axhline(
            trained.equal_weights[str(trained.keys)], zorder=1.5, gid="equal-weights", label="_chance level", **chance
        )
    for index, (label, line) in enumerate(lines.items()):
        many = {"bands": len(lines)}
        of_label = sorted((row for row in rows if row["label"] == label), key=lambda row: int(row["d"]))
        shift = BESIDE ** (index - (len(lines) - 1) / 2) if largest == min(row["d"] for row in rows) else 1
        x = shift * np.array([row["d"] for row in of_label])
        accuracies = [np.array([row[f"accuracy{end}"] for row in of_label]) for end in ("", "_min", "_max")]
        draw_line(sizes, x, accuracies, line, gid=f"accuracy-{label}", **many)
        if (accuracy := result.tensors.get(f"{label}/{largest}/accuracy")) is not None:
            curve = accuracy.numpy()  # seeds steps
            means = [curve.mean(0), curve.min(0), curve.max(0)]
            marked: dict[str, Any] = {
                "markevery": (APART * index / len(lines), APART)
            }  # markers of different curves do not overlap
            if not np.isfinite(means[0]).any():  # matplotlib cannot place markers on such a curve
                marked = {}
            steps = result.tensors["steps"].numpy()
            draw_line(learning, steps, means, line, gid=f"curve-{label}", **marked, **many)
    legend(figure, lines | {"chance level": chance})
    return figure


figures = one_figure(train_figure)
