"""train.png: what is drawn where, and that nothing overlaps or is cut off."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from attncli.views import load_view
from attncli.views.sweep_legend import look_of
from attncli.views.train_figure import train_figure
from tests.views.artists import artists, draw, drawn_texts, renderer, words
from tests.views.sweep_pictures import check_texts
from tests.views.sweep_samples import many_scorers
from tests.views.train_samples import SCORERS, SIZES, STEPS, changed, train_result

FIGURES = ("accuracy", "accuracy_min", "accuracy_max")
RESULTS = {
    "usual": train_result(),
    "one size": train_result([64]),
    "one seed": train_result(seeds=1),
    "many": train_result(list(range(1, 4000, 100)), list(many_scorers(12))),
    "one step": replace(train_result(), steps=torch.tensor([0, 1]), curves={}),
    "lost": replace(
        changed(train_result(), lambda row: dict.fromkeys(FIGURES, math.nan) if row["d"] == 64 else {}),
        curves={name: curve * math.nan for name, curve in train_result().curves.items()},
    ),
    "all lost": changed(train_result([64]), lambda row: dict.fromkeys(FIGURES, math.nan)),
    "interrupted": replace(train_result([64]), interrupted=True),
}


@pytest.mark.parametrize("name", RESULTS)
def test_texts_neither_overlap_nor_leave_the_page(name: str) -> None:
    check_texts(train_figure(RESULTS[name]).figure)


def test_means_and_ranges_over_the_seeds() -> None:
    result = RESULTS["usual"]
    figure = train_figure(result).figure
    for index, label in enumerate(SCORERS):
        rows = [row for row in result.comparisons if row["label"] == label]
        (line,) = [each for each in artists(figure, "accuracy") if each.get_gid() == f"accuracy-{index}"]
        assert line.get_xdata().tolist() == list(SIZES)
        assert line.get_ydata().tolist() == [row["accuracy"] for row in rows]
        assert line.get_color() == look_of(index)["color"]
        band, curve_band = (each for each in artists(figure, "range") if each.get_gid() == f"range-{index}")
        corners = {(round(x, 6), round(y, 6)) for x, y in band.get_paths()[0].vertices.tolist()}
        wanted = {(row["d"], round(row[f"accuracy_{end}"], 6)) for row in rows for end in ("min", "max")}
        assert wanted <= corners
        assert curve_band.get_paths()[0].vertices[:, 0].max() == 800


def test_learning_curves_of_the_largest_size() -> None:
    result = RESULTS["usual"]
    figure = train_figure(result).figure
    for index, (label, line) in enumerate(zip(SCORERS, artists(figure, "curve"), strict=True)):
        assert line.get_gid() == f"curve-{index}"
        assert line.get_xdata().tolist() == STEPS.tolist()
        torch.testing.assert_close(
            torch.tensor(line.get_ydata(), dtype=torch.float32), result.curves[f"{label}/1024/accuracy"].mean(0)
        )
    assert words(figure, "panel-title") == ["accuracy after 800 steps", "accuracy while learning, d = 1024"]


def test_a_single_size_has_bars_in_place_of_bands() -> None:
    figure = train_figure(RESULTS["one size"]).figure
    bars = [each for each in artists(figure, "range") if hasattr(each, "get_segments")]
    rows = RESULTS["one size"].comparisons
    ends = [[float(y) for _, y in bar.get_segments()[0]] for bar in bars]
    assert ends == [[row["accuracy_min"], row["accuracy_max"]] for row in rows]
    assert len({float(bar.get_segments()[0][0][0]) for bar in bars}) == len(rows), "side by side"


def test_a_label_without_the_largest_size_has_no_curve() -> None:
    result = RESULTS["usual"]
    curves = {name: curve for name, curve in result.curves.items() if name != "dot/1024/accuracy"}
    figure = train_figure(replace(result, curves=curves)).figure
    assert [line.get_gid() for line in artists(figure, "curve")] == ["curve-1", "curve-2"]


@pytest.mark.parametrize(("level", "below"), [(0.5, True), (0.125, True), (0.01, False)])
def test_equal_weights_are_a_line_with_its_name_in_both_panels(level: float, below: bool) -> None:
    result = train_result()
    figure = train_figure(replace(result, settings=result.settings | {"equal_weights": {"8": level}})).figure
    check_texts(figure)
    lines = artists(figure, "equal-weights")
    assert [line.get_ydata()[0] for line in lines] == [level] * 2
    draw(figure)
    names = [(name, box) for name, box in drawn_texts(figure) if name == "equal weights"]
    assert len(names) == 2
    for line, (_, box) in zip(lines, names, strict=True):
        frame = line.axes.get_window_extent()
        height = line.get_window_extent(renderer(figure)).y0
        assert frame.x0 < box.x0 < box.x1 < frame.x1
        assert frame.y0 < box.y0 < box.y1 < frame.y1
        assert box.y1 < height if below else box.y0 > height


def test_title_says_what_bands_are() -> None:
    def title(name: str) -> str:
        return " ".join(words(train_figure(RESULTS[name]).figure, "title"))

    assert title("usual").endswith("lines are means, and bands the range, over the seeds")
    assert title("one seed").endswith("one seed only")
    assert title("interrupted").endswith("; interrupted")


def test_the_same_result_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        notes: list[str] = []
        load_view("train").pictures(RESULTS["usual"], notes.append)["train.png"](tmp_path / name)
        assert notes == []
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
