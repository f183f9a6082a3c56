"""Colours and markers of labels: the same whatever stands beside them, and told apart by everyone."""

import random

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.colors import to_rgb

from attncli.scorers import SCORERS
from attncli.show.looks import OTHER_MARKERS, OTHERS, looks_of
from attncli.show.themes import THEMES
from tests.show.drawn import contrast, linear

LABELS = [*SCORERS, "bilinear", "注意", "scaled_dot_1_over_d", "mine:Negative", "_hidden", "$x$", "\udcff"]
NORMAL = np.eye(3).tolist()
# Machado, Oliveira and Fernandes (2009), severity 1: linear RGB as protanopes, deuteranopes and tritanopes see it.
BLIND = {
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
Lab = npt.NDArray[np.float64]
APART = 18.0  # CIELAB units; 2.3 can just be seen


def lab(rgb: Lab) -> Lab:
    """CIELAB of linear RGB under D65."""
    x, y, z = TO_XYZ @ rgb.clip(0, 1) / (0.95047, 1.0, 1.08883)
    fx, fy, fz = (each ** (1 / 3) if each > 0.008856 else 7.787 * each + 16 / 116 for each in (x, y, z))
    return np.array([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])


def test_the_same_label_looks_the_same_in_any_order_and_beside_any_other() -> None:
    whole, generator = looks_of(LABELS), random.Random(0)
    assert len({(look.light, look.marker) for look in whole.values()}) == len(LABELS), "no clash in this list"
    for _ in range(30):
        some = generator.sample(LABELS, generator.randint(1, len(LABELS)))
        assert looks_of(some) == {label: whole[label] for label in some}
        assert list(looks_of(some)) == some


def test_labels_that_clash_get_different_markers_whatever_their_order() -> None:
    labels = [f"entry {index}" for index in range(len(OTHERS) * len(OTHER_MARKERS))]
    looks = looks_of(labels)
    assert len({(look.light, look.marker) for look in looks.values()}) == len(labels)
    assert looks_of(labels[::-1]) == looks
    assert len(looks_of([*labels, "one more"])) == len(labels) + 1


def test_the_catalogue_is_told_apart_by_colour_and_by_marker() -> None:
    looks = looks_of(SCORERS).values()
    assert len({look.marker for look in looks}) == len(SCORERS)
    for theme in ("light", "dark"):
        colours = [linear(getattr(look, theme)) for look in looks]
        for eye in (NORMAL, *BLIND.values()):
            seen = [lab(np.array(eye) @ colour) for colour in colours]
            distances = [np.linalg.norm(a - b) for index, a in enumerate(seen) for b in seen[:index]]
            assert min(distances) > APART


@pytest.mark.parametrize("theme", THEMES)
def test_every_colour_can_be_seen_on_its_ground(theme: str) -> None:
    ground, ink = THEMES[theme].ground, THEMES[theme].ink
    assert contrast(ink, ground) > 12
    for look in looks_of([*SCORERS, *(f"entry {index}" for index in range(30))]).values():
        assert contrast(getattr(look, theme), ground) > 3


def test_in_print_all_is_grey_and_neighbours_of_the_catalogue_differ_by_dash() -> None:
    looks = list(looks_of(SCORERS).values())
    assert all(len(set(to_rgb(look.print))) == 1 for look in looks)
    assert len({(look.print, look.dash) for look in looks}) == len(looks)
