"""The colour and marker of each scorer, the same in every picture and on every page."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

from attncli.scorers import SCORERS

Dash = str | tuple[int, tuple[float, ...]]  # a line style of matplotlib

# Colours on a light and on a dark background, with a contrast of at least 3:1. Colour-blind readers can distinguish the
# colours in CATALOGUE.
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

# Indices of the first markers of the colours: scorers with the same marker have very different colours.
FIRST_MARKERS = (*range(len(CATALOGUE)), *((5 + other) % len(MARKERS) for other in range(len(OTHERS))))


@dataclass(frozen=True)
class LabelLook:
    """Drawing style of a label: its colours by theme as `#rrggbb`, and its marker and dash for matplotlib.

    `index` is the index of the colour in PALETTE. If `is_dashed`, the line has the dash in all themes, else in `print`.
    """

    index: int
    light: str
    dark: str
    print: str
    marker: str
    dash: Dash
    is_dashed: bool = False


PALETTE = (*CATALOGUE, *OTHERS)
OF_OTHERS = [  # looks of one colour are neighbours, so the next free look differs by its marker
    LabelLook(colour, *PALETTE[colour], GREYS[place % len(GREYS)], marker, DASHES[place % len(DASHES)])
    for place, (colour, marker) in enumerate(
        product(range(len(CATALOGUE), len(PALETTE)), OTHER_MARKERS), len(CATALOGUE)
    )
]


def look_of_scorer(place: int) -> LabelLook:
    """Return the look of the scorer with index `place` in the catalogue, which may have any length.

    The index of the colour also determines grey and dash. After the last colour, the colours repeat with the next
    marker and with dashed lines.
    """
    turn, colour = divmod(place, len(PALETTE))
    marker = MARKERS[(FIRST_MARKERS[colour] + turn) % len(MARKERS)]
    grey, dash = GREYS[colour % len(GREYS)], DASHES[colour % len(DASHES)]
    return LabelLook(colour, *PALETTE[colour], grey, marker, dash, is_dashed=turn > 0)


def looks_of(labels: Iterable[str]) -> dict[str, LabelLook]:
    """Return the look of each label, in the order of the labels.

    A scorer has the look of its index in the catalogue; the look of any other label follows from the label's hash. If
    two such labels would look the same, the second in alphabetical order takes the next free look.
    """
    wanted, places = list(dict.fromkeys(labels)), {name: place for place, name in enumerate(SCORERS)}
    found, taken = {label: look_of_scorer(places[label]) for label in wanted if label in places}, set[int]()
    for label in sorted(set(wanted) - set(found)):
        many = len(OF_OTHERS)
        first = int.from_bytes(hashlib.sha256(label.encode("utf-8", "surrogatepass")).digest()[:8]) % many
        free = (place for step in range(many) if (place := (first + step) % many) not in taken)
        taken.add(place := next(free, first))
        found[label] = OF_OTHERS[place]
    return {label: found[label] for label in wanted}
