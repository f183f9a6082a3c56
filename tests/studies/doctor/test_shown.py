"""Output of the study `doctor` for results with known findings: sentences, tables and doctor.png."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb

from attncli.config.looks import Look
from attncli.results import Result, Row
from attncli.show.pictures.figures import Picture, ignore_note
from attncli.show.pictures.themes import look_sheet
from attncli.studies.doctor.checks import CHECKS
from attncli.studies.doctor.columns import DoctorFacts
from attncli.studies.doctor.figure import Shades, figures
from attncli.studies.doctor.findings import doctor_findings
from tests.show.samples import shown

LAYERS = {"decoder.3": 3, "decoder.8": 8}  # numbers by name
HEADS = 3
CHECK = {check.key: check for check in CHECKS}
FOUND = [  # label, layer, head, check and value
    ("model", "decoder.3", 0, "first_key", 0.25),  # its limit is lower in this result
    ("model", "decoder.3", 2, "first_key", 0.75),
    ("model", "decoder.8", 1, "overflow", 70000.0),
    ("model", "decoder.8", 2, "uniform", 0.99),
    ("model", "decoder.8", 2, "silent", 0.004),
    ("model", "decoder.8", 0, "silent", 0.016),
]


def result_of(*more: tuple[str, str, int, str, float], labels: tuple[str, ...] = ("model",)) -> Result:
    """Return a result of two layers with three heads, and the findings of FOUND and `more`."""
    records = [
        {"scorer": label, "label": label, "layer": layer, "head": head, "check": check, "kind": CHECK[check].kind}
        | {"value": value, "limit": CHECK[check].limit, "about": CHECK[check].meaning}
        for label, layer, head, check, value in (*FOUND, *more)
    ]
    heads: list[Row] = [
        {"scorer": label, "label": label, "layer": layer, "head": head, **dict.fromkeys(CHECK, 0.5)}
        for label in labels
        for layer in LAYERS
        for head in range(HEADS)
    ]
    facts = DoctorFacts(model="tiny", texts=2, checked=len(heads), unjudged=[])
    formulas = {label: f"the formula of {label}" for label in labels}
    result = Result("doctor", "doctor", records, heads=heads, layers=LAYERS, facts=facts, formulas=formulas)
    return replace(result, findings=doctor_findings(result))


def test_sentences_name_the_most_extreme_heads_first_and_faults_before_remarks() -> None:
    sink, quiet = (CHECK[key].meaning for key in ("first_key", "silent"))
    assert [finding.text for finding in result_of().findings] == [
        f"fault, overflow in 1 of 6 heads: layer 8, head 1 (largest product 70,000). {CHECK['overflow'].meaning}",
        f"uniform in 1 of 6 heads: layer 8, head 2 (entropy / ln m 0.99). {CHECK['uniform'].meaning}",
        f"first_key in 2 of 6 heads: layer 3, head 2 (weight on first key 0.75); layer 3, head 0 (0.25). {sink}",
        f"silent in 2 of 6 heads: layer 8, head 2 (length of output 0.0040); layer 8, head 0 (0.016). {quiet}",
    ]
    silent = result_of().findings[-1]
    assert (silent.label, silent.numbers) == ("model", {"count": 2, "heads": 6, "most": 0.004})


def test_sentences_of_many_heads_and_labels_without_findings() -> None:
    many = [("model", "decoder.8", head, "first_key", 0.5 + head / 100) for head in range(HEADS)]
    (found,) = [finding.text for finding in result_of(*many).findings if "first_key" in finding.text]
    named = "layer 3, head 2 (weight on first key 0.75); layer 8, head 2 (0.52); layer 8, head 1 (0.51) and 2 more"
    assert found.startswith(f"first_key in 5 of 6 heads: {named}. ")
    texts = [finding.text for finding in result_of(labels=("model", "dot")).findings]
    assert texts[0].startswith("model: fault, overflow in 1 of 6 heads")
    assert texts[-1] == "Nothing found in 6 heads with dot."
    few = replace(result_of(), facts=DoctorFacts(model="tiny", checked=6, unjudged=["decoder.8"]))
    assert doctor_findings(few)[-1].text.startswith("Only faults were checked of some heads in layer 8: other")


def test_the_grid_of_letters() -> None:
    lines = [line.split() for line in shown(result_of()).splitlines()]
    assert lines[0] == ["tiny:", "2", "layers,", "6", "heads,", "2", "texts"]
    start = lines.index(["Layers", "and", "heads"])
    assert lines[start + 1] == ["layer", "0", "1", "2"]
    assert lines[start + 3 : start + 5] == [["3", "F", "·", "F"], ["8", "Z", "O", "UZ"]]
    assert ["O", "overflow", "U", "uniform", "F", "first_key", "Z", "silent", "·", "nothing", "found"] in lines


def drawn(result: Result, **look: Any) -> tuple[Picture, list[Axes]]:
    """Return the picture of a result and its panels."""
    figure = figures(result, ignore_note, Look(**look))["doctor"]()
    return figure, [axes for axes in figure.axes if axes.images]


def test_the_panel_has_layers_as_rows_from_the_top_and_heads_as_columns() -> None:
    _, (axes,) = drawn(result_of())
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Heads", "Layers")
    assert [text.get_text() for text in axes.get_xticklabels()] == ["0", "1", "2"]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["3", "8"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1], "the first layer is at the top"
    letters = {text.get_position(): text.get_text() for text in axes.texts}
    assert letters == {(0, 0): "F", (2, 0): "F", (0, 1): "Z", (1, 1): "O", (2, 1): "UZ"}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_tell_checks_apart_and_are_stronger_further_beyond_the_limit(theme: Any) -> None:
    """Of the colour of a check 0.12 at its limit, and 0.6 at the most extreme value, which the legend shows."""
    figure, (axes,) = drawn(result_of(), theme=theme)
    ground, (image,), (strip,) = np.array(to_rgb(look_sheet(Look(theme=theme)).ground)), axes.images, axes.patches
    array: Any = image.get_array()
    colours, silent = array - ground, np.array(to_rgb(strip.get_facecolor())) - ground
    assert (strip.get_xy(), strip.get_width()) == ((2.0, 0.5), 0.5), "the right half of layer 8, head 2"  # type: ignore[attr-defined]
    np.testing.assert_allclose(colours[0, 0], colours[0, 2] * 0.12 / 0.6, atol=0.01)
    np.testing.assert_allclose(colours[1, 0], silent * (0.12 + 0.48 * 0.25) / 0.6, atol=0.01)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "O  fault, overflow 70,000",
        "U  uniform 0.99",
        "F  first_key 0.25 to 0.75",
        "Z  silent 0.016 to 0.0040",
    ]
    faces = np.array([to_rgb(patch.get_facecolor()) for patch in legend.get_patches()]) - ground
    np.testing.assert_allclose(faces, [colours[1, 1], colours[1, 2], colours[0, 2], silent], atol=0.01)
    assert len({to_hex(abs(face)) for face in faces}) == 4


def test_each_label_has_a_panel() -> None:
    more = ("dot", "decoder.3", 1, "saturated", 0.95)
    _, panels = drawn(result_of(more, labels=("model", "dot")))
    assert [axes.get_title() for axes in panels] == ["model", "dot"]
    assert {text.get_position(): text.get_text() for text in panels[1].texts} == {(1, 0): "S"}


@pytest.mark.parametrize(
    ("masks", "texts", "lines"),
    [
        (["window 8", "causal"], ["window 8", "causal"], [0.5]),
        (["causal", "causal"], [], []),
    ],
)
def test_layers_with_different_masks_are_parted(masks: list[str], texts: list[str], lines: list[float]) -> None:
    summaries = {name: {"mask": mask} for name, mask in zip(LAYERS, masks, strict=True)}
    _, (axes,) = drawn(replace(result_of(), summaries=summaries))
    assert [label.get_text() for side in axes.child_axes for label in side.get_yticklabels()] == texts
    assert [line.get_ydata()[0] for line in axes.lines] == lines  # type: ignore[index]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_check_has_a_colour_and_those_of_faults_are_red(theme: Any) -> None:
    sheet, pixels = look_sheet(Look(theme=theme)), dict[str, tuple[float, float, float]]()
    for check in CHECKS:
        value = check.limit / 2 if check.is_below else 2 * check.limit + 1
        pixels[check.key] = Shades(check, [value]).colour(sheet, value)
    assert len({to_hex(pixel) for pixel in pixels.values()}) == len(CHECKS)
    for check in CHECKS:
        red, *others = pixels[check.key]
        assert check.kind == "remark" or red - max(others) > 0.1, check.key


def test_the_legend_is_below_the_panel_and_whole() -> None:
    rows = [("model", "decoder.3", 1, check.key, value) for check in CHECKS for value in (check.limit or 0.1, 3.0)]
    figure, (axes,) = drawn(result_of(*rows))
    (box,) = (legend.get_window_extent() for legend in figure.legends)
    assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
    panel = axes.get_tightbbox()
    assert panel is not None
    assert figure.bbox.y0 <= box.y0 < box.y1 < panel.y0
