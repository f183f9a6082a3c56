"""Colours: limits that hold for every panel, masked cells, NaN, infinities, and numbers in the cells."""

from typing import Any

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.figure import Figure

from attncli.attention import masked_softmax, valid_mask
from attncli.views.heatmap.colours import NAN_COLOURS
from attncli.views.heatmaps import HeatmapStyle
from tests.views.artists import artists, heatmap, panels, values, weights, words

NAN, INF = torch.nan, torch.inf


def bar_limits(figure: Figure, gid: str = "colour-bar") -> list[tuple[float, float]]:
    """What every colour bar says its ends are; its own colours must run from end to end."""
    found = []
    for image in artists(figure, gid):
        column = values(image)[:, 0]
        assert (column[-1], column[0]) == image.get_clim()
        assert (np.diff(column) < 0).all()
        found.append((float(column[-1]), float(column[0])))
    return found


def test_one_bar_from_0_to_1_is_true_of_every_panel() -> None:
    figure = heatmap(weights(2, 3, 4) / 2, weights(2, 3, 4)).figure
    assert [image.get_clim() for image in panels(figure)] == [(0.0, 1.0)] * 4
    assert bar_limits(figure) == [(0.0, 1.0)]
    assert words(figure, "colour-bar-tick") == ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
    assert {image.get_cmap().name for image in panels(figure) + artists(figure, "colour-bar")} == {"Reds"}


def test_bar_ticks_stand_where_their_values_are() -> None:
    figure = heatmap(weights(1, 8, 8), stage="scores").figure
    (low, high), (bar,) = bar_limits(figure)[0], artists(figure, "colour-bar")
    box = bar.get_window_extent()
    for tick in artists(figure, "colour-bar-tick"):
        y = tick.get_transform().transform(tick.get_position())[1]
        assert low + (y - box.y0) / box.height * (high - low) == pytest.approx(float(tick.get_text()))


def test_shared_limits_are_those_of_all_valid_cells() -> None:
    scores = torch.tensor([[[-3.0, 2.0, 99.0]], [[0.0, 1.0, 7.0]]])  # 2 1 3
    valid = valid_mask(scores.shape, [2, 3])
    figure = heatmap(scores, scores / 2, stage="scores", valid=valid).figure
    assert [image.get_clim() for image in panels(figure)] == [(-3.0, 7.0)] * 4
    assert bar_limits(figure) == [(-3.0, 7.0)]
    assert words(figure, "quantity") == ["score"]


def test_only_panels_shown_count() -> None:
    scores = torch.tensor([[[-3.0, 2.0]], [[0.0, 1.0]]])
    assert panels(heatmap(scores, stage="scores", batches=[1]).figure)[0].get_clim() == (0.0, 1.0)


def test_panel_limits_have_a_bar_each() -> None:
    scores = torch.tensor([[[-3.0, 2.0]], [[0.5, 4.0]]])
    figure = heatmap(scores, stage="weights", style=HeatmapStyle(scale="panel")).figure
    assert [image.get_clim() for image in panels(figure)] == [(-3.0, 2.0), (0.5, 4.0)]
    assert bar_limits(figure) == [(-3.0, 2.0), (0.5, 4.0)]
    assert words(figure, "quantity") == ["attention weight"]
    for image, bar in zip(panels(figure), artists(figure, "colour-bar"), strict=True):
        (panel, beside) = (artist.get_window_extent() for artist in (image, bar))
        assert 0 < beside.x0 - panel.x1 < 0.2 * figure.dpi
        assert (beside.y0, beside.y1) == (panel.y0, panel.y1)


@pytest.mark.parametrize(
    ("stage", "quantity", "limits"),
    [
        ("weights", "attention weight", (0.0, 1.0)),
        ("dropped", "attention weight after dropout", (0.5, 1.25)),
        ("scores", "score", (0.5, 1.25)),
        ("capped", "score after softcap", (0.5, 1.25)),
        ("my_tensor", "my_tensor", (0.5, 1.25)),
    ],
)
def test_the_stage_names_the_quantity_and_its_usual_scale(stage: str, quantity: str, limits: Any) -> None:
    figure = heatmap(torch.tensor([[0.5, 1.25]]), stage=stage).figure
    assert words(figure, "quantity") == [quantity]
    assert panels(figure)[0].get_clim() == limits


