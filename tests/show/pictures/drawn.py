"""Draw heatmaps, and read texts, ticks and colours from matplotlib's artists."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from torch import Tensor

from attncli.results import Matrices, Tokens
from attncli.show.pictures.figures import Picture
from attncli.show.pictures.heatmaps import heatmap_figure

ONLY_STIX = "𝒳"  # matplotlib brings a font that has it, and it is not the default one


class Heatmap(NamedTuple):
    """A heatmap's figure with its notes."""

    figure: Picture
    notes: list[str]


def heatmap(
    *stack: Tensor,
    stage: str = "weights",
    valid: Tensor | None = None,
    tokens: Tokens | None = None,
    dropout: Sequence[str] = (),
    **options: Any,
) -> Heatmap:
    """Return the heatmap of scorers `a`, `b`, ... with these matrices."""
    tensors = dict(zip("abcdefghijklmnop", stack, strict=False))
    notes: list[str] = []
    drawn = Matrices(stage, tensors, valid, tokens or Tokens(), dropout)
    return Heatmap(heatmap_figure(drawn, note=notes.append, **options), notes)


def weights(*shape: int, seed: int = 0) -> Tensor:
    """Return random weights; rows sum to 1."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).softmax(-1)


def panels(figure: Figure) -> list[Axes]:
    """Return the axes of the matrices."""
    return [axes for axes in figure.axes if axes.images and axes.get_label() != "bar"]


def bars(figure: Figure) -> list[Any]:
    """Return the axes of the colour bars, one for all panels or one for each."""
    return [axes for axes in figure.axes if axes.get_label() == "bar"]


def bar_labels(figure: Figure) -> list[str]:
    """Return the labels of the colour bars."""
    return [f"{axes.get_xlabel()}{axes.get_ylabel()}".replace("\n", " ") for axes in bars(figure)]


def values(axes: Axes) -> np.ma.MaskedArray[Any, Any]:
    """Return the array that a panel shows, whose first row and column must be at the top left."""
    image: Any = axes.images[0]
    left, right, bottom, top = image.get_extent()
    (low, high), (first, last) = axes.get_ylim(), axes.get_xlim()
    assert top < bottom
    assert left < right
    assert (high < low, first < last, image.origin) == (True, True, "upper")
    return np.ma.masked_where(image.get_alpha() == 0, image.get_array())


def above(figure: Figure) -> list[str]:
    """Return the texts above the panels, which may be empty."""
    return [axes.get_title().replace("_\n", "_").replace("\n", " ") for axes in panels(figure)]


def beside(figure: Figure) -> list[str]:
    """Return the texts beside the panels, which may be empty."""
    return [axes.get_ylabel().replace("\n", ", ") for axes in panels(figure)]


def titles(figure: Figure) -> list[str]:
    """Return the label above the column of each panel, and the place beside its row."""
    columns, found, place = dict[int, str](), list[str](), ""
    for axes, title, name in zip(panels(figure), above(figure), beside(figure), strict=True):
        spec: Any = axes.get_subplotspec()
        columns[spec.colspan.start], place = title or columns[spec.colspan.start], name or place
        found.append(f"{columns[spec.colspan.start]}, {place}" if place else columns[spec.colspan.start])
    return found


def labels(axes: Axes, axis: str) -> list[str]:
    """Return the labels of the ticks along `x` or `y`."""
    figure: Any = axes.figure
    figure.draw_without_rendering()
    return [label.get_text() for label in ticks(axes, axis)]


def ticks(axes: Axes, axis: str) -> list[Text]:
    """Return the labels within the view; matplotlib also keeps labels outside the view."""
    low, high = sorted(getattr(axes, f"get_{axis}lim")())
    places, found = getattr(axes, f"get_{axis}ticks")(), getattr(axes, f"get_{axis}ticklabels")()
    if len(found) < len(places):  # no labels on an axis shared with the panel beside it
        return []
    return [label for place, label in zip(places, found, strict=True) if low <= place <= high]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for box in figure.legends for text in box.get_texts()]


def texts(figure: Figure) -> Iterator[tuple[str, Any]]:
    """Return every text that is drawn, with its extent in pixels."""
    figure.draw_without_rendering()
    found = list(figure.texts)
    for axes in figure.axes:
        found += [axes.title, axes.xaxis.label, axes.yaxis.label, axes.yaxis.get_offset_text(), *axes.texts]
        found += ticks(axes, "x") + ticks(axes, "y")
    for box in figure.legends:
        found += [*box.get_texts(), box.get_title()]
    for text in found:
        if text.get_text() and text.get_visible():
            yield text.get_text(), text.get_window_extent()


def check_texts(figure: Figure) -> None:
    """Assert that every text lies on the page and that texts do not overlap."""
    width, height = figure.bbox.size
    boxes = list(texts(figure))
    for index, (text, box) in enumerate(boxes):
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= width, text
        assert box.y1 <= height, text
        for other, second in boxes[:index]:
            across = min(box.x1, second.x1) - max(box.x0, second.x0)
            down = min(box.y1, second.y1) - max(box.y0, second.y0)
            assert min(across, down) <= 4, (text, other)  # pixels: boxes are a little wider than the ink


def linear(colour: Any) -> Any:
    """Return a colour in linear RGB."""
    rgb = np.array(to_rgb(colour))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def contrast(colour: Any, other: Any) -> float:
    """Return the contrast ratio of WCAG 2.2."""
    dark, light = sorted(float(linear(each) @ (0.2126, 0.7152, 0.0722)) for each in (colour, other))
    return (light + 0.05) / (dark + 0.05)
