"""The colour and the marker of a scorer: the same in every picture and on every page, whatever stands beside it."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from attncli.scorers import SCORERS

Dash = str | tuple[int, tuple[float, ...]]  # a line style of matplotlib

# (on a light ground, on a dark one): at least 3:1 against the ground, and told apart by the colour-blind.
CATALOGUE = (
    ("#0253cc", "#476fff"),
    ("#e86e16", "#d66035"),
    ("#14532f", "#81b98b"),
    ("#b13580", "#bb6097"),
    ("#179bca", "#7bd9f7"),
    ("#85541b", "#eed03e"),
    ("#000000", "#f7f7f0"),
)
OTHERS = (
    ("#3a2088", "#8567ff"),
    ("#7a1f3d", "#f1959f"),
    ("#597f5f", "#aaff90"),
    ("#5c4f08", "#fff64d"),
    ("#9a62ad", "#a06ab2"),
    ("#f26437", "#e54e39"),
)
MARKERS, OTHER_MARKERS = ("o", "s", "^", "D", "v", "P", "X"), ("<", ">", "p", "*", "h")
GREYS = ("#000000", "#555555", "#8a8a8a")
DASHES: tuple[Dash, ...] = ("-", (0, (5, 1.5)), (0, (1, 1.3)), (0, (4, 1.3, 1, 1.3)), (0, (8, 2)))


@dataclass(frozen=True)
class LabelLook:
    """How what has a label is drawn: its colours by theme, as `#rrggbb`; marker and dash as matplotlib calls them.

    `index` is its place in the palette: of the catalogue's scorers first, and then of all other labels.
    """

    index: int
    light: str
    dark: str
    print: str
    marker: str
    dash: Dash


# Those of one colour follow each other, so that the next place has another marker.
COLOURED = [
    *zip(range(len(CATALOGUE)), CATALOGUE, MARKERS, strict=True),
    *((index, colours, marker) for index, colours in enumerate(OTHERS, len(CATALOGUE)) for marker in OTHER_MARKERS),
]
LOOKS = [
    LabelLook(index, *colours, GREYS[place % len(GREYS)], marker, DASHES[place % len(DASHES)])
    for place, (index, colours, marker) in enumerate(COLOURED)
]


def looks_of(labels: Iterable[str]) -> dict[str, LabelLook]:
    """The look of each label, in the order of the labels.

    Scorers of the catalogue have colour and marker by their name; any other label has them from a hash of itself.
    Where two labels would look the same, the later one by the alphabet takes the next marker that is free.
    """
    wanted = list(dict.fromkeys(labels))
    names = list(SCORERS)[: len(CATALOGUE)]
    places = {label: names.index(label) for label in wanted if label in names}
    taken = set[int]()
    for label in sorted(set(wanted) - set(places)):
        many = len(LOOKS) - len(CATALOGUE)
        first = int.from_bytes(hashlib.sha256(label.encode("utf-8", "surrogatepass")).digest()[:8]) % many
        free = (place for step in range(many) if (place := (first + step) % many) not in taken)
        taken.add(place := next(free, first))
        places[label] = len(CATALOGUE) + place
    return {label: LOOKS[places[label]] for label in wanted}
