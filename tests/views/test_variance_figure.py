"""variance.png: what is drawn where, and that nothing overlaps or is cut off."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from attncli.runs.records import Histogram
from attncli.views.sweep_axes import decades_axis
from attncli.views.sweep_legend import COLOURS, look_of
from attncli.views.variance_figure import variance_figure
from attncli.views.variance_histogram import densities
from tests.views.artists import artists, words
from tests.views.sweep_pictures import check_texts, points, saved
from tests.views.sweep_samples import DOTS, FIVE, changed, histogram, many_scorers, real_variance, variance_result

RESULTS = {
    "usual": variance_result(),
    "five": variance_result(scorers=FIVE, query_mean=0.5),
    "one size": variance_result([1], {"dot": "dot"}),
    "curve": variance_result([512], curve=[1, 8, 64, 512]),
    "many": variance_result(list(range(1, 4000, 100)), many_scorers(12)),
    "heads": real_variance(12),
    "no heads": real_variance(None, many_scorers(5)),
    "100 heads": real_variance(100),
}


@pytest.mark.parametrize("name", RESULTS)
def test_texts_neither_overlap_nor_leave_the_page(name: str) -> None:
    check_texts(variance_figure(RESULTS[name]).figure)


def test_points_stand_where_the_curve_has_them() -> None:
    result = RESULTS["curve"]
    figure = variance_figure(result).figure
    for index, label in enumerate(DOTS):
        wanted = [(record["d"], record["variance"]) for record in result.curve if record["label"] == label]
        assert points(figure, f"variance-{index}") == wanted
    assert figure.axes[0].get_xscale() == figure.axes[0].get_yscale() == "log"


def test_intervals_and_theory_stand_with_their_points() -> None:
    result = variance_result([8, 64], {"dot": "dot", "additive": "additive"})
    figure = variance_figure(result).figure
    bars = [tuple(map(tuple, bar)) for part in artists(figure, "interval") for bar in part.get_segments()]
    assert bars == [tuple((record["d"], end) for end in record["variance_ci"]) for record in result.records]
    assert points(figure, "theory-exact") == [(8, 8), (64, 64)]
    assert points(figure, "theory-limit") == [(8, 0.1), (64, 0.1)]
    exact, limit = (artists(figure, f"theory-{kind}")[0] for kind in ("exact", "limit"))
    assert exact.get_linestyle() == "-" != limit.get_linestyle()
    assert points(figure, "one")[0][1] == 1.0
    assert {"theory", "limit for large sizes", "variance 1"} <= set(words(figure, "legend"))


def test_theory_is_drawn_only_where_there_is_one() -> None:
    result = changed(variance_result([8, 64], {"dot": "dot"}), "dot", theory=None, theory_variance=None)
    figure = variance_figure(result).figure
    assert artists(figure, "theory-exact") == []
    assert "theory" not in words(figure, "legend")
    one = variance_figure(variance_result([8], {"dot": "dot"})).figure
    assert [y for _, y in points(one, "theory-exact")] == [8, 8]


def test_labels_of_the_only_size_stand_side_by_side() -> None:
    figure = variance_figure(variance_result([8], {"a": "dot", "b": "dot", "c": "dot"})).figure
    places = [points(figure, f"variance-{index}")[0][0] for index in range(3)]
    assert places == sorted(set(places))
    assert places[1] == 8
    assert places[2] < 8 * 1.6


def test_heads_of_real_tensors_stand_on_a_line_each() -> None:
    result = real_variance(4)
    figure = variance_figure(result).figure
    for index, label in enumerate(DOTS):
        x, y = zip(*points(figure, f"variance-{index}"), strict=True)
        assert [round(place) for place in x] == [0, 1, 2, 3]
        assert list(y) == [record["variance"] for record in result.records if record["label"] == label]
    assert words(figure, "axis-title")[0] == "head"
    assert artists(figure, "interval") == []
    assert words(figure, "title") == ["queries and keys from tensors/qkv.safetensors; 4,096 pairs for each point"]


def test_scaled_forms_of_one_score_share_a_histogram() -> None:
    result = variance_result(scorers=FIVE)
    result = replace(result, histograms=dict(result.histograms) | {"cosine": histogram(1024, 1.0, "uniform")})
    figure = variance_figure(result).figure
    assert len(artists(figure, "histogram")) == 2
    legend = " ".join(words(figure, "legend"))
    assert "dot, scaled_dot, scaled_dot_1_over_d, additive cosine standard normal" in legend
    colours = [step.get_edgecolor() for step in artists(figure, "histogram")]
    assert len(set(colours)) == 2
    assert words(figure, "panel-title")[1] == "standardised scores at d = 1024"


def test_the_normal_density_is_the_limit_of_products_only() -> None:
    assert "standard normal, the limit for large d" in words(variance_figure(variance_result()).figure, "legend")
    for result in (variance_result(scorers=FIVE), real_variance()):
        assert "standard normal" in words(variance_figure(result).figure, "legend")


def test_histograms_are_densities_of_standardised_scores() -> None:
    counts = torch.tensor([10.0, 30.0, 40.0], dtype=torch.float64)
    edges = torch.tensor([3.0, 5.0, 7.0, 9.0], dtype=torch.float64)
    (density,) = densities({"a": Histogram(8, 100, 5.0, 2.0, edges, counts)})  # 20 samples lie outside of the bins
    np.testing.assert_allclose(density.edges, [-1, 0, 1, 2])
    np.testing.assert_allclose(density.heights, [0.1, 0.3, 0.4])


@pytest.mark.parametrize(("mean", "std"), [(0.0, 0.0), (math.nan, 1.0), (0.0, math.inf), (0.0, math.nan)])
def test_scores_without_a_spread_have_no_histogram(mean: float, std: float, tmp_path: Path) -> None:
    result = variance_result([8], {"dot": "dot"})
    lost = replace(histogram(8), mean=mean, std=std)
    figure = variance_figure(replace(result, histograms={"dot": lost})).figure
    assert artists(figure, "histogram") == []
    assert saved(replace(result, histograms={}), tmp_path / "a.png") == []


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf])
def test_what_cannot_be_drawn_is_noted(value: float, tmp_path: Path) -> None:
    figures: dict[str, Any] = {"variance": value, "variance_ci": [value, value], "theory_variance": value}
    result = changed(variance_result([4, 64]), "dot", **figures)
    note = "not drawn, as not a positive number: variance of dot (d = 4, d = 64)"
    assert saved(result, tmp_path / "a.png") == [note]
    heads = changed(changed(real_variance(2), "dot", variance=value), "scaled_dot", variance=value)
    places = "dot (head 0, head 1), scaled_dot (head 0, head 1)"
    assert saved(heads, tmp_path / "b.png") == [f"not drawn, as not a positive number: variance of {places}"]
    assert saved(variance_result(), tmp_path / "c.png") == []


@pytest.mark.parametrize("interval", [[-1.0, 9.0], [math.nan, 9.0], [0.0, math.inf], None])
def test_intervals_that_do_not_fit_the_axis(interval: Sequence[float] | None, tmp_path: Path) -> None:
    result = changed(variance_result([4, 64], {"dot": "dot"}), "dot", variance_ci=interval)
    assert saved(result, tmp_path / "a.png") == []
    bars = [end for part in artists(variance_figure(result).figure, "interval") for end in part.get_segments()]
    assert len(bars) == (2 if interval == [-1.0, 9.0] else 0)
    assert all(0 < y < 10 for bar in bars for _, y in bar)


def test_extreme_variances_can_be_drawn(tmp_path: Path) -> None:
    result = changed(variance_result([4, 64]), "dot", variance=1e-308, variance_ci=[1e-310, 1.7e308])
    assert saved(changed(result, "scaled_dot", variance=1.7e308), tmp_path / "a.png") == []


@pytest.mark.parametrize("name", ["usual", "many", "heads"])
def test_the_same_result_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    saved(RESULTS[name], tmp_path / "a.png")
    saved(RESULTS[name], tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    with Image.open(tmp_path / "a.png") as image:
        assert image.info["dpi"] == pytest.approx((200, 200), abs=0.1)


def test_labels_are_text_and_never_mathematics() -> None:
    found = " ".join(words(variance_figure(RESULTS["many"]).figure, "legend"))
    assert "_hidden $x_1$" in found
    assert "[bold]" in found
    assert all(not text.get_parse_math() for text in artists(variance_figure(RESULTS["many"]).figure, "legend"))


def test_what_no_font_has_is_noted(tmp_path: Path) -> None:
    notes = saved(variance_result([4], {"\U000e0fff": "dot"}), tmp_path / "a.png")
    (note,) = notes
    assert note.startswith("no installed font can draw")


def test_twelve_labels_look_different() -> None:
    looks = [look_of(index) for index in range(12)]
    assert len({(look["color"], look["marker"]) for look in looks}) == 12
    assert len({look["marker"] for look in looks}) == 12
    assert len({look["color"] for look in looks[: len(COLOURS)]}) == len(COLOURS)


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([1.0, 1000.0], ["1", "10", "100", "1000"]),
        ([1.0], ["0.5", "1", "2"]),
        ([math.nan, 0.0, -1.0], ["0.5", "1", "2"]),
        ([1e-12, 1.0], ["1e-12", "1e-10", "1e-08", "1e-06", "1e-04", "0.01", "1"]),
    ],
)
def test_ticks_of_a_logarithmic_axis(values: list[float], texts: list[str]) -> None:
    axis = decades_axis(values, "variance")
    assert list(axis.texts) == texts
    assert all(axis.low < value < axis.high for value in values if value > 0)


def test_the_panel_has_room_for_every_interval() -> None:
    result = changed(variance_result([4], {"scaled_dot": "scaled_dot"}), "scaled_dot", variance_ci=[0.02, 40.0])
    low, high = variance_figure(result).figure.axes[0].get_ylim()
    assert low < 0.02
    assert high > 40.0


@pytest.mark.parametrize(("samples", "bins"), [(160_000, 100), (16_000, 100), (10_000, 50), (5_000, 25), (20, 10)])
def test_few_samples_are_shown_in_few_bins(samples: int, bins: int) -> None:
    whole = histogram(8)
    few = replace(whole, samples=samples, counts=whole.counts * samples / whole.samples)
    (density,) = densities({"dot": few})
    assert len(density.heights) == bins
    assert len(density.edges) == bins + 1
    assert density.edges[[0, -1]].tolist() == [-5, 5]
    assert (density.heights * np.diff(density.edges)).sum() == pytest.approx(1.0, abs=1e-3)


def test_few_values_keep_their_narrow_bins() -> None:
    counts = torch.zeros(100, dtype=torch.float64)
    counts[[40, 60]] = 1000.0
    (density,) = densities({"dot": replace(histogram(8), samples=2000, counts=counts)})
    assert np.flatnonzero(density.heights).tolist() == [40, 60]
