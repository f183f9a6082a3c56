"""Output of the study `swap` for results with known numbers: findings, tables, swap.png and heads.png."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from attncli.config.looks import Look
from attncli.models.outputs import OutputKind
from attncli.results import Result, Row
from attncli.show.pictures.figures import Picture, ignore_note
from attncli.show.pictures.themes import look_sheet
from attncli.studies.swap.columns import SwapFacts
from attncli.studies.swap.figure import figures
from attncli.studies.swap.findings import swap_findings
from tests.show.samples import shown

LAYERS = {"decoder.2": 0, "decoder.7": 1, "decoder.11": 2}  # numbers by name
HEADS = 4
SPARSE = {"decoder.2": 0.25, "decoder.7": 0.75, "decoder.11": 0.5}
SIZES: Mapping[str, Mapping[str, float]] = {  # the main number by label and layer
    "model": dict.fromkeys(LAYERS, 0.0),
    "sparse": SPARSE,
    "cosine": {"decoder.2": 0.375, "decoder.7": -0.125, "decoder.11": 0.0625},
    "uniform": {"decoder.2": 0.008, "decoder.7": 0.9, "decoder.11": 0.005},
    "zero": {"decoder.2": 0.5, "decoder.7": 0.5, "decoder.11": 0.625},
}


def measured(kind: OutputKind, size: float, has_metric: bool) -> Row:
    row: Row = {"relative_l2": abs(size), "largest": 2 * abs(size)}
    if has_metric:
        row |= {"metric": 0.5 + size, "metric_change": size, "metric_change_se": None}
    if kind == "language":
        row |= {"loss": 3.0 + size, "loss_change": size, "loss_change_se": abs(size) / 8, "perplexity": 20.0}
        row |= {"kl": 0.5, "top1_agreement": 0.875}
    if kind == "states":
        row |= {"token_cosine": 0.75, "pooled_cosine": 0.5, "rank_correlation": 0.25}
    return row | {"seconds": 0.5}


def result_of(
    kind: OutputKind = "other",
    by: Sequence[str] = ("all", "layer", "head", "up_to", "from"),
    sizes: Mapping[str, Mapping[str, float]] = SIZES,
    metric: str | None = None,
) -> Result:
    """Return a result in which a head has its layer's number times (head + 1) / 8, and all layers have their sum."""
    rows = []
    for label, way in itertools.product(sizes, by):
        heads = range(HEADS) if way == "head" else (None,)
        for layer, head in itertools.product([None] if way == "all" else LAYERS, heads):
            size = sizes[label][layer] if layer else sum(sizes[label].values())
            size *= 1 if head is None else (head + 1) / 8
            names = {"scorer": label, "label": label, "normalizer": "softmax", "by": way, "layer": layer, "head": head}
            rows.append(names | measured(kind, size, metric is not None))
    facts = SwapFacts(model="tiny", texts=3, kind=kind, metric=metric, heads=dict.fromkeys(LAYERS, HEADS))
    formulas = {label: f"the formula of {label}" for label in sizes}
    result = Result("swap", "swap", rows, formulas=formulas, layers=LAYERS, facts=facts)
    return replace(result, findings=swap_findings(result))


def texts(kind: OutputKind = "other", sparse: Mapping[str, float] = SPARSE, **keys: Any) -> dict[str | None, str]:
    """Return the sentences of a result by label; those about uniform weights are joined."""
    joined = dict[str | None, str]()
    for finding in result_of(kind, sizes={**SIZES, "sparse": sparse}, **keys).findings:
        joined[finding.label] = f"{joined.get(finding.label, '')} {finding.text}".strip()
    return joined


