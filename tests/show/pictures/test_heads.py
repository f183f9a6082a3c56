"""Batch elements and heads to show: the choice of the config or the largest differences, and the line that says so."""

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attncli
from attncli.config.looks import HeatmapLook
from attncli.results import Result, Row
from attncli.studies.attention.figure import figures, heads_figure
from tests.margins import last_digit
from tests.show.pictures.drawn import check_texts, labels, panels, titles, values
from tests.show.samples import grids, random_weights, result_of, run_of, shown

pytestmark = pytest.mark.usefixtures("sketches")

SHARP = {"scorer": "scaled_dot", "label": "sharp", "scale": 2.0}


def experiment(*leading: int, n: int = 3, scorers: Sequence[Any] = ("scaled_dot", SHARP), **keys: Any) -> Result:
    """Run scorers on random queries and keys of shape (*leading, n, 8)."""
    data = {name: {"shape": [*leading, n, 8]} for name in ("queries", "keys")}
    return attncli.run({"data": data, "scorers": list(scorers), **keys})


def compared(labels: Sequence[str], batches: int, heads: int, distances: Sequence[float | None]) -> list[Row]:
    """Return comparisons by head with these JS divergences in turn."""
    places = itertools.product(itertools.combinations(labels, 2), range(batches), range(heads))
    figures = {"top1_agreement": 0.5, "max_abs_difference": 0.25, "output_difference": 0.125}
    return [
        {"a": a, "b": b, "batch": batch, "head": head, "js_divergence": distance, **figures}
        for ((a, b), batch, head), distance in zip(places, itertools.cycle(distances), strict=False)
    ]


def result_with(rows: Sequence[Row], batches: int, heads: int, names: Sequence[str]) -> Result:
    result = result_of(*(run_of(random_weights(batches, heads, 2, 3), name) for name in names))
    return replace(result, head_comparisons=rows)


def section(text: str) -> list[tuple[str, ...]]:
    """Return labels, batch element and head of every row of the heads that differ most."""
    after = text.split("Heads that differ most")[1]
    return re.findall(r"^(\w+) +(\w+) +(\d+) +(\d+) ", after, re.M)


def slow_ranking(rows: Sequence[Row]) -> list[Row]:
    """Sort by repeatedly taking the largest remaining row, the first of equal rows; rows with NaN come last."""
    left, found = list(rows), []
    while left:
        best = None
        for row in left:
            value = row["js_divergence"]
            if value is not None and math.isfinite(value) and (best is None or value > best["js_divergence"]):
                best = row
        found.append(best or left[0])
        left.remove(found[-1])
    return found


def shown_tables(text: str) -> list[str]:
    """Return the batch elements and heads of the weight tables, once for each label."""
    return [title.partition(" ")[2] for title in grids(text)]


@given(
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.5, 0.75, None, math.nan]) | st.floats(0, 1), min_size=1, max_size=48),
    st.integers(2, 3),
    st.integers(2, 8),
)
def test_the_ranking_is_what_a_slow_sort_gives(distances: Any, batches: int, heads: int) -> None:
    names = ["dot", "gaussian", "cosine"]
    rows = compared(names, batches, heads, [*distances, 0.125])
    expected = slow_ranking(rows)
    text = shown(result_with(rows, batches, heads, names))
    assert section(text) == [(r["a"], r["b"], str(r["batch"]), str(r["head"])) for r in expected][:5]
    assert (f"{len(rows) - 5} of {len(rows)} rows left out" in text) == (len(rows) > 5)


def test_tables_are_those_of_the_heads_that_differ_most() -> None:
    result = experiment(1, 12, n=2)
    best = sorted(row["head"] for row in slow_ranking(result.head_comparisons)[:8])
    text = shown(result)
    assert shown_tables(text) == [f"head {head}" for head in best] * 2
    cause = "(8 of 12), where the scorers differ most (JS divergence); others with the keys `heads` and `batch`, or"
    assert f"Shown: {', '.join(f'head {i}' for i in best)} {cause} with --full" in re.sub(r"\s+", " ", text)
    full = shown(result, full=True)
    assert (len(shown_tables(full)), "Shown:" in full) == (2 * 12, False)
    rows = re.findall(r"^scaled_dot +sharp +0 +(\d+) +(\S+) +(\S+)", full, re.M)
    expected = [(row["head"], row["js_divergence"], row["top1_agreement"]) for row in result.head_comparisons]
    figures_by_head = {int(head): [float(divergence), float(agreement)] for head, divergence, agreement in rows}
    assert figures_by_head == {head: pytest.approx(figures, rel=last_digit(1e-3)) for head, *figures in expected}


