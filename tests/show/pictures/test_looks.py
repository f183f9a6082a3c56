"""Colours, markers and widths of lines: no two labels of a picture share a colour, and scorers keep theirs."""

import random
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.colors import to_rgb

from attncli.scorers import SCORERS
from attncli.show.pictures.looks import CATALOGUE, PALETTE, label_looks
from attncli.show.pictures.themes import THEMES
from tests.show.pictures.drawn import contrast, linear

pytestmark = pytest.mark.catalogue("scorers")
LABELS = [*SCORERS, "bilinear", "注意", "scaled_dot_1_over_d", "mine:Negative", "_hidden", "$x$", "\udcff"]
# Machado, Oliveira and Fernandes (2009), severity 1: linear RGB as protanopes, deuteranopes and tritanopes see it.
EYES = {
    "normal": np.eye(3).tolist(),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
Lab = npt.NDArray[np.float64]


def lab(rgb: Lab) -> Lab:
    """CIELAB of linear RGB under D65."""
    x, y, z = TO_XYZ @ rgb.clip(0, 1) / (0.95047, 1.0, 1.08883)
    fx, fy, fz = (each ** (1 / 3) if each > 0.008856 else 7.787 * each + 16 / 116 for each in (x, y, z))
    return np.array([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])


def test_labels_of_a_picture_share_no_colour_while_there_is_another() -> None:
    generator = random.Random(0)
    labels = [*LABELS, *(f"entry {index}" for index in range(30))]
    for _ in range(100):
        names = generator.sample(labels, generator.randint(2, len(PALETTE)))
        looks = label_looks(names)
        assert len({look.light for look in looks.values()}) == len({look.dark for look in looks.values()}) == len(names)
        assert {look.dash for look in looks.values()} == {"-"}
        assert looks == label_looks(names[::-1]), "the order of the labels does not matter"
        for label, look in looks.items():
            alone = label_looks([label])[label]
            others = label_looks([each for each in names if each != label])
            assert look == alone or alone.light in {other.light for other in others.values()}
            assert look == alone or label not in SCORERS, "a scorer always has the first choice"


def test_after_all_colours_dashes_and_markers_tell_labels_apart() -> None:
    labels = [f"entry {index}" for index in range(3 * len(PALETTE))]
    looks = list(label_looks(labels).values())
    assert all(sum(look.light == light for look in looks) == 3 for light, _ in PALETTE), "each colour as often"
    for a, b in combinations(looks, 2):
        assert a.light != b.light or (a.dash != b.dash and a.marker != b.marker)
    assert label_looks(labels[::-1]) == label_looks(labels)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    ("eye", "colours", "least"),
    [("normal", PALETTE, 28.0), *((eye, CATALOGUE, 18.0) for eye in ("protan", "deutan", "tritan"))],
)
def test_colours_differ_at_first_sight(theme: str, eye: str, colours: list[tuple[str, str]], least: float) -> None:
    """In units of CIELAB, of which 2.3 can just be seen: all colours, and to the colour-blind the catalogue's."""
    seen = [lab(np.array(EYES[eye]) @ linear(colour[theme == "dark"])) for colour in colours]
    assert min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2)) > least


@pytest.mark.parametrize("theme", THEMES)
def test_every_colour_can_be_seen_on_its_ground(theme: str) -> None:
    ground, ink = THEMES[theme].ground, THEMES[theme].ink
    assert contrast(ink, ground) > 12
    for look in label_looks([*SCORERS, *(f"entry {index}" for index in range(30))]).values():
        assert contrast(getattr(look, theme), ground) > (5 if theme == "dark" else 3)


def test_a_scorer_has_its_colour_under_any_label() -> None:
    scorers = {"mine": "additive", "again": "additive", "one_over_d": "scaled_dot"}
    looks = label_looks(scorers, scorers)
    assert looks["one_over_d"] == label_looks(["scaled_dot"])["scaled_dot"]
    assert looks["again"] == label_looks(["additive"])["additive"] != looks["mine"], "the first of two has it"
    beside = label_looks([*scorers, "additive", "scaled_dot"], scorers)
    assert beside["additive"] == looks["again"], "the label with the scorer's name is the first"
    assert len({look.light for look in beside.values()}) == 5
    assert beside["mine"] == looks["mine"] == label_looks(["mine"])["mine"], "others by their label"


def test_the_first_scorers_differ_by_marker_and_in_print_by_grey_and_dash() -> None:
    looks = list(label_looks(SCORERS).values())
    assert all(len(set(to_rgb(look.print))) == 1 for look in looks)
    first = looks[: len(CATALOGUE)]
    assert len({look.marker for look in first}) == len({(look.print, look.grey_dash) for look in first}) == len(first)
