"""Finds what a heatmap has drawn, by the ids it gives its artists."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import BboxImage
from matplotlib.text import Text
from torch import Tensor

from attncli.studies.study import Matrices, Tokens
from attncli.views.heatmaps import Heatmap, heatmap_figure

ONLY_STIX = "𝒳"  # matplotlib brings a font that has it, and it is not the default one


def heatmap(
    *stack: Tensor,
    stage: str = "weights",
    valid: Tensor | None = None,
    tokens: Tokens | None = None,
    dropout: Sequence[str] = (),
    **options: Any,
) -> Heatmap:
    """The heatmap of scorers `a`, `b`, ... with these matrices."""
    tensors = dict(zip("abcdefghijklmnop", stack, strict=False))
    return heatmap_figure(Matrices(stage, tensors, valid, tokens or Tokens(), dropout), **options)


def artists(figure: Figure, gid: str) -> list[Any]:
    """All artists with this id, or with it and a number, in the order they were drawn."""
    found: list[Any] = figure.findobj(lambda artist: str(artist.get_gid()).rstrip("0123456789").rstrip("-") == gid)
    return found


def panels(figure: Figure) -> list[BboxImage]:
    """The images of the matrices."""
    return artists(figure, "panel")


def values(image: BboxImage) -> np.ma.MaskedArray[Any, Any]:
    """The array that an image shows."""
    return np.ma.asarray(image.get_array())


def words(figure: Figure, gid: str) -> list[str]:
    """The texts with this id."""
    return [artist.get_text() for artist in artists(figure, gid)]


def inches(figure: Figure, image: BboxImage) -> tuple[float, float, float, float]:
    """Left, top (from the upper edge of the figure), width and height of an image."""
    left, bottom, width, height = (float(length) / figure.dpi for length in image.get_window_extent().bounds)
    return left, float(figure.get_figheight()) - bottom - height, width, height


def grid(figure: Figure) -> tuple[int, int]:
    """In how many rows and columns the panels stand."""
    boxes = [inches(figure, image) for image in panels(figure)]
    middles = [(round(left + width / 2, 1), round(top + height / 2, 1)) for left, top, width, height in boxes]
    return len({y for _, y in middles}), len({x for x, _ in middles})


def drawn_texts(figure: Figure) -> list[tuple[str, Any]]:
    """Every text with its extent in pixels, as Agg draws it."""
    found: list[Any] = figure.findobj(Text)
    measure = renderer(figure)
    return [(text.get_text(), text.get_window_extent(measure)) for text in found if text.get_text()]


def renderer(figure: Figure) -> Any:
    """What measures texts as Agg draws them."""
    canvas: Any = FigureCanvasAgg(figure)
    return canvas.get_renderer()


def draw(figure: Figure) -> None:
    """Draws the figure in memory."""
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()


def weights(*shape: int, seed: int = 0) -> Tensor:
    """Rows that sum to 1."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).softmax(-1)
