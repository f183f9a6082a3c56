"""Heatmaps: the matrices of a stage as a grid of panels that can be compared."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args

import matplotlib
from matplotlib.figure import Figure

from attncli.errors import InputError, did_you_mean, got
from attncli.show.numbers import printable
from attncli.studies.study import Matrices
from attncli.views.downsample import block_means
from attncli.views.figure_files import default_settings, save_figure
from attncli.views.fonts import typeface_for
from attncli.views.heatmap.colours import Scale, limits
from attncli.views.heatmap.drawing import Picture, draw
from attncli.views.heatmap.grid import arrange
from attncli.views.heatmap.layout import lay_out, panel_size
from attncli.views.heatmap.notes import footnote, notes_on
from attncli.views.heatmap.numbers import Annotate, numbers_for
from attncli.views.heatmap.panels import Panel, Selection, select

__all__ = ["Heatmap", "HeatmapStyle", "heatmap_figure", "save_figure"]

QUANTITIES = {
    "scores": "score",
    "capped": "score after softcap",
    "weights": "attention weight",
    "dropped": "attention weight after dropout",
}


@dataclass(frozen=True)
class HeatmapStyle:
    """How heatmaps look. `scale` None is `unit` for weights and `shared` for every other stage.

    `unit` colours 0 to 1 and `shared` the range of all panels, with one colour bar; `panel` gives each panel its own.
    """

    cmap: str = "Reds"
    scale: Scale | None = None
    annotate: Annotate = "auto"

    def __post_init__(self) -> None:
        """Refuses unknown words."""
        if self.cmap not in matplotlib.colormaps:
            raise InputError.of(got(self.cmap, "expected a colour map of matplotlib", _near(self.cmap)), ["cmap"])
        for name, value, known in (("scale", self.scale, Scale), ("annotate", self.annotate, Annotate)):
            if value is not None and value not in get_args(known):
                raise InputError.of(got(value, f"expected {name} " + ", ".join(get_args(known))))


@dataclass(frozen=True)
class Heatmap:
    """The figure, and what its reader should know: what was left out, averaged, cut off or not a number."""

    figure: Figure
    notes: tuple[str, ...] = ()


def heatmap_figure(
    matrices: Matrices,
    style: HeatmapStyle = HeatmapStyle(),
    *,
    labels: Sequence[str] | None = None,
    batches: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    most_panels: int = 48,
) -> Heatmap:
    """A panel for each batch element and head (rows) and label (columns).

    Args:
        matrices: tensors (n, m), (b, n, m), (b, heads, n, m), or with more axes, all of which count as heads.
        style: colours, limits and numbers.
        labels: which labels, in this order; all where None.
        batches: which batch elements, counted from 0; all where None.
        heads: which heads, counted from 0; all where None.
        most_panels: more than these are left out, and a note says so.

    Raises:
        InputError: a label, batch element or head that is not there, naming those that are; no stack of matrices.
    """
    with default_settings():
        selection = select(matrices, labels, batches, heads, most_panels)
        quantity, selection = _named(matrices, selection)
        return _heatmap(selection, style, style.scale or _usual_scale(matrices.stage), quantity)


def _usual_scale(stage: str) -> Scale:
    return "unit" if stage == "weights" else "shared"


def _near(name: str) -> str:
    question = did_you_mean(name, matplotlib.colormaps)
    return question if question.startswith("did") else "such as Reds, viridis or Greys"


def _named(matrices: Matrices, selection: Selection) -> tuple[str, Selection]:
    """What the colours mean, and the panels under titles that say which weights are before dropout."""
    quantity = printable(QUANTITIES.get(matrices.stage, matrices.stage))
    before = set(selection.labels) & set(matrices.with_dropout) if matrices.stage == "weights" else set()
    if before == set(selection.labels):
        return f"{quantity} before dropout", selection
    panels = {
        (label, place): replace(panel, label=f"{panel.label} before dropout") if label in before else panel
        for (label, place), panel in selection.panels.items()
    }
    return quantity, replace(selection, panels=panels)


def _heatmap(selection: Selection, style: HeatmapStyle, scale: Scale, quantity: str) -> Heatmap:
    panels = list(selection.panels.values())
    face = typeface_for([quantity, *_texts(panels)])
    all_numbers = style.annotate == "yes"
    sheet = lay_out(arrange(selection, *_slot(panels, all_numbers)), face, scale == "panel", all_numbers)
    shown = [block_means(frame.panel.values, frame.panel.valid, *frame.box.pixels) for frame in sheet.frames]
    picture = Picture(
        sheet=sheet,
        shown=shown,
        ends=limits(shown, scale),
        cmap=matplotlib.colormaps[style.cmap],
        face=face,
        quantity=quantity,
        scale=scale,
        numbers=numbers_for(style.annotate, sheet.frames, shown, face),
        footnote=footnote(sheet.frames, shown),
    )
    return Heatmap(draw(picture), tuple(notes_on(selection, picture, all_numbers)))


def _texts(panels: Sequence[Panel]) -> list[str]:
    return [text for panel in panels for text in (panel.label, *(panel.queries or ()), *(panel.keys or ()))]


def _slot(panels: Sequence[Panel], all_numbers: bool) -> tuple[float, float]:
    """About the room that one panel takes with its labels, in inches."""
    n, m = (max(panel.values.shape[axis] for panel in panels) for axis in (0, 1))
    named = any(panel.queries or panel.keys for panel in panels)
    width, height = panel_size(n, m, len(panels), named, all_numbers)
    return width + 0.4, height + 0.5
