"""A page read without the code that made it: its elements, tables and numbers."""

import base64
import json
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
    """Every element of a page, in the order in which they begin."""

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
        """The elements of a kind."""
        return [each for each in self.elements if each.tag == tag and attributes.items() <= each.attributes.items()]

    def views(self) -> list[dict[str, Any]]:
        """What the script is given."""
        return [json.loads(each.text) for each in self.all("script", **{"class": "data"})]

    def tables(self) -> dict[str, list[list[Element]]]:
        """The cells of each table by row, the headings first; by the table's name."""
        found: dict[str, list[list[Element]]] = {}
        for element in self.elements:
            if element.attributes.get("role") == "region":
                rows = found[str(element.attributes["aria-label"]).partition(" of ")[0]] = []
            elif element.tag == "tr":
                rows.append([])
            elif element.tag in ("th", "td"):
                rows[-1].append(element)
        return found


def matrix(view: dict[str, Any], stage: str, label: str, place: int) -> list[bytes]:
    """The numbers of a matrix, row by row, each as the four bytes of a float32, lowest first."""
    planes = zlib.decompress(base64.b64decode(view["matrices"][stage][label][place]))
    count = view["n"] * view["m"]
    assert len(planes) == 4 * count
    words = (int.from_bytes(bytes(planes[i + count * plane] for plane in range(4)), "little") for i in range(count))
    return [struct.pack("<I", (word >> 1) | ((word & 1) << 31)) for word in words]


def numbers(view: dict[str, Any], stage: str, label: str, place: int) -> list[float]:
    """The same as floats."""
    return [struct.unpack("<f", each)[0] for each in matrix(view, stage, label, place)]


def mask(view: dict[str, Any], place: int) -> list[bool]:
    """Which cells are shown, row by row."""
    packed = zlib.decompress(base64.b64decode(view["masks"][view["mask"][place]]))
    return [bool(packed[i // 8] >> (7 - i % 8) & 1) for i in range(view["n"] * view["m"])]
