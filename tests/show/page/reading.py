"""Read a page independently of the code that made it: its elements, tables and numbers."""

import base64
import json
import math
import struct
import zlib
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
        if tag != "meta":
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


MASKED = b"\xff" * 4


def words(view: dict[str, Any], stage: str, label: str, place: int) -> list[bytes]:
    """Return the numbers of a matrix row by row, each as the bytes of a float32, lowest first; or MASKED."""
    data, width, size = zlib.decompress(base64.b64decode(view["data"])), view["bytes"], view["n"] * view["m"]
    places, first = math.prod(len(axis["names"]) for axis in view["axes"]), 0
    for each in view["stages"]:
        labels = [view["labels"][index] for index in each["labels"]]
        if each["name"] == stage:
            first += labels.index(label) * places + place
            break
        first += len(labels) * places
    planes = [data[plane * len(data) // width :] for plane in range(width)]
    cells = (bytes(plane[i] for plane in planes) for i in range(first * size, (first + 1) * size))
    return [MASKED if set(cell) == {255} else bytes(4 - width) + cell for cell in cells]


def numbers(view: dict[str, Any], stage: str, label: str, place: int) -> list[float | None]:
    """Return the numbers of a matrix row by row as floats, None at masked cells."""
    cells = words(view, stage, label, place)
    return [None if cell == MASKED else float(struct.unpack("<f", cell)[0]) for cell in cells]