def test_weights_that_dropout_comes_after_say_so() -> None:
    stack = weights(2, 2), weights(2, 2)
    both, one = heatmap(*stack, dropout=["a", "b"]).figure, heatmap(*stack, dropout=["b"]).figure
    assert (words(both, "quantity"), words(both, "title")) == (["attention weight before dropout"], ["a", "b"])
    assert (words(one, "quantity"), words(one, "title")) == (["attention weight"], ["a", "b before dropout"])
    after = heatmap(*stack, stage="dropped", dropout=["a", "b"]).figure
    assert (words(after, "quantity"), words(after, "title")) == (["attention weight after dropout"], ["a", "b"])


def test_equal_values_are_drawn_in_the_middle_of_a_range() -> None:
    for value, limits in ((4.0, (2.0, 6.0)), (-4.0, (-6.0, -2.0)), (0.0, (-0.5, 0.5))):
        figure = heatmap(torch.full((2, 2), value), stage="scores").figure
        assert panels(figure)[0].get_clim() == limits


def test_masked_cells_are_left_out_over_a_hatched_ground() -> None:
    tensor = weights(2, 2, 4)
    valid = valid_mask(tensor.shape, [2, 4])
    figure = heatmap(tensor, valid=valid).figure
    shown = [values(image) for image in panels(figure)]
    np.testing.assert_array_equal(shown[0].mask, [[False, False, True, True]] * 2)
    assert not shown[1].mask.any()
    (ground,) = artists(figure, "masked")
    (box, hatched) = panels(figure)[0].get_window_extent(), ground.get_window_extent()
    np.testing.assert_allclose(hatched.bounds, box.bounds)
    assert ground.get_hatch()
    assert ground.get_zorder() < panels(figure)[0].get_zorder()
    assert words(figure, "legend") == ["masked"]
    assert words(heatmap(tensor).figure, "legend") == artists(heatmap(tensor).figure, "masked") == []


def test_rows_without_a_valid_key_are_masked() -> None:
    valid = valid_mask((1, 2, 3), [[0, 2]])
    figure = heatmap(masked_softmax(torch.zeros(1, 2, 3), [[0, 2]], empty_row="nan"), valid=valid).figure
    np.testing.assert_array_equal(values(panels(figure)[0]).mask, [[True] * 3, [False, False, True]])
    nothing = heatmap(torch.full((1, 2, 3), NAN), stage="scores", valid=torch.zeros(1, 2, 3, dtype=torch.bool))
    assert panels(nothing.figure)[0].get_clim() == (0.0, 1.0)
    assert nothing.notes == ()


def test_nan_at_valid_cells_is_not_taken_for_masked() -> None:
    scores = torch.tensor([[NAN, 1.0, NAN], [2.0, 3.0, 4.0]])
    heat = heatmap(scores, scores.nan_to_num(), stage="scores", valid=valid_mask((2, 3), [2]))
    figure = heat.figure
    assert [image.get_clim() for image in panels(figure)] == [(0.0, 3.0)] * 2
    (stain,) = artists(figure, "nan")
    np.testing.assert_array_equal(stain.get_array()[..., 3] > 0, [[True, False, False], [False, False, False]])
    assert words(figure, "legend") == ["masked", "NaN"]
    assert heat.notes == ("NaN in 1 valid cells of a",)


@pytest.mark.parametrize("name", ["Reds", "Greys", "viridis", "cool", "jet"])
def test_nan_has_a_colour_of_its_own(name: str) -> None:
    figure = heatmap(torch.tensor([[NAN, 1.0]]), style=HeatmapStyle(cmap=name)).figure
    colour = artists(figure, "nan")[0].get_array()[0, 0]
    assert any(np.array_equal(colour, to_rgba(known)) for known in NAN_COLOURS)
    assert np.abs(matplotlib.colormaps[name](np.arange(256))[:, :3] - colour[:3]).sum(axis=1).min() > 0.4


def test_infinities_lie_beyond_the_ends() -> None:
    heat = heatmap(torch.tensor([[-INF, -1.0, 3.0, INF]]), stage="scores")
    (image,) = panels(heat.figure)
    assert image.get_clim() == (-1.0, 3.0)
    shown = values(image)
    assert np.isfinite(shown.data).all()
    assert shown[0, 0] < -1.0
    assert shown[0, 3] > 3.0
    assert len(artists(heat.figure, "colour-bar-above")) == len(artists(heat.figure, "colour-bar-below")) == 1
    assert heat.notes == ("2 infinite values are drawn in the colours of the ends",)


