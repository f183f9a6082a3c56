"""Jobs side by side, how they end early, and how long the rest takes."""

import threading
import time
from collections.abc import Iterator

import pytest

from attncli.studies.progress import Silent
from attncli.studies.train import clock as train_clock
from attncli.studies.train.clock import REST, Clock
from attncli.studies.train.work import StoppedError, work_off


def test_everything_is_done() -> None:
    assert work_off(lambda job: job * 2, [1, 2, 3], 2, threading.Event()) == ({0: 2, 1: 4, 2: 6}, False)
    assert work_off(lambda job: job * 2, list[int](), 2, threading.Event()) == ({}, False)


@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_finished_when_the_user_ends_it_is_kept(threads: int) -> None:
    stop = threading.Event()

    def work(job: int) -> int:
        if job == 1:
            raise KeyboardInterrupt
        if job == 2:
            assert stop.wait(60)
            raise StoppedError
        return job

    assert work_off(work, [0, 1, 2, 2, 2, 2], threads, stop) == ({0: 0}, True)


def test_the_user_may_end_it_while_jobs_are_still_handed_out() -> None:
    stop = threading.Event()

    class Interrupted(list[int]):
        def __iter__(self) -> Iterator[int]:
            yield 0
            raise KeyboardInterrupt

    def work(job: int) -> int:
        assert stop.wait(60)
        raise StoppedError

    assert work_off(work, Interrupted([0, 1]), 1, stop) == ({}, True)


def test_a_mistake_ends_the_others_and_is_raised() -> None:
    stop = threading.Event()

    def work(job: int) -> int:
        if job == 0:
            raise ValueError("wrong")
        assert stop.wait(60)
        raise StoppedError

    with pytest.raises(ValueError, match="wrong"):
        work_off(work, [0, 1, 1, 1], 2, stop)


class Told(Silent):
    def __init__(self) -> None:
        self.steps: list[tuple[int, int, str]] = []

    def step(self, done: int, total: int, what: str) -> None:
        self.steps.append((done, total, what))


def test_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of the second configuration take four times as long; a second each of the first."""
    now, told = [0.0], Told()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(train_clock, "EVERY", 1)
    clock = Clock({"small": 0, "large": 3 * REST}, 2, told)
    for name, seconds in (("small", 1.0), ("large", 4.0), ("small", 1.0), ("large", 4.0)):
        now[0] += seconds
        clock.of(name)()
    assert told.steps == [
        (1, 4, "small"),
        (2, 4, "large, about 5 s left"),
        (3, 4, "small, about 4 s left"),
        (4, 4, "large, about 0 s left"),
    ]


def test_long_times_are_told_in_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    now, told = [0.0], Told()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    clock = Clock({"a": 7}, 1000, told)
    for _ in range(20):
        now[0] += 1.0
        clock.of("a")()
    assert told.steps == [(10, 1000, "a, about 16 min left"), (20, 1000, "a, about 16 min left")]