def test_chosen_heads_and_batch_elements_are_what_is_shown_and_drawn() -> None:
    result = experiment(3, 12, heads=[0, 7], batch=[2])
    text = shown(result)
    assert shown_tables(text) == ["head 0", "head 7"] * 2 == shown_tables(shown(result, full=True))
    assert "Shown: batch 2 head 0, batch 2 head 7 (2 of 36), as the config says\n" in text
    assert {row[2:] for row in section(text)} == {("2", "0"), ("2", "7")}
    drawn = figures(result, pytest.fail, HeatmapLook())
    places = [f"batch 2, head {head}" for head in (0, 7)]
    assert titles(drawn["heatmaps"]()) == [f"{label}, {place}" for place in places for label in ("scaled_dot", "sharp")]
    assert titles(drawn["heatmap_sharp"]()) == places
    assert drawn["heatmap_sharp"]().get_suptitle() == "attention weight, sharp, 2 of 36 heads"
    (axes,) = panels(drawn["heads"]())
    assert (labels(axes, "x"), labels(axes, "y")) == (["0", "7"], ["2"])


def test_all_of_many_heads_are_drawn_in_the_order_of_their_difference() -> None:
    result, notes = experiment(1, 12), list[str]()
    best = [row["head"] for row in slow_ranking(result.head_comparisons)]
    assert best != sorted(best)
    drawn = titles(figures(result, notes.append, HeatmapLook())["heatmaps"]())
    assert drawn == [f"{label}, head {head}" for head in best for label in ("scaled_dot", "sharp")]
    assert notes == ["the heatmaps show the largest difference first"]
    many = experiment(1, 32, scorers=["dot", "cosine", SHARP])
    rows = [row for row in many.head_comparisons if "cosine" in (row["a"], row["b"])]
    best = list(dict.fromkeys(row["head"] for row in slow_ranking(rows)))[:8]
    differences = figures(many, notes.append, HeatmapLook(minus="cosine"))
    assert list(differences) == ["heatmaps", "heatmap_dot", "heatmap_sharp", "heads"]
    assert {title.partition(", ")[2] for title in titles(differences["heatmaps"]())} == {f"head {i}" for i in best}


@pytest.mark.usefixtures("laid_out")
def test_the_picture_of_heads_has_every_figure() -> None:
    result, notes = experiment(2, 8, scorers=["dot", "cosine", SHARP]), list[str]()
    figure = figures(result, pytest.fail, HeatmapLook())["heads"]()
    assert titles(figure) == ["dot and cosine", "dot and sharp", "cosine and sharp"]
    assert (panels(figure)[-1].get_xlabel(), figure.get_supylabel()) == ("Heads", "Batch elements")
    assert figure.get_suptitle() == "JS divergence of the weights (bits)"
    for axes, pair in zip(panels(figure), [("dot", "cosine"), ("dot", "sharp"), ("cosine", "sharp")], strict=True):
        distances = [row["js_divergence"] for row in result.head_comparisons if (row["a"], row["b"]) == pair]
        np.testing.assert_allclose(values(axes), np.reshape(distances, (2, 8)))
        assert axes.images[0].get_clim() == (0, 1)
    check_texts(figure)
    rows = compared([f"scorer_{index}" for index in range(5)], 12, 12, [0.25, 0.02, 0.5, None])
    many = heads_figure(Result("attention", "x", [], head_comparisons=rows), notes.append, HeatmapLook())
    assert titles(many) == [f"scorer_0 and scorer_{index}" for index in range(1, 5)]
    assert notes == ["heads: 10 pairs of scorers are too many; each scorer is compared with scorer_0"]
    check_texts(many)


def test_without_weights_outputs_are_ranked() -> None:
    rows = [
        row | {"js_divergence": None, "output_difference": row["js_divergence"]}
        for row in compared(["dot", "cosine"], 1, 12, [0.5, 0.75, 0.25])
    ]
    result = result_with(rows, 1, 12, ["dot", "cosine"])
    result = replace(result, tensors={name: each for name, each in result.tensors.items() if "output" in name})
    text = shown(result)
    ranks = text.split("Heads whose outputs differ most\n")[1]
    assert [int(head) for head in re.findall(r"^dot +cosine +(\d+) ", ranks, re.M)] == [1, 4, 7, 10, 0]
    assert figures(result, pytest.fail, HeatmapLook())["heads"]().get_suptitle() == "Difference of the outputs"
