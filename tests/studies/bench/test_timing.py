"""Rounds of times, by a clock that only the planted work moves; their ratios and intervals."""

import itertools
import math
import random
from collections.abc import Callable

import pytest

from attncli.studies.bench.measure import (
    BLOCK,
    BUDGET,
    MOST,
    STUDENT,
    TRIES,
    ratio_of,
    rounds_of,
)
from tests.studies.bench.small import Clock


def test_planted_times_are_found() -> None:
    clock = Clock()
    fast, slow = rounds_of([clock.work(1e-3), clock.work(7e-3)], {0}, clock)
    assert fast == pytest.approx([1e-3] * MOST)
    assert slow == pytest.approx([7e-3] * MOST)
    assert ratio_of(slow, fast)[0] == pytest.approx(7.0)


def test_slow_ones_have_the_fewest_rounds_and_the_baseline_the_most() -> None:
    clock = Clock()
    times = rounds_of([clock.work(2.0), clock.work(3.0), clock.work(1e-4)], {0}, clock)
    assert [len(each) for each in times] == [MOST, TRIES, MOST]
    assert times[1] == pytest.approx([3.0] * TRIES)


def test_one_slow_call_does_not_cost_rounds() -> None:
    clock = Clock()
    first = itertools.chain([BUDGET / 4] * 3, itertools.repeat(1e-3))  # two calls warm up before the one that is timed
    assert [len(each) for each in rounds_of([clock.work(first)], set(), clock)] == [MOST]


def test_a_fast_call_is_made_for_a_block_of_time() -> None:
    clock, calls = Clock(), itertools.count()

    def call() -> None:
        next(calls)
        clock.now += 1e-6

    (seconds,) = rounds_of([call], set(), clock)
    assert seconds == pytest.approx([1e-6] * MOST)
    assert next(calls) * 1e-6 >= MOST * BLOCK


def test_they_take_turns_and_each_begins_a_round_once() -> None:
    clock, order = Clock(), list[int]()

    def noting(index: int) -> Callable[[], None]:
        def call() -> None:
            order.append(index)
            clock.now += 10.0

        return call

    rounds_of([noting(index) for index in range(3)], set(), clock)
    once = [index for index, _ in itertools.groupby(order)]
    assert once == [0, 1, 2, 0, 1, 2, *(1, 2, 0), *(2, 0, 1)]


def test_a_machine_that_slows_down_does_not_change_the_ratio() -> None:
    """Every call takes 1 % longer than the one before."""
    clock = Clock()
    speed = {"now": 1.0}

    def work(seconds: float) -> Callable[[], None]:
        def call() -> None:
            speed["now"] *= 1.01
            clock.now += seconds * speed["now"]

        return call

    one, three = rounds_of([work(1.0), work(3.0)], {0}, clock)
    assert one[-1] > one[0] * 1.08
    ratio, (low, high) = ratio_of(three, one)
    assert low < 3.0 < high
    assert ratio == pytest.approx(3.0, rel=0.02)


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
