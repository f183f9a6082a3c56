"""Means and quantiles of non-negative figures that come in parts, in bounded memory."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attncli.studies.saturation.rows import Figures
from attncli.studies.study import Record

MOST_EXACT = 2**16  # numbers up to which quantiles are exact
SHIFT = 12  # bits of a float32 that a bin leaves out: bins are 2^-11 of a number wide
QUARTILES = {"q25": 0.25, "median": 0.5, "q75": 0.75}
Numbers = NDArray[np.float64]


class Quantiles:
    """Exact for up to MOST_EXACT numbers; of more within 0.025 % of a number, or 1e-41 if that is more.

    The bits of a non-negative float32, read as an integer, are in the order of the numbers, so that the upper bits are
    bins of equal relative width over the whole range.
    """

    def __init__(self) -> None:
        self._waiting = np.empty(0)  # not counted yet
        self._bins = np.empty(0, dtype=np.int64)
        self._counts = np.empty(0, dtype=np.int64)

    def add(self, numbers: Numbers) -> None:
        """One part."""
        self._waiting = np.concatenate([self._waiting, numbers])
        if len(self._waiting) > MOST_EXACT:
            self._count()

    def _count(self) -> None:
        with np.errstate(over="ignore"):  # beyond float32 is infinite
            bins = (np.abs(self._waiting).astype(np.float32).view(np.uint32) >> SHIFT).astype(np.int64)
        found, counts = np.unique(bins, return_counts=True)
        every, place = np.unique(np.concatenate([self._bins, found]), return_inverse=True)
        totals = np.bincount(place, weights=np.concatenate([self._counts, counts])).astype(np.int64)
        self._waiting, self._bins, self._counts = np.empty(0), every, totals

    def at(self, shares: Sequence[float]) -> list[float]:
        """The quantiles at shares between 0 and 1; NaN where there are no numbers, or some are NaN."""
        if not self._bins.size:
            return _exact(self._waiting, shares)
        if self._waiting.size:
            self._count()
        reached = np.cumsum(self._counts)
        places = np.searchsorted(reached, np.asarray(shares) * reached[-1])
        middles = ((self._bins[places] << SHIFT) + (1 << (SHIFT - 1))).astype(np.uint32).view(np.float32)
        infinite = int(np.float32(np.inf).view(np.uint32)) >> SHIFT
        special = [self._bins[-1] > infinite, self._bins[places] == infinite, self._bins[places] == 0]
        found = np.select(np.broadcast_arrays(*special), [np.nan, np.inf, 0.0], middles)
        return [float(number) for number in found]


def _exact(numbers: Numbers, shares: Sequence[float]) -> list[float]:
    with np.errstate(invalid="ignore"):  # between two infinite numbers there is none
        return [float(number) for number in np.quantile(numbers if numbers.size else np.full(1, np.nan), shares)]


class Summary:
    """Means and quartiles of every figure of one scorer, part by part."""

    def __init__(self) -> None:
        self._rows = 0
        self._sums: dict[str, float] = {}
        self._quantiles: dict[str, Quantiles] = {}

    def add(self, figures: Figures) -> None:
        """The rows of one part."""
        self._rows += len(figures["entropy"])
        for name, numbers in figures.items():
            array = numbers.numpy()
            self._sums[name] = self._sums.get(name, 0.0) + float(array.sum())
            self._quantiles.setdefault(name, Quantiles()).add(array)

    @property
    def row(self) -> Record:
        """How many `rows` there are, and of each figure mean (under its name, too) and quartiles if there are any."""
        row: Record = {"rows": self._rows}
        for name in self._sums if self._rows else ():
            quartiles = self._quantiles[name].at(list(QUARTILES.values()))
            row |= {f"{name}_{part}": quartile for part, quartile in zip(QUARTILES, quartiles, strict=True)}
            row[name] = row[f"{name}_mean"] = self._sums[name] / self._rows
        return row
