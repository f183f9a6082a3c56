"""Colours: limits of panels, masked cells, NaN, infinities, numbers in cells, means of many cells."""

from typing import Any

import matplotlib
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import CenteredNorm
from matplotlib.figure import Figure

from attncli.attention import masked_softmax, valid_mask
from attncli.config.looks import HeatmapLook
from attncli.core.numbers import cell_decimals
from attncli.show.pictures import matrices
from attncli.show.pictures.matrices import block_means
from tests.margins import last_digit
from tests.show.pictures.drawn import (
    bar_labels,
    bars,
    check_texts,
    contrast,
    heatmap,
    labels,
    legend,
    panels,
    titles,
    values,
    weights,
)

pytestmark = pytest.mark.usefixtures("sketches")

NAN, INF = torch.nan, torch.inf


def limits(figure: Figure) -> list[Any]:
    return [axes.images[0].get_clim() for axes in panels(figure)]


def bar_limits(figure: Figure) -> list[Any]:
    return [axes.get_ylim() if axes.get_ylabel() else axes.get_xlim() for axes in bars(figure)]


def numbers(figure: Figure) -> list[str]:
    return [text.get_text() for axes in panels(figure) for text in axes.texts]


@pytest.mark.parametrize(
    ("largest", "ticks"),
    [
        (0.5, ["0", "0.2", "0.4", "0.5"]),
        (1.0, ["0", "0.5", "1"]),
        (0.123456, ["0", "0.05", "0.1", "0.123"]),
    ],
)
def test_one_bar_from_0_to_the_largest_weight_names_its_end(largest: float, ticks: list[str]) -> None:
    second = weights(2, 3, 4) * largest / weights(2, 3, 4).max()
    figure = heatmap(second / 2, second).figure
    assert limits(figure) == [(0.0, pytest.approx(largest))] * 4
    assert bar_limits(figure) == [(0.0, pytest.approx(largest))]
    assert labels(bars(figure)[0], "y") == ticks
    assert limits(heatmap(second / 2, second, look=HeatmapLook(vmax=1)).figure) == [(0.0, 1.0)] * 4
    assert {axes.images[0].get_cmap().name for axes in panels(figure)} == {"Reds"}


def test_shared_limits_are_those_of_all_valid_cells() -> None:
    scores = torch.tensor([[[-3.0, 2.0, 99.0]], [[0.0, 1.0, 7.0]]])  # 2 1 3
    scores, look = scores.expand(2, 2, 3), HeatmapLook(scale="shared")
    figure = heatmap(scores, scores / 2, stage="scores", valid=valid_mask(scores.shape, [2, 3]), look=look).figure
    assert limits(figure) == [(-7.0, 7.0)] * 4
    assert bar_limits(figure) == [(-7.0, 7.0)]
    assert limits(heatmap(scores, stage="scores", batches=[0]).figure) == [(-99.0, 99.0)]  # panels shown


def test_scores_of_each_label_have_a_bar_in_their_units() -> None:
    scores = torch.tensor([[-3.0, 2.0], [0.5, 1.0]]).expand(2, 2, 2)
    for look, ends in ((HeatmapLook(), [3.0, 60.0]), (HeatmapLook(scale="shared"), [60.0, 60.0])):
        figure = heatmap(scores, 20 * scores, stage="scores", look=look).figure
        assert limits(figure) == [(-end, end) for end in ends] * 2
        assert bar_limits(figure) == [(-end, end) for end in sorted({*ends})]
        assert bar_labels(figure) == ["score"] * len({*ends})
        for axes in panels(figure):
            assert isinstance(axes.images[0].norm, CenteredNorm)
            white = axes.images[0].get_cmap()(axes.images[0].norm(0.0))[:3]
            assert white == pytest.approx((0.969,) * 3, abs=last_digit(2 / 255))
    alone = heatmap(scores[0], 20 * scores[0], stage="scores").figure
    assert (limits(alone), len(bars(alone))) == ([(-3.0, 3.0), (-60.0, 60.0)], 2)


@pytest.mark.usefixtures("laid_out")
def test_panel_limits_have_a_bar_each() -> None:
    scores = torch.tensor([[[-3.0, 2.0]] * 2, [[0.5, 4.0]] * 2])
    figure = heatmap(scores, scores, look=HeatmapLook(scale="panel")).figure
    assert limits(figure) == bar_limits(figure) == [(-3.0, 3.0)] * 2 + [(0.0, 4.0)] * 2
    assert bar_labels(figure) == ["weight"] * 4
    check_texts(figure)


