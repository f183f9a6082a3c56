"""The histogram of standardised scores, against the density that sums of many products tend to."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attncli.results.records import Histogram

REACH = 4.5  # how many standard deviations the panel shows to either side
ALIKE = 0.002  # densities that differ by less, at most of them 0.4, are the same line
SHIFT = 0.01  # and so are edges, in standard deviations
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
    widths = np.diff(edges)
    if not np.isfinite(edges).all() or (widths <= 0).any():
        return None
    return Density((label,), edges, histogram.counts.numpy() / (histogram.samples * widths))


def normal_density() -> tuple[Array, Array]:
    """Points of the standard normal density."""
    x = np.linspace(-REACH, REACH, 181)
    return x, np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
