"""Colours: limits of panels, masked cells, NaN, infinities, numbers in cells, means of many cells."""

from typing import Any

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from attncli.attention import masked_softmax, valid_mask
from attncli.config.looks import HeatmapLook
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
    ends = [axes.get_ylim() if axes.get_ylabel() else axes.get_xlim() for axes in bars(figure)]
    assert sorted(ends) == sorted({*expected})
    assert bar_labels(figure) == [stage.removesuffix("s")] * len({*expected})
    for axes in panels(figure):
        image: Any = axes.images[0]
        is_white = image.to_rgba(0.0) == pytest.approx((*[0.969] * 3, 1), abs=last_digit(2 / 255))
        assert is_white == (image.get_clim()[0] < 0)
    check_texts(figure)
    assert limits(heatmap(tensor, stage="scores", batches=[0]).figure) == [(-99.0, 99.0)]  # panels shown


@pytest.mark.parametrize(
    ("stage", "dropout", "quantity", "second"),
    [
        ("dropped", "", "attention weight after dropout", "b"),
        ("capped", "", "score after softcap", "b"),
        ("my_tensor", "", "my_tensor", "b"),
        ("weights", "ab", "attention weight before dropout", "b"),
        ("weights", "b", "attention weight", "b before dropout"),
    ],
)
def test_the_stage_names_the_quantity(stage: str, dropout: str, quantity: str, second: str) -> None:
    look = HeatmapLook(scale="shared")
    figure = heatmap(weights(2, 2), weights(2, 2), stage=stage, dropout=dropout, look=look).figure
    assert (figure.get_suptitle(), bar_labels(figure)) == (quantity, [quantity.removeprefix("attention ")])
    assert titles(figure) == ["a", second]


def test_rows_without_a_valid_key_are_masked() -> None:
    valid = valid_mask((1, 2, 3), [[0, 2]])
    for empty_row, is_masked in {"nan": True, "zero": True, "uniform": False}.items():
        tensor = masked_softmax(torch.zeros(1, 2, 3), [[0, 2]], empty_row=empty_row)  # type: ignore[arg-type]
        (axes,) = panels(heatmap(tensor, valid=valid).figure)
        assert np.ma.getmaskarray(values(axes)).tolist() == [[is_masked] * 3, [False, False, True]]
    nothing = heatmap(torch.full((1, 2, 3), NAN), stage="scores", valid=torch.zeros(1, 2, 3, dtype=torch.bool))
    assert limits(nothing.figure) == [(-1.0, 1.0)]
    assert nothing.notes == []


@pytest.mark.parametrize(
    ("largest", "texts"),
    [
        (0.0, ["0.00", "0.00"]),
        (0.005, ["0.005", "0.000"]),
        (0.0999, ["0.100", "0.000"]),
        (0.1, ["0.10", "0.00"]),
        (9.99, ["9.99", "0.00"]),
        (-10.0, ["−10.0", "0.0"]),
        (100.0, ["100", "0"]),
        (10_000.0, ["1e4", "0e0"]),
        (0.0049, ["5e−3", "0e0"]),
        (INF, ["∞", "0.00"]),
    ],
)
def test_numbers_are_short_and_have_no_negative_zero(largest: float, texts: list[str]) -> None:
    """The largest number of a picture has two or three digits."""
    figure = heatmap(torch.tensor([[largest, -0.0]] * 2, dtype=torch.float64), stage="scores").figure
    assert numbers(figure) == 2 * texts


@pytest.mark.parametrize("name", ["viridis", "Greys_r", "cool"])
def test_numbers_and_nan_contrast_with_the_colours_of_cells(name: str) -> None:
    tensor = torch.linspace(0, 1, 12).reshape(3, 4)
    (axes,) = panels(heatmap(tensor, look=HeatmapLook(cmap=name, annotate="yes")).figure)
    for value, text in zip(tensor.flatten().tolist(), axes.texts, strict=True):
        inks = {contrast(matplotlib.colormaps[name](value), ink): ink for ink in ("black", "white")}
        assert text.get_color() == inks[max(inks)]
    nan = axes.images[0].get_cmap().get_bad()
    assert np.abs(matplotlib.colormaps[name](np.arange(256))[:, :3] - nan[:3]).sum(axis=1).min() > 0.4


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


@pytest.mark.usefixtures("laid_out")
@pytest.mark.parametrize("band", [1, 2**21])
def test_a_large_matrix_is_shown_as_the_means_of_its_valid_cells(band: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attncli.show.pictures.matrices.BAND_CELLS", band)
    n, m = 1501, 2100
    generator = torch.Generator().manual_seed(0)
    valid = (torch.rand(1, n, m, generator=generator) < 0.3) & (torch.arange(m) < 1400)
    matrix = torch.rand(1, n, m, generator=generator).masked_fill(~valid, NAN)
    heat = heatmap(matrix, valid=valid, look=HeatmapLook(scale="shared"))
    (axes,) = panels(heat.figure)
    rows, columns = values(axes).shape
    assert axes.get_window_extent().height >= rows  # no mean without a pixel
    assert axes.get_window_extent().width >= columns
    down, across = -(-n // rows), -(-m // columns)
    cells = np.full((rows * down, columns * across), NAN)  # blocks at the ends have fewer cells
    cells[:n, :m] = matrix[0]
    blocks = cells.reshape(rows, down, columns, across)
    count = np.isfinite(blocks).sum((1, 3))
    means = np.ma.masked_where(count == 0, np.nansum(blocks, (1, 3)) / np.maximum(count, 1))
    assert 0 < means.count() < means.size
    np.testing.assert_array_equal(np.ma.getmaskarray(values(axes)), means.mask)
    np.testing.assert_allclose(values(axes).filled(0), means.filled(0), rtol=1e-12)
    assert tuple(axes.images[0].get_extent()) == (-0.5, cells.shape[1] - 0.5, cells.shape[0] - 0.5, -0.5)
    assert (axes.get_xlim(), axes.get_ylim()) == ((-0.5, m - 0.5), (n - 0.5, -0.5))
    footnote = f"each pixel is the mean of {down} × {across} cells"
    assert heat.figure.legends[0].get_title().get_text() == footnote
    assert heat.notes == [f"1501 × 2100 cells do not fit: {footnote}"]
