"""How a figure changes with d."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attncli.show.numbers import significant, span

LEVEL = 1.25  # a figure whose largest value is at most this times the smallest hardly depends on d
POWER_LAW = 0.1  # how far from the line, in natural logarithms, any point of a power law may lie


@dataclass(frozen=True)
class Trend:
    """A figure at several sizes, in the order of the sizes."""

    sizes: Sequence[int]
    values: Sequence[float]

    @property
    def level(self) -> bool:
        """Whether the figure hardly depends on d."""
        low, high = min(self.values), max(self.values)
        return low == high or 0 < high <= LEVEL * low

    @property
    def power(self) -> float | None:
        """The exponent a of the best fit c d^a; None where no power law describes the points."""
        if min(self.values) <= 0:
            return None
        x, y = np.log(self.sizes), np.log(self.values)
        slope, start = np.polyfit(x, y, 1)
        return float(slope) if np.abs(y - slope * x - start).max() <= POWER_LAW else None

    def __str__(self) -> str:
        """`0.954 to 1.06 from d = 1 to 32`, or `1 at d = 1 to 31 at d = 32, like d^1.00`."""
        if self.level:
            return f"{span(self.values)} from d = {self.sizes[0]} to {self.sizes[-1]}"
        places = [f"{significant(value)} at d = {size}" for size, value in zip(self.sizes, self.values, strict=True)]
        over = f" over {places[self.turn]}" if self.turn is not None else ""
        power = "" if self.power is None else f", like d^{self.power:.2f}"
        return f"{places[0]}{over} to {places[-1]}{power}"

    @property
    def turn(self) -> int | None:
        """Where the figure is larger, or smaller, than at both ends by more than LEVEL."""
        ends = self.values[0], self.values[-1]
        largest, smallest = (self.values.index(end(self.values)) for end in (max, min))
        if self.values[largest] > LEVEL * max(ends):
            return largest
        return smallest if LEVEL * self.values[smallest] < min(ends) else None