@pytest.mark.parametrize(
    ("stage", "quantity", "ends"),
    [
        ("weights", "attention weight", (0.0, 1.25)),
        ("dropped", "attention weight after dropout", (0.0, 1.25)),
        ("scores", "score", (-1.25, 1.25)),
        ("capped", "score after softcap", (-1.25, 1.25)),
        ("biased", "score with its bias", (-1.25, 1.25)),
        ("my_tensor", "my_tensor", (0.0, 1.25)),
    ],
)
def test_the_stage_names_the_quantity_and_its_usual_scale(stage: str, quantity: str, ends: Any) -> None:
    figure = heatmap(torch.tensor([[0.5, 1.25], [1.0, 1.0]]), stage=stage).figure
    assert figure.get_suptitle() == quantity
    assert bar_labels(figure) == [quantity.removeprefix("attention ")]
    assert limits(figure) == [ends]


def test_weights_that_dropout_comes_after_say_so() -> None:
    stack = weights(2, 2), weights(2, 2)
    both, one = heatmap(*stack, dropout=["a", "b"]).figure, heatmap(*stack, dropout=["b"]).figure
    assert (both.get_suptitle(), titles(both)) == ("attention weight before dropout", ["a", "b"])
    assert bar_labels(both) == ["weight before dropout"]
    assert (one.get_suptitle(), titles(one)) == ("attention weight", ["a", "b before dropout"])
    assert bar_labels(one) == ["weight"]
    after = heatmap(*stack, stage="dropped", dropout=["a", "b"]).figure
    assert (after.get_suptitle(), titles(after)) == ("attention weight after dropout", ["a", "b"])


def test_masked_cells_are_hatched() -> None:
    tensor = weights(2, 2, 4)
    figure = heatmap(tensor, valid=valid_mask(tensor.shape, [2, 4])).figure
    hatched, whole = panels(figure)
    np.testing.assert_array_equal(values(hatched).mask, [[False, False, True, True]] * 2)
    assert hatched.patch.get_hatch()
    assert not values(whole).mask.any()
    assert not whole.patch.get_hatch()
    assert legend(figure) == ["masked"]
    assert legend(heatmap(tensor).figure) == []


def test_rows_without_a_valid_key_are_masked() -> None:
    valid = valid_mask((1, 2, 3), [[0, 2]])
    figure = heatmap(masked_softmax(torch.zeros(1, 2, 3), [[0, 2]], empty_row="nan"), valid=valid).figure
    assert np.ma.getmaskarray(values(panels(figure)[0])).tolist() == [[True] * 3, [False, False, True]]
    for empty_row, is_masked in (("zero", True), ("uniform", False)):
        tensor = masked_softmax(torch.zeros(1, 2, 3), [[0, 2]], empty_row=empty_row)  # type: ignore[arg-type]
        first = values(panels(heatmap(tensor, valid=valid).figure)[0])[0]
        assert np.ma.getmaskarray(first).tolist() == [is_masked] * 3
    nothing = heatmap(torch.full((1, 2, 3), NAN), stage="scores", valid=torch.zeros(1, 2, 3, dtype=torch.bool))
    assert limits(nothing.figure) == [(-1.0, 1.0)]
    assert nothing.notes == []


@pytest.mark.parametrize("name", ["Greys", "viridis", "cool"])
def test_nan_has_a_colour_of_its_own(name: str) -> None:
    figure = heatmap(torch.tensor([[NAN, 1.0]] * 2), look=HeatmapLook(cmap=name)).figure
    colour = panels(figure)[0].images[0].get_cmap().get_bad()
    assert np.abs(matplotlib.colormaps[name](np.arange(256))[:, :3] - colour[:3]).sum(axis=1).min() > 0.4


def test_few_cells_show_their_numbers() -> None:
    tensor = torch.tensor([[0.125, 0.875, 0.0], [0.5, 0.25, 0.25]])
    valid = torch.tensor([[True, True, False], [True, True, True]])
    figure = heatmap(tensor, valid=valid).figure
    assert numbers(figure) == ["0.12", "0.88", "0.50", "0.25", "0.25"]
    assert numbers(heatmap(tensor, look=HeatmapLook(annotate="no")).figure) == []
    assert numbers(heatmap(weights(19, 19)).figure) == []


@pytest.mark.parametrize(
    ("largest", "texts"),
    [
        (1.0, ["1.00", "0.00"]),
        (-12.34, ["−12.3", "0.0"]),
        (432.1, ["432", "0"]),
        (54321.0, ["5e4", "0e0"]),
        (0.0012, ["1e−3", "0e0"]),
        (INF, ["∞", "0.00"]),
    ],
)
def test_numbers_are_short_and_have_no_negative_zero(largest: float, texts: list[str]) -> None:
    figure = heatmap(torch.tensor([[largest, -0.0]] * 2), stage="scores").figure
    assert numbers(figure) == 2 * texts


