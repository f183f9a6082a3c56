"""Peak memory of known tensors; rounds of times by a fake clock; ratios and intervals."""

import itertools
import math
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch

from attncli.studies.bench import measure
from attncli.studies.bench.implementations import Call
from attncli.studies.bench.measure import (
    FEWEST_ROUNDS,
    LOG_LEVEL,
    MOST_ROUNDS,
    draw_inputs,
    input_copies,
    peak_memory,
    time_ratio,
)
from attncli.studies.bench.plan import Case, bench_plan
from attncli.studies.bench.study import TimedTrial, time_all
from tests.studies.bench.small import CPU, options_of

MIB = 2**20


def test_the_same_numbers_whatever_else_is_measured() -> None:
    a, b, c = (draw_inputs(options_of(seed=seed), Case(6, 5, 4, 2, 3), CPU) for seed in (0, 0, 1))
    assert [each.shape for each in a] == [(6, 6, 4), (6, 5, 4), (6, 5, 4)]
    torch.testing.assert_close(a, b, rtol=0, atol=0)
    assert not torch.equal(a[0], c[0])
    assert not torch.equal(a[1], a[2])


def test_copies_do_not_fit_into_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, size = draw_inputs(options_of(), Case(6, 6, 4), CPU), 3 * 6 * 4 * 4
    for most, count in ((1000, 1000 // size), (1, 1)):
        monkeypatch.setattr(measure, "COPIES_BYTES", most)
        copies = input_copies(inputs)
        assert len({queries.data_ptr() for queries, *_ in copies}) == len(copies) == count
        torch.testing.assert_close(copies[-1], inputs, rtol=0, atol=0)


def megabytes(gone: int, kept: int = 0) -> torch.Tensor:
    """Allocate and free `gone` MiB, then allocate and return `kept` MiB."""
    torch.empty(gone * MIB, dtype=torch.uint8)
    return torch.empty(kept * MIB, dtype=torch.uint8)


LARGE, A, B = torch.ones(7 * MIB), torch.ones(256, 128), torch.ones(128, 512)


@pytest.mark.parametrize(
    ("call", "peak"),
    [
        (lambda: megabytes(0, 3), 3 * MIB),
        (lambda: megabytes(5, 3), 5 * MIB),
        (lambda: [megabytes(0, 1) for _ in range(4)], 4 * MIB),
        (lambda: LARGE[:4].clone(), 16),  # earlier tensors do not count
        (lambda: (A @ B).tanh(), 2 * 256 * 512 * 4),
    ],
)
def test_planted_allocations(call: Callable[[], Any], peak: int, capfd: pytest.CaptureFixture[str]) -> None:
    before = os.environ.get(LOG_LEVEL)
    assert peak_memory(call, CPU) == peak
    assert capfd.readouterr() == ("", ""), "nobody is told that the profiler starts"
    assert os.environ.get(LOG_LEVEL) == before


class Clock:
    """A clock that only fake work moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.order = 0.0, list[int]()
        monkeypatch.setattr(measure, "clock", lambda device: self.now)

    def work(self, seconds: float, index: int = 0) -> Call:
        """Return a call that takes this time."""

        def call() -> tuple[torch.Tensor, ...]:
            self.order.append(index)
            self.now += seconds
            return ()

        return call


def timed(*calls: Call) -> list[list[float]]:
    """Return the seconds of these calls in each round."""
    (contender, *_), case = bench_plan(options_of()), Case(1, 1, 1)
    trials = [TimedTrial(contender, case, {}, call) for call in calls]
    time_all(trials, CPU)
    return [trial.seconds for trial in trials]


def test_planted_times_are_found_and_slow_ones_have_fewer_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    fast, slower, slow = timed(clock.work(1e-3), clock.work(7e-3), clock.work(3.0))
    assert fast == pytest.approx([1e-3] * MOST_ROUNDS)
    assert slower == pytest.approx([7e-3] * MOST_ROUNDS)
    assert slow == pytest.approx([3.0] * FEWEST_ROUNDS)
    assert [time_ratio(slower, fast)[0], time_ratio(slow, fast)[0]] == pytest.approx([7.0, 3000.0])


def test_they_take_turns_and_each_begins_a_round_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    timed(*(clock.work(10.0, index=index) for index in range(3)))
    once = [index for index, _ in itertools.groupby(clock.order)]
    assert once == [0, 1, 2, *(1, 2, 0), *(2, 0, 1), *(0, 1, 2), *(1, 2, 0)]


T2 = 0.95 * math.sqrt(2 / 0.0975)  # 97.5 % quantile of Student's t for two degrees of freedom


def test_by_hand() -> None:
    """The logarithms 0, ln 2 and ln 4 have mean and standard deviation ln 2."""
    ratio, (low, high) = time_ratio([1.0, 10.0, 4.0], [1.0, 5.0, 1.0])  # a slow moment of the machine changes nothing
    assert ratio == pytest.approx(2.0)
    assert (low, high) == pytest.approx((2 ** (1 - T2 / math.sqrt(3)), 2 ** (1 + T2 / math.sqrt(3))))
