"""Ratios of times and their intervals, beside the definitions and on planted noise."""

import math
import random
import statistics

import pytest

from attncli.studies.bench.statistics import STUDENT, interquartile_range, ratio_of


def test_noise_that_both_share_is_no_uncertainty() -> None:
    """A machine that is five times slower in one round changes neither the ratio nor its interval."""
    baseline = [1.0, 5.0, 1.0, 0.5]
    ratio, interval = ratio_of([3.0 * each for each in baseline], baseline)
    assert (ratio, *interval) == pytest.approx((3.0, 3.0, 3.0))


def test_by_hand() -> None:
    """Logarithms 0, ln 2 and ln 4: mean ln 2, standard deviation ln 2; t of two degrees of freedom is 4.303."""
    ratio, (low, high) = ratio_of([1.0, 2.0, 4.0], [1.0, 1.0, 1.0])
    assert ratio == pytest.approx(2.0)
    assert (low, high) == pytest.approx((2 ** (1 - 4.303 / math.sqrt(3)), 2 ** (1 + 4.303 / math.sqrt(3))))


def test_rounds_of_the_baseline_beyond_ours_do_not_count() -> None:
    assert ratio_of([2.0, 2.0], [1.0, 1.0, 100.0])[0] == pytest.approx(2.0)


@pytest.mark.parametrize("rounds", [3, 11])
def test_the_interval_holds_the_truth_95_times_in_100(rounds: int) -> None:
    noise = random.Random(rounds)
    inside = 0
    for _ in range(2000):
        seconds = [1.5 * math.exp(noise.gauss(0, 0.2)) for _ in range(rounds)]
        low, high = ratio_of(seconds, [1.0] * rounds)[1]
        inside += low <= 1.5 <= high
    assert inside / 2000 == pytest.approx(0.95, abs=0.015)


@pytest.mark.parametrize("df", range(1, len(STUDENT) + 1))
def test_quantiles_of_student(df: int) -> None:
    """The density, integrated from 0 by Simpson's rule, gives 47.5 %."""
    norm = math.gamma((df + 1) / 2) / (math.sqrt(df * math.pi) * math.gamma(df / 2))
    steps, end = 2000, STUDENT[df - 1]
    density = [norm * (1 + (end * i / steps) ** 2 / df) ** (-(df + 1) / 2) for i in range(steps + 1)]
    weights = [1, *[4, 2] * (steps // 2 - 1), 4, 1]
    area = math.fsum(w * x for w, x in zip(weights, density, strict=True)) * end / steps / 3
    assert area == pytest.approx(0.475, abs=3e-5)


def test_interquartile_range() -> None:
    assert interquartile_range([5.0, 1.0, 2.0, 4.0, 3.0]) == pytest.approx(2.0)
    assert interquartile_range([1.0, 2.0, 3.0]) == pytest.approx(1.0)
    assert interquartile_range([7.0] * 11) == 0
    assert statistics.median([5.0, 1.0, 2.0, 4.0, 3.0]) == 3.0
