"""Matrices with more cells than pixels: each pixel is the mean over the valid part of its area, so nothing aliases."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from attncli.precision import computing_dtype

BAND_CELLS = 2**21  # cells converted at a time: the memory taken beside the matrix itself


def block_means(values: Tensor, valid: Tensor | None, rows: int, columns: int) -> np.ma.MaskedArray[Any, Any]:
    """A matrix (n, m) as at most `rows` x `columns` pixels of equal area, masked where a pixel covers no valid cell.

    A cell counts by the part of it that lies in the pixel, so sizes need not divide. A valid NaN makes its pixels NaN.
    """
    n, m = values.shape
    dtype = computing_dtype(values.dtype)
    if n <= rows and m <= columns:
        return _cells(values.to(dtype), valid)
    down, across = _Overlaps(n, min(rows, n), dtype), _Overlaps(m, min(columns, m), dtype)
    height = max(1, down.pixels * BAND_CELLS // (n * m))
    bands = [_band(values, valid, down, across, first, height) for first in range(0, down.pixels, height)]
    means, covered = (torch.cat(parts).numpy() for parts in zip(*bands, strict=True))  # rows columns
    return np.ma.MaskedArray(means, mask=~covered)


def _cells(values: Tensor, valid: Tensor | None) -> np.ma.MaskedArray[Any, Any]:
    """Every cell a pixel; what stands in masked cells is not shown, so it is made 0."""
    covered = torch.ones(values.shape, dtype=torch.bool) if valid is None else valid.cpu()
    return np.ma.MaskedArray(values.detach().cpu().where(covered, 0.0).numpy(), mask=~covered.numpy())


def _band(
    values: Tensor, valid: Tensor | None, down: "_Overlaps", across: "_Overlaps", first: int, height: int
) -> tuple[Tensor, Tensor]:
    """Means of `height` rows of pixels from row `first` on, and which of them cover a valid cell."""
    last = min(first + height, down.pixels)
    cells = slice(first * down.cells // down.pixels, -(-last * down.cells // down.pixels))
    block = values[cells].detach().cpu().to(down.dtype)
    rows = down.matrix(first, last, cells)
    if valid is None:
        means = across.whole @ (rows @ block).T
        return means.T, torch.ones_like(means.T, dtype=torch.bool)
    inside = valid[cells].cpu()
    sums = across.whole @ (rows @ block.masked_fill(~inside, 0.0)).T
    areas = across.whole @ (rows @ inside.to(down.dtype)).T
    return (sums / areas.where(areas > 0, 1.0)).T, (areas > 0).T


class _Overlaps:
    """How much of each of `cells` intervals lies in each of `pixels` intervals of equal length over the same line.

    Counted in whole steps of 1 / (cells * pixels) of the line, where every edge of both is an integer.
    """

    def __init__(self, cells: int, pixels: int, dtype: torch.dtype) -> None:
        self.cells, self.pixels, self.dtype = cells, pixels, dtype
        edges = torch.from_numpy(np.union1d(np.arange(pixels + 1) * cells, np.arange(cells + 1) * pixels))
        self.pixel, self.cell = edges[:-1] // cells, edges[:-1] // pixels  # of every piece between two edges
        self.part = edges.diff().to(dtype) / cells  # of the pixel: the parts of one pixel sum to 1
        self.whole = self.matrix(0, pixels, slice(0, cells))

    def matrix(self, first: int, last: int, cells: slice) -> Tensor:
        """The sparse averaging matrix of pixels `first` to `last` over the cells of a slice."""
        here = (self.pixel >= first) & (self.pixel < last)
        places = torch.stack([self.pixel[here] - first, self.cell[here] - cells.start])
        size = (last - first, cells.stop - cells.start)
        return torch.sparse_coo_tensor(places, self.part[here], size, is_coalesced=True, check_invariants=False)
