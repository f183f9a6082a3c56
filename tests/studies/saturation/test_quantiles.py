"""Quantiles of numbers in parts against numpy's of the whole."""

import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest

from attncli.studies.saturation.rows import MOST_EXACT, Stream
from tests.studies.pairs.samples import Array

SHARES = [0.0, 0.001, 0.25, 0.5, 0.75, 0.9, 1.0]
WIDTH = 0.00025  # what is promised, relative to a number
SMALLEST = 1.2e-38  # of float32 with all its digits


def of(numbers: Array, parts: int = 1) -> Stream:
    stream = Stream()
    for part in np.array_split(numbers, parts):
        stream.add(part)
    return stream


def spread(n: int, low: float = -40.0) -> Array:
    """Log-uniform numbers between 10^low and 1."""
    return 10.0 ** np.random.default_rng(2).uniform(low, 0.0, n)


def ranked(numbers: Array, shares: Sequence[float] = SHARES) -> Array:
    """The smallest numbers that these shares of all numbers do not exceed."""
    ordered: Array = np.quantile(numbers, shares, method="inverted_cdf")
    return ordered


@pytest.mark.parametrize("parts", [1, 3, 1000])
@pytest.mark.parametrize("n", [1, 2, 10, 997, MOST_EXACT])
def test_exact_while_there_are_few(n: int, parts: int) -> None:
    numbers = spread(n)
    found = of(numbers, parts)
    assert found.at(SHARES) == np.quantile(numbers, SHARES).tolist()
    assert found.mean == pytest.approx(numbers.mean(), rel=1e-12)


@pytest.mark.parametrize("parts", [1, 3, 40])
@pytest.mark.parametrize("n", [MOST_EXACT + 1, 300_000])
def test_close_where_there_are_many(n: int, parts: int) -> None:
    numbers = spread(n)
    for found, right in zip(of(numbers, parts).at(SHARES), ranked(numbers), strict=True):
        assert found == pytest.approx(right, rel=WIDTH, abs=0 if right > SMALLEST else 3e-42)
        assert found > 0


def test_parts_change_nothing() -> None:
    numbers = spread(200_000)
    assert of(numbers).at(SHARES) == of(numbers, 7).at(SHARES) == of(numbers[::-1], 30).at(SHARES)


def test_zeros() -> None:
    numbers = np.concatenate([np.zeros(60_000), spread(40_000)])
    assert of(numbers, 9).at([0.0, 0.3, 0.6]) == [0.0, 0.0, 0.0]
    assert of(numbers, 9).at([0.61, 1.0]) == pytest.approx(ranked(numbers, [0.61, 1.0]).tolist(), rel=WIDTH, abs=1e-41)
    assert of(np.zeros(100_000)).at([0.5]) == [0.0]


@pytest.mark.parametrize("n", [100, 100_000])
def test_one_that_is_not_a_number(n: int) -> None:
    numbers = spread(n)
    numbers[17] = np.nan
    assert np.isnan(of(numbers, 5).at(SHARES)).all()


def test_infinite_ones() -> None:
    numbers = spread(100_000, low=-37.0)
    numbers[:10_000] = np.inf
    assert of(numbers, 5).at([0.5, 0.9]) == pytest.approx(ranked(numbers, [0.5, 0.9]).tolist(), rel=WIDTH, abs=0)
    assert of(numbers, 5).at([0.9001, 1.0]) == [np.inf, np.inf]
    assert of(numbers[9_990:10_100]).at([0.5]) == [np.quantile(numbers[9_990:10_100], 0.5)]


def test_memory_is_bounded() -> None:
    randomness = np.random.default_rng(3)
    tracemalloc.start()
    try:
        stream = Stream()
        for _ in range(60):
            stream.add(10.0 ** randomness.uniform(-40.0, 0.0, 100_000))
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert stream.at([0.5]) == pytest.approx([1e-20], rel=0.1)
    assert kept < 6 * 2**20, "and the numbers take 46 MiB"
    assert peak < 30 * 2**20
