"""saturation.png: what is drawn where, and that nothing overlaps or is cut off."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.lines import Line2D

from attncli.runs.records import SweepResult
from attncli.views.saturation_figure import saturation_figure
from attncli.views.sweep_legend import look_of
from tests.views.artists import artists, words
from tests.views.sweep_pictures import check_texts, points, saved
from tests.views.sweep_samples import FIVE, changed, many_scorers, real_saturation, saturation_result

RESULTS = {
    "usual": saturation_result(),
    "one size": saturation_result([512]),
    "curve": saturation_result([512], curve=[8, 64, 512]),
    "many": saturation_result(list(range(1, 4000, 100)), many_scorers(12)),
    "heads": real_saturation(12),
    "cut": changed(saturation_result([8, 64]), "dot", jacobian_q25=0.0),
    "no heads": real_saturation(None, many_scorers(5)),
}
PANELS = ("entropy", "max_weight", "jacobian")


@pytest.mark.parametrize("name", RESULTS)
def test_texts_neither_overlap_nor_leave_the_page(name: str) -> None:
    check_texts(saturation_figure(RESULTS[name]).figure)


def test_medians_stand_where_the_curve_has_them() -> None:
    result = RESULTS["curve"]
    figure = saturation_figure(result).figure
    for name in PANELS:
        for index, label in enumerate(FIVE):
            records = [record for record in result.curve if record["label"] == label]
            wanted = [(record["d"], record[f"{name}_median"]) for record in records]
            assert points(figure, f"{name}-{index}") == wanted
    assert [axes.get_yscale() for axes in figure.axes] == ["linear", "linear", "log"]
    assert {axes.get_xscale() for axes in figure.axes} == {"log"}
    assert words(figure, "panel-title") == ["entropy / ln m", "largest weight", "norm of the softmax Jacobian"]


def test_bands_are_between_the_quartiles() -> None:
    result = saturation_result([8, 64], {"dot": "dot"})
    figure = saturation_figure(result).figure
    for name, band in zip(PANELS, artists(figure, "quartiles"), strict=True):
        corners = {tuple(corner) for path in band.get_paths() for corner in path.vertices}
        ends = {(record["d"], record[f"{name}_{end}"]) for record in result.records for end in ("q25", "q75")}
        assert ends <= corners


def test_points_out_of_order_are_joined_in_order() -> None:
    result = saturation_result([64, 8, 512], {"dot": "dot"})
    assert [x for x, _ in points(saturation_figure(result).figure, "entropy-0")] == [8, 64, 512]


def test_heads_are_not_joined() -> None:
    figure = saturation_figure(RESULTS["heads"]).figure
    (line,) = [artist for artist in artists(figure, "jacobian") if artist.get_gid() == "jacobian-0"]
    assert line.get_linestyle() == "None"
    assert [round(x) for x, _ in points(figure, "jacobian-0")] == list(range(12))
    assert len(artists(figure, "quartiles")) == 9
    bars = artists(figure, "quartiles")[0].get_segments()
    record = RESULTS["heads"].records[0]
    assert [y for _, y in bars[0]] == [record["entropy_q25"], record["entropy_q75"]]


def test_labels_of_the_only_size_stand_side_by_side() -> None:
    figure = saturation_figure(saturation_result([8], {"a": "dot", "b": "dot", "c": "dot"})).figure
    places = [points(figure, f"entropy-{index}")[0][0] for index in range(3)]
    assert places == sorted(set(places))
    assert places[1] == 8


def test_uniform_weights_are_shown_for_comparison() -> None:
    figure = saturation_figure(saturation_result([8, 64])).figure
    levels = [points(figure, f"uniform-{name}")[0][1] for name in PANELS]
    assert levels == pytest.approx([1.0, 1 / 64, math.sqrt(63) / 64])
    assert "uniform weights over 64 keys" in words(figure, "legend")
    result = saturation_result([8, 64], {"dot": "dot"})
    curve = [record | {"keys": record["d"]} for record in result.curve]
    other = saturation_figure(replace(result, curve=curve)).figure
    assert words(other, "legend") == ["dot"]
    assert words(other, "title") == ["normal entries, mean 0, std 1; 10,000 rows, median and quartiles over the rows"]


def test_a_norm_of_zero_is_noted_and_its_band_ends_at_the_edge(tmp_path: Path) -> None:
    result = saturation_result([8, 64], {"dot": "dot", "scaled_dot": "scaled_dot"})
    zero = [
        record | ({"jacobian_median": 0.0, "jacobian_q25": 0.0} if record["d"] == 64 else {"jacobian_q25": 0.0})
        for record in result.curve
    ]
    lost = replace(result, curve=zero)
    note = "not drawn, as not a positive number: norm of the softmax Jacobian of dot (d = 64), scaled_dot (d = 64)"
    assert saved(lost, tmp_path / "a.png") == [note]
    figure = saturation_figure(lost).figure
    assert [x for x, _ in points(figure, "jacobian-0")] == [8]
    low, high = figure.axes[2].get_ylim()
    assert 0.01 < low < high < 2


def test_a_band_that_reaches_far_down_does_not_squeeze_the_medians() -> None:
    result = changed(saturation_result([8, 64]), "dot", jacobian_q25=1e-30)
    assert saturation_figure(result).figure.axes[2].get_ylim()[0] > 1e-3


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0])
@pytest.mark.parametrize("make", [saturation_result, real_saturation])
def test_figures_that_are_no_numbers(value: float, make: Any, tmp_path: Path) -> None:
    result: SweepResult = make()
    every = {key: value for key in result.records[0] if key.startswith(("entropy", "max_weight", "jacobian"))}
    notes = saved(changed(result, "dot", **every), tmp_path / "a.png")
    assert len(notes) == (1 if value == 0 else 3)
    assert all(" of dot (" in note for note in notes)
    for label in {record["label"] for record in result.records}:
        result = changed(result, label, **every)
    assert saved(result, tmp_path / "b.png")


@pytest.mark.parametrize("name", ["usual", "heads"])
def test_the_same_result_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    saved(RESULTS[name], tmp_path / "a.png")
    saved(RESULTS[name], tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_one_key_has_no_entropy_and_no_gradient(tmp_path: Path) -> None:
    every: dict[str, Any] = {"keys": 1, "entropy": math.nan, "jacobian_median": 0.0, "max_weight_median": 1.0}
    every |= dict.fromkeys(["entropy_median", "entropy_q25", "entropy_q75"], math.nan)
    result = changed(saturation_result([8, 64], {"dot": "dot"}), "dot", **every)
    assert len(saved(result, tmp_path / "a.png")) == 2


def test_the_legend_joins_only_what_the_panels_join() -> None:
    def styles(result: SweepResult) -> list[Any]:
        figure = saturation_figure(result).figure
        samples = [artist for artist in figure.artists if isinstance(artist, Line2D)]
        return [line.get_linestyle() for line in samples]

    assert styles(RESULTS["heads"])[:3] == ["None"] * 3
    assert styles(RESULTS["usual"])[:5] == ["-"] * 5


def test_a_quartile_below_the_panel_is_marked() -> None:
    figure = saturation_figure(changed(saturation_result([8, 64]), "dot", jacobian_q25=1e-30)).figure
    (marks,) = artists(figure, "cut")
    low = figure.axes[2].get_ylim()[0]
    assert list(zip(marks.get_xdata(), marks.get_ydata(), strict=True)) == [(8, low), (64, low)]
    assert marks.get_color() == look_of(0)["color"]
    assert "lower quartile below the panel" in words(figure, "legend")
    whole = saturation_figure(saturation_result([8, 64])).figure
    assert artists(whole, "cut") == []
    assert "lower quartile below the panel" not in words(whole, "legend")
