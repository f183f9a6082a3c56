"""Which key gets the most weight of a query, and whether it deserves a mark."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from attncli.studies.attention.comparisons import TIE

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Peak:
    """Where a row is largest. `least` is the least weight to be marked: infinite where no key stands out."""

    weight: float
    key: int
    least: float


def row_peaks(weights: "Tensor", valid: "Tensor") -> list[Peak]:
    """The maximum of every row of weights (n, m) over its valid keys.

    Equal maxima all count. None does where all of several valid keys have the same weight, nor where there is no valid
    key: a mark on everything would say nothing.
    """
    inf = float("inf")
    largest, keys = weights.masked_fill(~valid, -inf).max(-1)  # n
    least = largest * (1 - TIE)  # n
    level = (weights.masked_fill(~valid, inf) >= least[:, None]).all(-1) & (valid.sum(-1) != 1)  # n
    least = least.masked_fill(level | ~largest.isfinite(), inf)
    largest = largest.masked_fill(~valid.any(-1), 0.0)
    keys = keys.masked_fill(~valid.any(-1), -1)
    return [Peak(*peak) for peak in zip(largest.tolist(), keys.tolist(), least.tolist(), strict=True)]
