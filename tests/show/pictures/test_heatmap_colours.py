"""Colours: limits of panels, masked cells, NaN, infinities, numbers in cells, means of many cells."""

from typing import Any

import matplotlib
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
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
    panels,
    titles,
    values,
    weights,
)

pytestmark = pytest.mark.usefixtures("sketches")

NAN, INF = torch.nan, torch.inf
NO = HeatmapLook(annotate="no")


def limits(figure: Figure) -> list[Any]:
    return [axes.images[0].get_clim() for axes in panels(figure)]


def bar_limits(figure: Figure) -> list[Any]:
    return [axes.get_ylim() if axes.get_ylabel() else axes.get_xlim() for axes in bars(figure)]


def numbers(figure: Figure) -> list[str]:
    return [text.get_text() for axes in panels(figure) for text in axes.texts]


def test_one_bar_from_0_to_the_largest_weight_names_its_end() -> None:
    matrix = weights(2, 3, 4)
    matrix *= 0.123456 / matrix.max()
    figure = heatmap(matrix / 2, matrix).figure
    assert limits(figure) == [(0.0, pytest.approx(0.123456))] * 4
    assert labels(bars(figure)[0], "y") == ["0", "0.05", "0.1", "0.123"]
    assert limits(heatmap(matrix, look=HeatmapLook(vmax=1)).figure) == [(0.0, 1.0)] * 2


@pytest.mark.usefixtures("laid_out")
@pytest.mark.parametrize(
    ("stage", "scale", "expected"),
    [
        ("scores", "shared", [(-60.0, 60.0)] * 4),
        ("scores", None, [(-3.0, 3.0), (-60.0, 60.0)] * 2),
        ("weights", None, [(-60.0, 60.0)] * 4),
        ("weights", "panel", [(-3.0, 3.0), (-60.0, 60.0), (0.0, 2.0), (0.0, 40.0)]),
    ],
)
def test_panels_share_the_limits_of_their_valid_cells_with_a_bar(stage: str, scale: Any, expected: Any) -> None:
    """By default scores of each label have a bar in their units, and all else has one for all labels."""
    tensor = torch.tensor([[[-3.0, 2.0, 99.0]] * 2, [[0.5, 2.0, 1.0]] * 2])
    valid = valid_mask(tensor.shape, [2, 3])
    figure = heatmap(tensor, 20 * tensor, stage=stage, valid=valid, look=HeatmapLook(scale=scale)).figure
    assert limits(figure) == expected
    assert sorted(bar_limits(figure)) == sorted({*expected})
    assert bar_labels(figure) == [stage.removesuffix("s")] * len({*expected})
    for axes in panels(figure):
        image: Any = axes.images[0]
        is_white = image.to_rgba(0.0) == pytest.approx((*[0.969] * 3, 1), abs=last_digit(2 / 255))
        assert is_white == (image.get_clim()[0] < 0)
    check_texts(figure)
    assert limits(heatmap(tensor, stage="scores", batches=[0]).figure) == [(-99.0, 99.0)]  # panels shown


@pytest.mark.parametrize(
    ("stage", "quantity"),
    [
        ("dropped", "attention weight after dropout"),
        ("capped", "score after softcap"),
        ("biased", "score with its bias"),
        ("my_tensor", "my_tensor"),
    ],
)
def test_the_stage_names_the_quantity(stage: str, quantity: str) -> None:
    figure = heatmap(torch.tensor([[0.5, 1.25], [1.0, 1.0]]), stage=stage).figure
    assert (figure.get_suptitle(), bar_labels(figure)) == (quantity, [quantity.removeprefix("attention ")])


def test_weights_that_dropout_comes_after_say_so() -> None:
    stack = weights(2, 2), weights(2, 2)
    both, one = heatmap(*stack, dropout=["a", "b"]).figure, heatmap(*stack, dropout=["b"]).figure
    assert (both.get_suptitle(), titles(both)) == ("attention weight before dropout", ["a", "b"])
    assert bar_labels(both) == ["weight before dropout"]
    assert (one.get_suptitle(), titles(one)) == ("attention weight", ["a", "b before dropout"])
    assert bar_labels(one) == ["weight"]


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
    assert numbers(heatmap(weights(19, 19)).figure) == numbers(heatmap(weights(1, 1), look=NO).figure) == []
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
    np.testing.assert_array_equal(values(axes).filled(-1), wanted.filled(-1))
    extent = (-0.5, columns * across - 0.5, rows * down - 0.5, -0.5)  # true indices
    assert tuple(axes.images[0].get_extent()) == extent
    assert (axes.get_xlim(), axes.get_ylim()) == ((-0.5, m - 0.5), (n - 0.5, -0.5))
    footnote = f"each pixel is the mean of {down} × {across} cells"
    assert heat.figure.legends[0].get_title().get_text() == footnote
    assert heat.notes == [f"1500 × 2100 cells do not fit: {footnote}"]
