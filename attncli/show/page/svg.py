"""The pictures of a study as SVG elements of a page, in the page's light and dark theme."""

import io
import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

from attncli.common.study import Record
from attncli.config.looks import HeatmapLook, Theme
from attncli.errors import printable
from attncli.show.pictures.figures import METADATA, Note, Picture, applied

PAGE_THEMES: tuple[Theme, ...] = ("light", "dark")
POINTS = 10.0  # of text on a screen
REFERENCE = re.compile(r"url\(#(.+)\)")  # to an element by its id
DROPPED_TAGS = ("metadata", "style")
DROPPED_STYLES = ("font", "font-family")  # page.css chooses the font
Figures = Callable[[Any, Note], Any]  # from a look to functions that draw a figure, by the figure's name


def pictures(figures: Figures, name: str, number: int | str) -> list[Record]:
    """Return the pictures of a run, except its heatmaps, with `name`, `title`, `notes` and an SVG for each theme.

    `name` is the run's name and `number` its index on the page, or another word that makes ids unique.
    """
    found: dict[str, Record] = {}
    for theme in PAGE_THEMES:
        notes: list[str] = []
        for key, make in figures(HeatmapLook(theme=theme, font_size=POINTS), notes.append).items():
            if not key.startswith("heatmap"):
                known = len(notes)
                svg = inlined(make(), f"p{number}-{key}-{theme}-", f"Picture {key} of {printable(name)}")
                shown = found.setdefault(key, {"name": key, "svg": {}, "notes": list(map(printable, notes[known:]))})
                shown["svg"][theme] = svg
    return list(found.values())


def inlined(figure: Picture, prefix: str, title: str) -> str:
    """Return a figure as an `svg` element for HTML, with ids that begin with `prefix`.

    Styles become attributes, as the page's Content-Security-Policy allows no inline styles.
    """
    file = io.BytesIO()
    with applied(figure.sheet.settings):
        figure.savefig(file, format="svg", metadata=METADATA[".svg"])
    root = ElementTree.fromstring(file.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if _local(child.tag) in DROPPED_TAGS:
                parent.remove(child)
    for element in root.iter():
        element.tag = _local(element.tag)
        attributes = {_local(key): value for key, value in element.attrib.items()}
        styles = attributes.pop("style", "")
        if element.tag == "g":
            attributes.pop("id", None)  # nothing refers to it, and it may not be unique
        for style in filter(None, map(str.strip, styles.split(";"))):
            key, _, value = style.partition(":")
            if key == "font":  # such as `9px 'DejaVu Sans'`
                attributes["font-size"] = next(part for part in value.split() if part.endswith("px"))
            elif key not in DROPPED_STYLES:
                attributes[key] = value.strip()
        for key, value in attributes.items():
            if key == "id":
                attributes[key] = prefix + value
            elif key == "href" and value.startswith("#"):
                attributes[key] = f"#{prefix}{value[1:]}"
            else:
                attributes[key] = REFERENCE.sub(rf"url(#{prefix}\1)", value)
        element.attrib = attributes
    root.attrib |= {"role": "img", "aria-label": title, "stroke-linejoin": "round", "stroke-linecap": "butt"}
    return ElementTree.tostring(root, encoding="unicode")


def _local(name: str) -> str:
    """Return a name without its XML namespace."""
    return name.rpartition("}")[2]
