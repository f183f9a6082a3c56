"""Read a page independently of the code that made it: its elements, tables and numbers."""

import base64
import json
import math
import struct
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any


@dataclass
class Element:
    """An element of the page, with all text in it."""

    tag: str
    attributes: dict[str, str | None]
    text: str = ""


@dataclass
class Read(HTMLParser):
    """All elements of a page in the order of their start tags."""

    page: str
    elements: list[Element] = field(default_factory=list)
    open: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(self.elements[-1])

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.text += data

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """Return the elements with this tag and attributes."""
        return [each for each in self.elements if each.tag == tag and attributes.items() <= each.attributes.items()]

    def views(self) -> list[dict[str, Any]]:
        """Return the data for the page's script, one mapping for each view."""
        return [json.loads(each.text) for each in self.all("script", **{"class": "data"})]

    def tables(self) -> dict[str, list[list[Element]]]:
        """Return the cells of each table by row, the headings first, by the table's name."""
        found: dict[str, list[list[Element]]] = {}
        for element in self.elements:
            if element.attributes.get("role") == "region":
                rows = found[str(element.attributes["aria-label"]).partition(" of ")[0]] = []
            elif element.tag == "tr":
                rows.append([])
            elif element.tag in ("th", "td"):
                rows[-1].append(element)
        return found


def numbers(view: dict[str, Any], stage: str, label: str, place: int) -> list[float | None]:
    """Return the numbers of a matrix row by row as floats, None at masked cells, whose bits are all 1."""
    (content,) = (each for each in view["stages"] if each["name"] == stage)
    data, width, size = base64.b64decode(content["data"]), content["bytes"], view["n"] * view["m"]
    places = math.prod(len(axis["names"]) for axis in view["axes"])
    matrix = [view["labels"][index] for index in content["labels"]].index(label) * places + place
    cells = [data[width * i : width * (i + 1)] for i in range(matrix * size, (matrix + 1) * size)]
    kind = {4: "<f", 2: "<e"}[width]
    return [None if set(cell) == {255} else float(struct.unpack(kind, cell)[0]) for cell in cells]
