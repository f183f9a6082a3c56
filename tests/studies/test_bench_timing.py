"""Rounds of times, by a clock that only the planted work moves."""

import itertools
from collections.abc import Callable

import pytest
import torch

from attncli.studies.bench.statistics import ratio_of
from attncli.studies.bench.timing import BLOCK, BUDGET, MOST, TRIES, clock_for, rounds_of
from tests.studies.bench import CPU, Clock


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


def test_between_them_the_budget_decides() -> None:
    clock = Clock()
    once = BUDGET / 2 / 6.5
    assert [len(each) for each in rounds_of([clock.work(once)], set(), clock)] == [6]


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


def test_the_threads_of_torch_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, clock = set(), Clock()
    before = torch.get_num_threads()

    def call() -> None:
        seen.add(torch.get_num_threads())
        clock.now += 1.0

    rounds_of([call], set(), clock)
    assert seen == {before}


def test_clocks() -> None:
    assert clock_for(CPU)() <= clock_for(CPU)()
    assert clock_for(torch.device("cuda")) is not clock_for(CPU)
    assert clock_for(torch.device("mps")) is not clock_for(CPU)