def test_sentences_name_the_most_and_the_least_and_what_is_worse_than_no_attention() -> None:
    found = texts()
    assert [*found] == ["sparse", "cosine", None]
    assert found["sparse"] == (
        "sparse: in all layers changes the output by 150 %; "
        "one layer at a time most in layer 1 (75 %), least in layer 0 (25 %); "
        "one head at a time most in layer 1, head 3 (38 %), least in layer 0, head 0 (3.1 %); "
        "layers added from the first one most up to layer 1 (75 %), least up to layer 0 (25 %); "
        "layers added from the last one most from layer 1 on (75 %), least from layer 0 on (25 %); "
        "worse than no attention in layer 1; layer 1, head 0; layer 1, head 1; layer 1, head 2; layer 1, head 3."
    )
    (numbers,) = (finding.numbers for finding in result_of().findings if finding.label == "sparse")
    expected = {"relative_l2": 1.5, "most_by_layer": 0.75, "least_by_layer": 0.25}
    expected |= {"most_by_head": 0.375, "least_by_head": 0.03125, "most_by_up_to": 0.75, "least_by_up_to": 0.25}
    assert numbers == expected | {"most_by_from": 0.75, "least_by_from": 0.25}
    assert found[None].startswith(
        "2 of 3 layers may as well have uniform weights, which change the output by less than 1 %: layers 0 and 2. "
        "8 of 12 heads may as well have uniform weights, which change the output by less than 1 %: layer 0, head 0;"
    )
    assert found[None].endswith("layer 2, head 0 and 3 more.")


@pytest.mark.parametrize(
    ("kind", "factor", "words"),
    [
        ("language", 1.0, "raises the loss by 1.50 ± 0.19 nats, to 4.500"),
        ("language", -1.0, "lowers the loss by 1.50 ± 0.19 nats, to 1.500"),
        ("language", 0.0, "leaves the loss at 3.000 nats"),
        ("language", math.nan, "makes the loss NaN"),
        ("language", math.inf, "raises the loss by inf ± inf nats, to inf"),
        ("other", math.nan, "changes the output by nan"),
        ("other", 0.0, "leaves the output as it is"),
        ("states", 1.0, "changes the output by 150 % (similarities of texts keep a rank correlation of 0.25)"),
    ],
)
def test_sentences_say_what_an_entry_does_in_all_layers(kind: OutputKind, factor: float, words: str) -> None:
    sparse = {layer: factor * size for layer, size in SPARSE.items()}
    assert texts(kind, sparse, by=["all"])["sparse"] == f"sparse: in all layers {words}."


def test_losses_that_fall_or_are_missing_are_ordered_by_their_sign() -> None:
    missing = texts("language", {**SPARSE, "decoder.7": math.nan})["sparse"]
    assert "; one layer at a time the change is highest in layer 2 (0.50 ± 0.062), lowest in layer 0 (0.25 " in missing
    lower = texts("language", {layer: -size for layer, size in SPARSE.items()})["sparse"]
    assert " the change is highest in layer 0 (-0.25 ± 0.031), lowest in layer 1 (-0.75 ± 0.094); " in lower
    assert "worse" not in lower
    for change in (0.83, 0.84):  # no attention has 0.5, and two standard errors are 2 (change / 8 + 0.5 / 8)
        found = texts("language", {**SPARSE, "decoder.7": change}, by=["layer"])["sparse"]
        assert found.endswith("; worse than no attention in layer 1.") == (change > 0.83) == ("worse" in found)


def test_places_that_are_equal_and_a_single_one() -> None:
    still = texts(sparse=dict.fromkeys(LAYERS, 0.0), by=["layer"])["sparse"]
    assert still == "sparse: one layer at a time 0 % at each place."
    result = result_of(by=["from"])
    single = replace(result, records=[row for row in result.records if row["layer"] == "decoder.7"])
    assert swap_findings(single)[0].text == "sparse: layers added from the last one 75 % from layer 1 on."


def test_sentences_about_a_metric_do_not_judge_its_direction() -> None:
    found = texts("language", metric="accuracy", by=["all", "layer", "head"])
    assert found["cosine"] == (
        "cosine: in all layers raises accuracy by 0.312, to 0.8125; "
        "one layer at a time the change is highest in layer 0 (0.38), lowest in layer 1 (-0.12); "
        "one head at a time the change is highest in layer 0, head 3 (0.19), lowest in layer 1, head 3 (-0.062)."
    )
    assert "worse" not in " ".join(found.values())


