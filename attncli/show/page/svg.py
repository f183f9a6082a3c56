"""The pictures of a study as SVG elements of a page, in the page's light and dark theme."""

import io
import math
import re
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any
from xml.etree import ElementTree

import numpy as np

from attncli.config.looks import HeatmapLook, Theme
from attncli.errors import printable
from attncli.numbers import exact, number
from attncli.results import Row
from attncli.show.pictures.figures import Hint, Note, Picture

PAGE_THEMES: tuple[Theme, ...] = ("light", "dark")
POINTS = 10.0  # of text on a screen
POINT, MOST_POINTS = 9.0, 200  # units of the side of a point's box; points of a line that have one
REFERENCE = re.compile(r"url\(#(.+)\)")  # to an element by its id
DROPPED_TAGS = ("metadata", "style")
DROPPED_STYLES = ("font", "font-family")  # page.css chooses the font
Figures = Callable[[Any, Note], Any]  # from a look to functions that draw a figure, by the figure's name


def pictures(figures: Figures, name: str, number: int | str) -> list[Row]:
    """Return the pictures of a run, except its heatmaps, with `name`, `title`, `notes` and an SVG for each theme.

    `name` is the run's name and `number` its index on the page, or another word that makes ids unique.
    """
    by_name: dict[str, Row] = {}
    for theme in PAGE_THEMES:
        notes: list[str] = []
        for key, make in figures(HeatmapLook(theme=theme, font_size=POINTS), notes.append).items():
            if not key.startswith("heatmap"):
                known = len(notes)
                svg = inlined(make(), f"p{number}-{key}-{theme}-", f"Picture {key} of {printable(name)}")
                shown = by_name.setdefault(key, {"name": key, "svg": {}, "notes": notes[known:]})
                shown["svg"][theme] = svg
    return list(by_name.values())


def inlined(figure: Picture, prefix: str, title: str) -> str:
    """Return a figure as an `svg` element for HTML, with ids that begin with `prefix`.

    Styles become attributes, as the page's Content-Security-Policy allows no inline styles.
    """
    file = io.BytesIO()
    figure.savefig(file, format="svg")
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
    for hint in (*figure.hints, *_points(figure)):
        box = {"class": "hint", "fill": "none", "pointer-events": "all", **_box(figure, hint)}
        rectangle = ElementTree.SubElement(root, "rect", box | {f"data-{key}": text for key, text in hint.head.items()})
        ElementTree.SubElement(rectangle, "title").text = printable(hint.text)
    root.attrib |= {"role": "img", "aria-label": title, "stroke-linejoin": "round", "stroke-linecap": "butt"}
    return ElementTree.tostring(root, encoding="unicode")


def _points(figure: Picture) -> Iterator[Hint]:
    """Yield the numbers of the points in view of all lines with a label, unless the line has very many."""
    for axes in figure.axes:
        title, x_name, y_name = (
            " ".join(text.split()) for text in (axes.get_title(), axes.get_xlabel(), axes.get_ylabel())
        )
        ticks = dict(zip(axes.get_xticks(), (tick.get_text() for tick in axes.get_xticklabels()), strict=True))
        for line in axes.lines:
            label, points = str(line.get_label()), np.asarray(line.get_xydata(), float)
            if label.startswith("_") or len(points) > MOST_POINTS:
                continue
            ends = zip(*figure.intervals.get(line, ((), ())), strict=True)
            for (x, y), (low, high) in zip_longest(points, ends, fillvalue=(math.nan, math.nan)):
                if axes.viewLim.contains(x, y):
                    at = exact(float(x)) if _is_number(ticks.get(x, "")) else ticks[x]
                    interval = f" ({number([float(low), float(high)])})" if low < high else ""
                    where = ", ".join(filter(None, (title, label, f"{x_name} {at}".strip())))
                    text = f"{where}: {f'{y_name} {number(float(y))}'.strip()}{interval}"
                    yield Hint(axes, text, (x, y), (0.0, 0.0))


def _is_number(text: str) -> bool:
    return not text or text[0].isdigit() or text[0] in "−-"


def _box(figure: Picture, hint: Hint) -> dict[str, str]:
    """Return the attributes of a rectangle for a hint, at least POINT units large."""
    ends = np.add.outer((-0.5, 0.5), (0.0,)) * hint.size + hint.centre
    (left, bottom), (right, top) = hint.axes.transData.transform(ends) * 72 / figure.dpi
    sides = [max(abs(right - left), POINT), max(abs(top - bottom), POINT)]
    corner = (left + right - sides[0]) / 2, 72 * figure.get_figheight() - (top + bottom + sides[1]) / 2
    return {key: f"{value:.1f}" for key, value in zip(("x", "y", "width", "height"), (*corner, *sides), strict=True)}


def _local(name: str) -> str:
    """Return a name without its XML namespace."""
    return name.rpartition("}")[2]
