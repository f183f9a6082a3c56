"""Moments in parts against exact rational sums, intervals against the textbook, and degenerate cases."""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import reduce

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attncli.studies.variance.moments import ScoreMoments
from tests.reference import rounding
from tests.studies.pairs.samples import standard

NUMBERS = st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), max_size=30)
POINT = 1.9599639845400545  # of the normal distribution, where 97.5 % lie below


def joined(parts: Sequence[Sequence[float]]) -> ScoreMoments:
    return reduce(
        ScoreMoments.merged, (ScoreMoments.of(np.array(part, dtype=np.float64)) for part in parts), ScoreMoments()
    )


def exact(numbers: Sequence[float]) -> list[float]:
    """Return mean, and sums of the second, third and fourth powers of the deviations, without intermediate rounding."""
    fractions = [Fraction(number) for number in numbers]
    mean = sum(fractions) / len(fractions)
    return [float(mean), *(float(sum((x - mean) ** power for x in fractions)) for power in (2, 3, 4))]


def assert_moments(found: ScoreMoments, numbers: Sequence[float]) -> None:
    """Assert that each sum of powers agrees within a few roundings of the largest number."""
    size, n = max(map(abs, numbers)) or 1.0, len(numbers)
    wanted = exact(numbers)
    assert found.count == n
    assert found.mean == pytest.approx(wanted[0], rel=1e-13, abs=1e-14 * size)
    for power, (sum_, right) in enumerate(zip([found.m2, found.m3, found.m4], wanted[1:], strict=True), start=2):
        assert sum_ == pytest.approx(right, rel=1e-11, abs=1e-12 * n * size**power)


@given(st.lists(NUMBERS, max_size=6).filter(any))
def test_any_split_is_the_whole(parts: list[list[float]]) -> None:
    assert_moments(joined(parts), [number for part in parts for number in part])


@pytest.mark.parametrize("parts", [1, 7, 1000])
def test_digits_far_from_zero(parts: int) -> None:
    numbers = 1e8 + np.random.default_rng(0).integers(-3, 4, 7000) * 2.0**-10  # float64 holds these exactly
    whole = joined(np.array_split(numbers, parts))
    mean, *sums = exact(numbers.tolist())
    assert whole.mean == pytest.approx(mean, rel=rounding(8 + parts, torch.float64))
    assert [whole.m2, whole.m4] == pytest.approx([sums[0], sums[2]], rel=1e-5)
    assert whole.variance == pytest.approx(sums[0] / 6999, rel=1e-5)
    assert whole.population_variance == pytest.approx(sums[0] / 7000, rel=1e-5)


@pytest.mark.parametrize("n", [5, 12, 200])
def test_a_theory_at_the_end_of_an_interval_is_1_96_away(n: int) -> None:
    moments = ScoreMoments.of(standard("laplace", (n,), np.random.default_rng(1)) * 3.0 + 2.0)
    low, high = moments.variance_interval()
    assert 0 < low < moments.variance < high
    assert [moments.variance_score(end) for end in (low, high)] == pytest.approx([POINT, -POINT])
    assert [moments.mean_score(end) for end in moments.mean_interval()] == pytest.approx([POINT, -POINT])


def test_the_intervals_are_those_of_the_textbook_and_of_bonett() -> None:
    """Bonett's formula has the kurtosis about the mean."""
    numbers = np.array([1.0, 2.0, 2.5, 3.0, 5.0, 9.0, 1.5, 4.0])
    n, deviations = 8, numbers - numbers.mean()
    kurtosis = n * (deviations**4).sum() / (deviations**2).sum() ** 2
    c = n / (n - POINT)
    error = c * math.sqrt((kurtosis - (n - 3) / n) / (n - 1))
    centre = math.log(c * numbers.var(ddof=1))
    wanted = (math.exp(centre - POINT * error), math.exp(centre + POINT * error))
    moments, half = ScoreMoments.of(numbers), POINT * numbers.std(ddof=1) / math.sqrt(n)
    assert moments.variance_interval() == pytest.approx(wanted, rel=1e-12)
    assert moments.mean_interval() == pytest.approx((numbers.mean() - half, numbers.mean() + half), rel=1e-12)


def test_numbers_that_are_all_alike() -> None:
    moments = joined([[3.0] * 5, [3.0] * 7])
    assert moments.mean_interval() == (3.0, 3.0)
    assert moments.variance_interval() == (0.0, 0.0)
    assert (moments.mean_score(3.0), moments.mean_score(2.0)) == (0.0, None)
    assert (moments.variance_score(0.0), moments.variance_score(1.0)) == (0.0, None)