def test_tables() -> None:
    text = shown(result_of("language"))
    lines = [line.split() for line in text.splitlines()]
    assert text.startswith("tiny: 3 layers with attention, 3 texts; references: model, uniform, zero\n")
    start = lines.index(["All", "layers"])
    assert ["sparse", "1.50", "3.00", "4.500", "1.50", "0.188", "20.00", "0.500", "0.875"] in lines[start:]
    start = lines.index(["loss", "change", "(nats),", "one", "layer", "at", "a", "time"])
    assert lines[start + 1] == ["layer", "sparse", "cosine", "uniform", "zero"]
    assert lines[start + 3 : start + 6] == [
        ["0", "0.250", "0.375", "0.00800", "0.500"],
        ["1", "0.750", "-0.125", "0.900", "0.500"],
        ["2", "0.500", "0.0625", "0.00500", "0.625"],
    ]
    assert ["0", "3", "0.125", "0.188", "0.00400", "0.250"] in lines, "of a head"
    assert "metric change, one layer at a time" in shown(result_of("language", metric="accuracy"))


def drawn(result: Result, which: str) -> Picture:
    """Return a picture of a result."""
    return figures(result, ignore_note, Look())[which]()


TITLES = ["one layer at a time", "all layers up to this one", "all layers from this one on"]


@pytest.mark.parametrize(
    ("kind", "axis", "shift"),
    [("other", "relative L2", 0.0), ("language", "loss change (nats)", 5.0), ("language", "loss change (nats)", -5.0)],
)
def test_the_profile_has_a_curve_for_each_label_in_every_panel_and_0(kind: Any, axis: str, shift: float) -> None:
    moved = {label: {layer: size + shift for layer, size in sizes.items()} for label, sizes in SIZES.items()}
    result, sheet = result_of(kind, sizes=moved), look_sheet(Look())
    panels = [axes for axes in drawn(result, "swap").axes if axes.lines]
    assert [axes.get_title().replace("\n", " ") for axes in panels] == TITLES
    for axes in panels:
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("layer", axis)
        curves: dict[Any, Any] = {line.get_label(): line for line in axes.lines}
        assert [*curves] == ["sparse", "cosine", "uniform", "zero"]
        low, high = axes.get_ylim()
        for label, line in curves.items():
            sizes = [size if kind == "language" else abs(size) for size in moved[label].values()]
            assert ([*line.get_xdata()], [*line.get_ydata()]) == ([0, 1, 2], sizes)
            assert low <= min(0, *sizes) < max(0, *sizes) <= high
        assert to_rgb(curves["sparse"].get_color()) != to_rgb(curves["cosine"].get_color())
        greys = [to_rgb(curves[label].get_color()) for label in ("uniform", "zero")]
        assert greys == [to_rgb(sheet.ink(share)) for share in (0.85, 0.6)]
        assert all(curves[label].get_linestyle() == "--" for label in ("uniform", "zero"))
        assert curves["uniform"].get_marker() != curves["zero"].get_marker()


def test_lines_have_gaps_and_the_legend_has_only_what_is_drawn() -> None:
    result = result_of(by=["layer"])
    rows = [row for row in result.records if row["layer"] != "decoder.7" and row["label"] in ("model", "sparse")]
    picture = drawn(replace(result, records=rows), "swap")
    (line,) = picture.axes[0].lines
    np.testing.assert_equal(np.array(line.get_ydata(), float), [0.25, math.nan, 0.5])
    assert [text.get_text() for text in picture.legends[0].get_texts()] == ["sparse"]
    assert picture.axes[0].get_ylim()[0] == 0
    model = {**rows[0], "by": "all", "layer": None}
    assert "All layers" not in shown(replace(result, records=[model, *rows]))


def test_the_grid_of_heads_has_layers_as_rows_and_heads_as_columns() -> None:
    broken = {**SIZES, "cosine": {**SIZES["cosine"], "decoder.11": math.nan}}
    panels = [axes for axes in drawn(result_of("language", sizes=broken), "heads").axes if axes.images]
    labels = [axes.get_title().partition(", mean ")[0] for axes in panels]
    assert labels == ["sparse", "cosine", "uniform", "zero"]
    for axes, label in zip(panels, labels, strict=True):
        (image,) = axes.images
        sizes, shares = [*broken[label].values()], [(head + 1) / 8 for head in range(HEADS)]
        shape: Any = image.get_array()
        np.testing.assert_allclose(np.ma.filled(shape, np.nan), np.outer(sizes, shares))
        norm: Any = image.norm
        assert norm.vmax == -norm.vmin > 0, "one scale for all, diverging since a loss may fall"
    assert len({axes.images[0].norm.vmax for axes in panels}) == 1
