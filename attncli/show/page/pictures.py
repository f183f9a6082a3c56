"""The pictures of a study on a page: matplotlib's SVG as images, which run no scripts, in the light and dark theme."""

import base64
import io
from collections.abc import Callable
from typing import Any

from attncli.config.looks import HeatmapLook, Theme
from attncli.results import Row
from attncli.show.pictures.figures import Note

PAGE_THEMES: tuple[Theme, ...] = ("light", "dark")
POINTS = 10.0  # of text on a screen
Figures = Callable[[Any, Note], Any]  # from a look to functions that draw a figure, by the figure's name


def pictures(figures: Figures) -> list[Row]:
    """Return the pictures of a run, except its heatmaps, with `name`, `notes` and an image for each theme, as a URL."""
    by_name: dict[str, Row] = {}
    for theme in PAGE_THEMES:
        notes: list[str] = []
        for key, draw in figures(HeatmapLook(theme=theme, font_size=POINTS), notes.append).items():
            if not key.startswith("heatmap"):
                earlier, file = len(notes), io.BytesIO()
                draw().savefig(file, format="svg")
                picture = by_name.setdefault(key, {"name": key, "images": {}, "notes": notes[earlier:]})
                picture["images"][theme] = f"data:image/svg+xml;base64,{base64.b64encode(file.getvalue()).decode()}"
    return list(by_name.values())
