"""How a figure changes with d: whether it stays, and if not by which power of d."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attncli.studies.study import Record

LEVEL = 1.25  # a figure whose largest value is more than this times the smallest depends on d
FLAT = 0.1  # so does one that changes like a higher power of d, over whatever range
POWER_LAW = 0.1  # how far from the line, in natural logarithms, any point of a power law may lie


@dataclass(frozen=True)
class Trend:
    """A positive figure at several d, in the order of d."""

    sizes: Sequence[int]
    values: Sequence[float]

    @classmethod
    def of(cls, records: Sequence[Record], key: str) -> "Trend":
        """The figure `key` of one label's records, where it is a number."""
        points = sorted(
            (record["d"], record[key])
            for record in records
            if record.get(key) is not None and math.isfinite(record[key])
        )
        return cls([size for size, _ in points], [value for _, value in points])

    @property
    def several(self) -> bool:
        """Whether there are two sizes to compare."""
        return len(set(self.sizes)) > 1

    @property
    def level(self) -> bool:
        """Whether the figure hardly depends on d."""
        low, high = min(self.values), max(self.values)
        return low == high or (0 < high <= LEVEL * low and abs(self._line()[0]) < FLAT)

    @property
    def power(self) -> float | None:
        """The exponent a of the best fit c d^a; None where no power law describes the points."""
        if min(self.values) <= 0:
            return None
        slope, farthest = self._line()
        return slope if farthest <= POWER_LAW else None

    @property
    def rises(self) -> bool:
        """Whether the figure is larger at the largest d than at the smallest."""
        return self.values[-1] > self.values[0]

    def _line(self) -> tuple[float, float]:
        """The slope of the least squares line through the logarithms, and how far from it the farthest point lies."""
        x, y = np.log(self.sizes), np.log(self.values)
        x, y = x - x.mean(), y - y.mean()
        slope = float((x * y).sum() / (x**2).sum())
        return slope, float(np.abs(y - slope * x).max())
