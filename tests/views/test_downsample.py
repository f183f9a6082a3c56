"""Means over areas: exact, over valid cells, and true of what the picture says."""

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attncli.attention import valid_mask
from attncli.views import downsample
from attncli.views.downsample import block_means
from attncli.views.heatmaps import HeatmapStyle
from tests.views.artists import heatmap, inches, panels, values, weights, words


def shared(cells: int, pixels: int) -> list[dict[int, float]]:
    """For every pixel the cells it lies over, and the part of the line that they share."""
    found: list[dict[int, float]] = []
    for pixel, cell in np.ndindex(pixels, cells):
        start = max(Fraction(cell, cells), Fraction(pixel, pixels))
        end = min(Fraction(cell + 1, cells), Fraction(pixel + 1, pixels))
        if cell == 0:
            found.append({})
        if end > start:
            found[pixel][cell] = float(end - start)
    return found


def slow_means(matrix: Tensor, valid: Tensor, rows: int, columns: int) -> np.ma.MaskedArray[Any, Any]:
    """Every pixel by itself: the mean of the valid cells under it, each by the area it shares with the pixel."""
    means: np.ma.MaskedArray[Any, Any] = np.ma.MaskedArray(np.zeros((rows, columns)), mask=True)
    for (i, down), (j, across) in product(
        enumerate(shared(len(matrix), rows)), enumerate(shared(len(matrix.T), columns))
    ):
        shares = {(a, b): down[a] * across[b] for a in down for b in across if valid[a, b]}
        if shares:
            total = sum(share * float(matrix[place]) for place, share in shares.items())
            means[i, j] = total / sum(shares.values())
    return means


SIZE = st.integers(1, 11)


@given(n=SIZE, m=SIZE, rows=SIZE, columns=SIZE, share=st.sampled_from([0.0, 0.1, 0.7, 1.0]), band=st.integers(1, 40))
def test_pixels_are_means_over_the_valid_part_of_their_area(
    n: int, m: int, rows: int, columns: int, share: float, band: int
) -> None:
    generator = torch.Generator().manual_seed(n * m + rows)
    matrix = torch.randn(n, m, generator=generator, dtype=torch.float64)
    valid = torch.rand(n, m, generator=generator) < share
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(downsample, "BAND_CELLS", band)
        means = block_means(matrix, valid, rows, columns)
    wanted = slow_means(matrix, valid, min(rows, n), min(columns, m))
    np.testing.assert_array_equal(means.mask, np.ma.getmaskarray(wanted))
    np.testing.assert_allclose(means.filled(0), wanted.filled(0), rtol=1e-12, atol=1e-14)


def test_without_a_mask_every_cell_counts() -> None:
    matrix = weights(17, 23)
    everything = torch.ones(17, 23, dtype=torch.bool)
    means = block_means(matrix, None, 5, 7)
    assert not means.mask.any()
    np.testing.assert_allclose(means, block_means(matrix, everything, 5, 7), rtol=1e-6)
    np.testing.assert_allclose(means.mean(), float(matrix.mean()), rtol=1e-6)


def test_no_more_pixels_than_cells() -> None:
    matrix = weights(3, 4)
    np.testing.assert_array_equal(block_means(matrix, None, 100, 100), matrix)
    assert block_means(matrix, None, 2, 100).shape == (2, 4)


def test_a_fine_pattern_becomes_grey_and_not_stripes() -> None:
    board = (torch.arange(1000)[:, None] + torch.arange(1000)) % 2
    np.testing.assert_allclose(block_means(board.float(), None, 250, 300), 0.5, atol=0.02)


def test_what_stands_in_masked_cells_changes_nothing() -> None:
    matrix, valid = weights(20, 20), torch.rand(20, 20, generator=torch.Generator().manual_seed(0)) < 0.5
    dirty = matrix.masked_fill(~valid, torch.nan)
    np.testing.assert_array_equal(block_means(dirty, valid, 6, 7), block_means(matrix, valid, 6, 7))
    np.testing.assert_array_equal(block_means(dirty, valid, 20, 20).data, matrix.masked_fill(~valid, 0.0))


def test_one_valid_nan_shows() -> None:
    matrix = weights(100, 100)
    matrix[55, 31] = torch.nan
    lost = np.isnan(block_means(matrix, None, 10, 10).data)
    np.testing.assert_array_equal(np.argwhere(lost), [[5, 3]])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_means_are_computed_in_at_least_float32(dtype: torch.dtype) -> None:
    means = block_means(torch.full((64, 64), 1.0, dtype=dtype) * 3, None, 5, 5)
    assert means.dtype == (np.float64 if dtype == torch.float64 else np.float32)
    np.testing.assert_allclose(means, 3.0, rtol=1e-6)


def test_large_values_do_not_overflow() -> None:
    np.testing.assert_allclose(block_means(torch.full((300, 300), 3e38), None, 7, 7), 3e38, rtol=1e-5)


def test_a_large_matrix_is_shown_as_its_means() -> None:
    n, m = 1500, 2100
    matrix = weights(1, n, m) * 500
    valid = valid_mask((1, n, m), [1400])
    assert valid is not None
    heat = heatmap(matrix, valid=valid, style=HeatmapStyle(scale="shared"))
    (image,) = panels(heat.figure)
    rows, columns = values(image).shape
    _, _, width, height = inches(heat.figure, image)
    assert (rows, columns) == (round(height * heat.figure.dpi), round(width * heat.figure.dpi))  # one for every pixel
    wanted = block_means(matrix[0], valid[0].expand(n, m), rows, columns)
    np.testing.assert_array_equal(values(image).mask, wanted.mask)
    np.testing.assert_array_equal(values(image).filled(0), wanted.filled(0))
    assert image.get_clim() == (wanted.min(), wanted.max())
    footnote = f"each pixel is the mean of about {n / rows:.2g} × {m / columns:.2g} cells"
    assert words(heat.figure, "footnote") == [footnote]
    assert heat.notes == (f"1500 × 2100 cells are more than there are pixels: {footnote}",)
    assert words(heatmap(weights(30, 30)).figure, "footnote") == []