def test_decimals_leave_two_or_three_digits_of_the_largest_number() -> None:
    decimals = {0.0: 2, 0.005: 3, 0.0999: 3, 0.1: 2, 9.99: 2, 10.0: 1, 99.9: 1, 100.0: 0, 9999.0: 0}
    assert {largest: cell_decimals(largest) for largest in decimals} == decimals
    assert cell_decimals(0.0049) is cell_decimals(1e4) is None


@pytest.mark.parametrize("name", ["viridis", "Greys_r"])
def test_numbers_contrast_with_their_cell(name: str) -> None:
    tensor = torch.linspace(0, 1, 12).reshape(3, 4)
    figure = heatmap(tensor, look=HeatmapLook(cmap=name, annotate="yes")).figure
    for value, text in zip(tensor.flatten().tolist(), panels(figure)[0].texts, strict=True):
        inks = {contrast(matplotlib.colormaps[name](value), ink): ink for ink in ("black", "white")}
        assert text.get_color() == inks[max(inks)]


@pytest.mark.usefixtures("laid_out")
def test_numbers_that_have_no_room_are_told_where_they_were_asked_for() -> None:
    yes = HeatmapLook(annotate="yes", scale="shared")
    figure = heatmap(weights(21, 21), look=yes).figure
    assert len(numbers(figure)) == 441
    check_texts(figure)
    heat = heatmap(weights(100, 100), look=yes)
    assert numbers(heat.figure) == []
    assert heat.notes == ["no numbers in the cells: too many cells, or too small ones"]


SIZE = st.integers(1, 11)


@given(n=SIZE, m=SIZE, down=SIZE, across=SIZE, share=st.sampled_from([0.0, 0.1, 0.7, 1.0]), band=st.integers(1, 40))
def test_blocks_are_means_over_their_valid_cells(
    n: int, m: int, down: int, across: int, share: float, band: int
) -> None:
    generator = torch.Generator().manual_seed(n * m + down)
    matrix = torch.randn(n, m, generator=generator, dtype=torch.float64)
    valid = torch.rand(n, m, generator=generator) < share
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrices, "BAND_CELLS", band)
        means = block_means(matrix.masked_fill(~valid, NAN), valid, down, across)
    assert means.shape == (-(-n // down), -(-m // across))
    for (i, j), mean in np.ndenumerate(means.data):
        block = slice(i * down, (i + 1) * down), slice(j * across, (j + 1) * across)
        cells = matrix[block][valid[block]].tolist()
        assert np.ma.getmaskarray(means)[i, j] == (not cells)
        assert mean == pytest.approx(sum(cells) / len(cells) if cells else 0.0)


@pytest.mark.parametrize(("dtype", "large"), [(torch.float16, 6e4), (torch.bfloat16, 3e38), (torch.float32, 3e38)])
def test_means_of_blocks_do_not_overflow(dtype: torch.dtype, large: float) -> None:
    np.testing.assert_allclose(block_means(torch.full((90, 90), large, dtype=dtype), None, 7, 7), large, rtol=0.01)


@pytest.mark.usefixtures("laid_out")
def test_a_large_matrix_is_shown_as_its_means() -> None:
    n, m = 1500, 2100
    matrix = weights(1, n, m) * 500
    valid = valid_mask((1, n, m), [1400])
    assert valid is not None
    heat = heatmap(matrix, valid=valid, look=HeatmapLook(scale="shared"))
    (axes,) = panels(heat.figure)
    rows, columns = values(axes).shape
    assert axes.get_window_extent().height >= rows  # no mean without a pixel
    assert axes.get_window_extent().width >= columns
    down, across = -(-n // rows), -(-m // columns)
    wanted = block_means(matrix[0], valid[0].expand(n, m), down, across)
    np.testing.assert_array_equal(values(axes).mask, wanted.mask)
    np.testing.assert_array_equal(values(axes).filled(0), wanted.filled(0))
    extent = (-0.5, columns * across - 0.5, rows * down - 0.5, -0.5)  # true indices
    assert tuple(axes.images[0].get_extent()) == extent
    assert (axes.get_xlim(), axes.get_ylim()) == ((-0.5, m - 0.5), (n - 0.5, -0.5))
    footnote = f"each pixel is the mean of {down} × {across} cells"
    assert heat.figure.legends[0].get_title().get_text() == footnote
    assert heat.notes == [f"1500 × 2100 cells do not fit: {footnote}"]
