"""The histogram of standardised scores, against the density that sums of many products tend to."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attncli.runs.records import Histogram

REACH = 4.5  # how many standard deviations the panel shows to either side
ALIKE = 0.002  # densities that differ by less, at most of them 0.4, are the same line
SHIFT = 0.01  # and so are edges, in standard deviations
ENOUGH = 625  # samples in the fullest bin: its standard error is 1/25 of it
TOGETHER = (1, 2, 4, 5, 10)  # numbers of bins that may be merged into one; ten of those counted are one std wide
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Density:
    """The density of (score - mean) / std in each bin; `labels` are those whose scores have it."""

    labels: tuple[str, ...]
    edges: Array
    heights: Array

    def same_as(self, other: "Density") -> bool:
        """Whether the two would be drawn as one line."""
        return (
            self.edges.shape == other.edges.shape
            and bool(np.abs(self.edges - other.edges).max() <= SHIFT)
            and bool(np.abs(self.heights - other.heights).max() <= ALIKE)
        )


def densities(histograms: Mapping[str, Histogram]) -> list[Density]:
    """Each density once, with all the labels that share it."""
    found: list[Density] = []
    for label, histogram in histograms.items():
        density = _density(label, histogram)
        if density is None:
            continue
        alike = next((index for index, other in enumerate(found) if other.same_as(density)), None)
        if alike is None:
            found.append(density)
        else:
            found[alike] = Density((*found[alike].labels, label), found[alike].edges, found[alike].heights)
    return found


def _density(label: str, histogram: Histogram) -> Density | None:
    """None where scores are all the same, or not all numbers."""
    usable = math.isfinite(histogram.mean) and math.isfinite(histogram.std) and histogram.std > 0
    if not usable or histogram.samples < 1:
        return None
    edges = (histogram.edges.numpy() - histogram.mean) / histogram.std
    counts = histogram.counts.numpy()
    merged = _merged(counts)
    edges, counts = edges[::merged], counts.reshape(-1, merged).sum(axis=1)
    widths = np.diff(edges)
    if not np.isfinite(edges).all() or (widths <= 0).any():
        return None
    return Density((label,), edges, counts / (histogram.samples * widths))


def _merged(counts: Array) -> int:
    """How many neighbouring bins are shown as one, so that chance moves the height of the fullest by 4 % at most."""
    possible = [count for count in TOGETHER if len(counts) % count == 0]
    for count in possible:
        if counts.reshape(-1, count).sum(axis=1).max() >= ENOUGH:
            return count
    return possible[-1]


def normal_density() -> tuple[Array, Array]:
    """Points of the standard normal density."""
    x = np.linspace(-REACH, REACH, 181)
    return x, np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