def test_values_beyond_the_unit_scale_are_told() -> None:
    heat = heatmap(torch.tensor([[-0.25, 1.5]]))
    assert len(artists(heat.figure, "colour-bar-above")) == len(artists(heat.figure, "colour-bar-below")) == 1
    assert heat.notes == (
        "values from -0.25 to 1.5 go beyond the scale 0..1; attncli heatmap --scale shared shows them all",
    )
    above = heatmap(torch.tensor([[0.25, 1.5]]))
    assert artists(above.figure, "colour-bar-above")
    assert not artists(above.figure, "colour-bar-below")
    assert above.notes == (
        "values from 0.25 to 1.5 go beyond the scale 0..1; attncli heatmap --scale shared shows them all",
    )
    rounded = heatmap(torch.tensor([[0.0, 1.0000001]]))
    assert rounded.notes == ()
    assert not artists(rounded.figure, "colour-bar-above")


def test_pale_weights_are_told() -> None:
    assert heatmap(torch.full((2, 30, 30), 1 / 30)).notes == (
        "the largest value shown is 0.033, pale on the scale 0..1; attncli heatmap --scale shared tells them apart",
    )
    assert heatmap(torch.full((2, 30, 30), 1 / 30), style=HeatmapStyle(scale="shared")).notes == ()
    assert heatmap(weights(2, 10, 10)).notes == ()


def test_small_cells_in_few_show_their_numbers() -> None:
    tensor = torch.tensor([[0.125, 0.875, 0.0], [0.5, 0.25, 0.25]])
    valid = torch.tensor([[True, True, False], [True, True, True]])
    figure = heatmap(tensor, valid=valid).figure
    assert words(figure, "number") == ["0.12", "0.88", "0.50", "0.25", "0.25"]
    assert words(heatmap(tensor, style=HeatmapStyle(annotate="no")).figure, "number") == []
    for many in (weights(60, 60), weights(19, 19)):
        assert words(heatmap(many).figure, "number") == []


def test_numbers_stand_in_their_cells() -> None:
    tensor = torch.arange(6.0).reshape(2, 3) / 10
    figure = heatmap(tensor).figure
    (image,) = panels(figure)
    box = image.get_window_extent()
    for text in artists(figure, "number"):
        x, y = text.get_transform().transform(text.get_position())
        row, column = int((box.y1 - y) / box.height * 2), int((x - box.x0) / box.width * 3)
        assert float(text.get_text()) == pytest.approx(float(tensor[row, column]))


@pytest.mark.parametrize(
    ("largest", "texts"),
    [
        (1.0, ["1.00", "0.00"]),
        (-12.34, ["−12.3", "0.0"]),
        (432.1, ["432", "0"]),
        (54321.0, ["5e4", "0e0"]),
        (0.0012, ["1e-3".replace("-", "−"), "0e0"]),
        (INF, ["∞", "0.00"]),
    ],
)
def test_numbers_are_short_and_have_no_negative_zero(largest: float, texts: list[str]) -> None:
    figure = heatmap(torch.tensor([[largest, -0.0]]), stage="scores").figure
    assert words(figure, "number") == texts


@pytest.mark.parametrize("name", ["Reds", "viridis", "Greys", "Greys_r"])
def test_numbers_contrast_with_their_cell(name: str) -> None:
    tensor = torch.linspace(0, 1, 12).reshape(3, 4)
    figure = heatmap(tensor, style=HeatmapStyle(cmap=name, annotate="yes")).figure
    for value, text in zip(tensor.flatten().tolist(), artists(figure, "number"), strict=True):
        contrast = {ink: contrast_of(matplotlib.colormaps[name](value)[:3], to_rgb(ink)) for ink in ("black", "white")}
        assert text.get_color() == max(contrast, key=lambda ink: contrast[ink])


def contrast_of(one: tuple[float, ...], two: tuple[float, ...]) -> float:
    """The contrast ratio of WCAG 2.2."""

    def luminance(rgb: tuple[float, ...]) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, bright = sorted((luminance(one), luminance(two)))
    return (bright + 0.05) / (dark + 0.05)


def test_numbers_that_have_no_room_are_told_where_they_were_asked_for() -> None:
    yes = HeatmapStyle(annotate="yes", scale="shared")
    assert len(words(heatmap(weights(30, 30), style=yes).figure, "number")) == 900
    heat = heatmap(weights(100, 100), style=yes)
    assert words(heat.figure, "number") == []
    assert heat.notes == ("no numbers in the cells: they are too many, or the cells too small",)
