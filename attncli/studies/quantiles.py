"""Quantiles of non-negative numbers that come in parts, in bounded memory."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MOST_KEPT = 2**16  # numbers up to which quantiles are exact
SHIFT = 12  # bits of a float32 that a bin leaves out: bins are 2^-11 of a number wide
Numbers = NDArray[np.float64]


class Quantiles:
    """Exact for up to MOST_KEPT numbers; beyond that within 0.025 % of a number, and with more than 1e-41 told from 0.

    The bits of a non-negative float32, read as an integer, are in the order of the numbers, so that the upper bits are
    bins of equal relative width over the whole range.
    """

    def __init__(self) -> None:
        self._kept: Numbers | None = np.empty(0)
        self._bins = np.empty(0, dtype=np.int64)
        self._counts = np.empty(0, dtype=np.int64)

    def add(self, numbers: Numbers) -> None:
        """One part."""
        if self._kept is not None:
            numbers = np.concatenate([self._kept, numbers])
            self._kept = numbers if len(numbers) <= MOST_KEPT else None
        if self._kept is None:
            self._count(numbers)

    def _count(self, numbers: Numbers) -> None:
        bins = (numbers.astype(np.float32).view(np.uint32) >> SHIFT).astype(np.int64)
        found, counts = np.unique(bins, return_counts=True)
        every, place = np.unique(np.concatenate([self._bins, found]), return_inverse=True)
        totals = np.zeros(len(every), dtype=np.int64)
        np.add.at(totals, place, np.concatenate([self._counts, counts]))
        self._bins, self._counts = every, totals

    def at(self, shares: Sequence[float]) -> list[float]:
        """The quantiles at shares between 0 and 1; NaN where there are no numbers, or some are NaN."""
        if self._kept is not None:
            kept = self._kept if self._kept.size else np.full(1, np.nan)
            return [float(number) for number in np.quantile(kept, shares)]
        reached = np.cumsum(self._counts)
        places = np.searchsorted(reached, np.asarray(shares) * reached[-1])
        middles = ((self._bins[places] << SHIFT) + (1 << (SHIFT - 1))).astype(np.uint32).view(np.float32)
        infinite = int(np.float32(np.inf).view(np.uint32)) >> SHIFT
        special = [self._bins[-1] > infinite, self._bins[places] == infinite, self._bins[places] == 0]
        found = np.select(np.broadcast_arrays(*special), [np.nan, np.inf, 0.0], middles)
        return [float(number) for number in found]
