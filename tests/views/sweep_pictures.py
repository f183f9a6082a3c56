"""Reads the pictures of `variance` and `saturation`, by the ids of their artists."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from attncli.runs.records import SweepResult
from attncli.views import load_view
from tests.views.artists import drawn_texts


def points(figure: Figure, gid: str) -> list[tuple[float, float]]:
    """The points of the only line with this id."""
    lines: list[Any] = figure.findobj(lambda artist: artist.get_gid() == gid)
    (line,) = lines
    return list(zip(line.get_xdata(), line.get_ydata(), strict=True))


def saved(result: SweepResult, path: Path) -> list[str]:
    """Saves the picture, and gives the notes."""
    notes: list[str] = []
    (draw,) = load_view(result.study).pictures(result, notes.append).values()
    draw(path)
    return notes


def check_texts(figure: Figure) -> None:
    """All texts lie on the page, and none on another."""
    width, height = figure.get_size_inches() * figure.dpi
    boxes = drawn_texts(figure)
    for text, box in boxes:
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= width, text
        assert box.y1 <= height, text
    for index, (text, box) in enumerate(boxes):
        assert [other for other, place in boxes[:index] if box.overlaps(place)] == [], text
