"""Finds what the figure of a study has drawn, by the ids it gives its artists."""

from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text


def artists(figure: Figure, gid: str) -> list[Any]:
    """All artists with this id, or with it and a number, in the order they were drawn."""
    found: list[Any] = figure.findobj(lambda artist: str(artist.get_gid()).rstrip("0123456789").rstrip("-") == gid)
    return found


def words(figure: Figure, gid: str) -> list[str]:
    """The texts with this id."""
    return [artist.get_text() for artist in artists(figure, gid)]


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
