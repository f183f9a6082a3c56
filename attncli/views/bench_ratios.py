"""The ratio of a time to the baseline's, in words: how many times slower or faster, and how sure that is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from attncli.show.numbers import significant
from attncli.studies.study import Record

WIDE = 2.0  # an interval whose ends differ by more than this factor is told by its ends
NOISY = 4.0  # and one with 1 in it whose ends differ by more than this factor tells nothing
DIGITS = 3  # of a ratio; an uncertainty beyond their reach is left out


@dataclass(frozen=True)
class Verdict:
    """`slower`, `faster`, `same` or `noisy`, and by what factor."""

    kind: str
    times: str  # `4.1 ± 0.3`, or `0.69 to 39` where that is too noisy; empty where no difference was measured

    @property
    def sentence(self) -> str:
        """What stands after `is`, without the baseline."""
        return f"{self.times} times {self.kind}"


def verdict(record: Record) -> Verdict:
    """What the ratio and its 95 % interval allow to be said; the ratio must be there."""
    ratio, interval = float(record["ratio"]), record["ratio_ci"]
    if same(record):
        noisy = interval is not None and interval[1] > NOISY * interval[0]
        return Verdict("noisy", uncertain(ratio, interval)) if noisy else Verdict("same", "")
    if ratio > 1:
        return Verdict("slower", uncertain(ratio, interval))
    turned = None if interval is None else (1 / interval[1], 1 / interval[0])
    return Verdict("faster", uncertain(1 / ratio, turned))


def same(record: Record) -> bool:
    """Whether the times cannot be told apart: the interval of the ratio contains 1, or ends on its other side."""
    ratio, interval = record["ratio"], record["ratio_ci"]
    if interval is None:
        return bool(ratio == 1)
    return bool(min(ratio, interval[0]) <= 1 <= max(ratio, interval[1]))


def has_ratio(record: Record) -> bool:
    """Whether the record was timed beside the baseline."""
    return record["ratio"] is not None and math.isfinite(record["ratio"]) and record["ratio"] > 0


def uncertain(value: float, interval: Sequence[float] | None) -> str:
    """A factor with half of its interval, `4.1 ± 0.3`, or `1.5 to 6.2` where that is wide."""
    if interval is None or not all(map(math.isfinite, interval)):
        return significant(value, DIGITS)
    low, high = interval
    if high > WIDE * low:
        return f"{significant(low, 2)} to {significant(high, 2)}"
    half = (high - low) / 2
    reach = max(0, DIGITS - 1 - _magnitude(value))
    decimals = min(reach, _decimals(half)) if half else reach
    error = f"{half:.{decimals}f}"
    return f"{value:.{decimals}f} ± {error}" if float(error) else significant(value, DIGITS)


def _decimals(error: float) -> int:
    """For one digit of the error, or two where the first is a 1, which rounding would change too much."""
    power = _magnitude(error)
    return max(0, (1 if error < 2 * 10.0**power else 0) - power)


def _magnitude(value: float) -> int:
    """The power of ten of its first digit."""
    return math.floor(math.log10(value))
