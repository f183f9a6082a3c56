"""The colour and marker of each label, the same in pictures and on pages while the colour is free."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count

from attncli.scorers import SCORERS

Dash = str | tuple[int, tuple[float, ...]]  # a line style of matplotlib

# Colours on a light and on a dark background, with a contrast of at least 3:1 and 5:1. Colour-blind readers can
# distinguish the colours in CATALOGUE.
CATALOGUE = (
    ("#0253cc", "#5b7fff"),
    ("#e86e16", "#d7653b"),
    ("#14532f", "#81b98b"),
    ("#b13580", "#c06b9e"),
    ("#179bca", "#7bd9f7"),
    ("#85541b", "#eed03e"),
    ("#000000", "#f7f7f0"),
)
OTHERS = (  # for other labels, of hues that differ from the catalogue's
    ("#4b0a72", "#b95deb"),
    ("#6b0f0f", "#ffaaaa"),
    ("#0c9c5c", "#159e15"),
    ("#808000", "#66dd10"),
    ("#8080a0", "#8a8a8a"),
    ("#e0103c", "#ff3366"),
)
PALETTE = (*CATALOGUE, *OTHERS)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "*", "h", "d")  # one for each colour
GREYS = ("#000000", "#555555", "#8a8a8a")
DASHES: tuple[Dash, ...] = ("-", (0, (5, 1.5)), (0, (1, 1.3)), (0, (4, 1.3, 1, 1.3)), (0, (8, 2)))


@dataclass(frozen=True)
class LabelLook:
    """Drawing style of a label: its colours by theme as `#rrggbb`, its marker, and its dashes in colour and in grey."""

    light: str
    dark: str
    print: str
    marker: str
    dash: Dash
    grey_dash: Dash


def label_looks(labels: Iterable[str], scorers: Mapping[str, str] | None = None) -> dict[str, LabelLook]:
    """Return the look of each label, in the order of the labels.

    `scorers` has the scorers of labels that are not their scorer's name. A scorer prefers the colour of its index in
    the catalogue. Where several labels have one scorer, the label with its name has this colour, else the first in
    alphabetical order, and each other label prefers the colour of its hash. If the colour is taken, the label gets
    another one. After all colours are used they repeat with other markers and with dashed lines.
    """
    wanted, catalogue = list(dict.fromkeys(labels)), [*SCORERS]
    indices = {
        label: catalogue.index(scorer) if scorer in SCORERS else len(catalogue)
        for label, scorer in {**{label: label for label in wanted}, **(scorers or {})}.items()
    }
    chosen, preferred = dict[str, int](), set[int]()
    for label in sorted(wanted, key=lambda label: (indices[label], label not in SCORERS, label)):
        is_first = indices[label] < len(catalogue) and indices[label] not in preferred
        preferred.add(indices[label])
        first = indices[label] % len(PALETTE) if is_first else len(CATALOGUE) + _hash(label) % len(OTHERS)
        order = sorted(range(len(PALETTE)), key=lambda colour: (colour != first, colour < len(CATALOGUE), colour))
        numbers = (turn * len(PALETTE) + colour for turn in count() for colour in order)
        chosen[label] = next(number for number in numbers if number not in chosen.values())
    return {label: _look(chosen[label]) for label in wanted}


def _hash(label: str) -> int:
    return int.from_bytes(hashlib.sha256(label.encode("utf-8", "surrogatepass")).digest()[:8])


def _look(index: int) -> LabelLook:
    """Return the look with this index: its colour, and how often all colours were used before."""
    turn, colour = divmod(index, len(PALETTE))
    marker, dash = MARKERS[(colour + 5 * turn) % len(MARKERS)], DASHES[turn % len(DASHES)]
    return LabelLook(*PALETTE[colour], GREYS[colour % len(GREYS)], marker, dash, DASHES[colour % len(DASHES)])
