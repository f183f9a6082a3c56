"""Parts of the work on several threads: jobs that threads share, and results in order, few at a time."""

import threading
import time
from collections.abc import Iterator

import pytest
import torch

from attncli.core.threads import TOGETHER, in_order, share
from attncli.runtime import Interrupted, signals


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_their_jobs_and_few_are_held(threads: int) -> None:
    begun: list[int] = []

    def work(job: int) -> int:
        begun.append(job)
        time.sleep(job * 7 % 3 / 2000)
        return job * job

    for done, result in enumerate(in_order(work, range(400), threads)):
        assert result == done * done
        assert len(begun) <= done + TOGETHER * threads
    assert sorted(begun) == list(range(400))


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_each_job_is_taken_once_by_one_of_the_threads(threads: int, mode: type[torch.no_grad]) -> None:
    taken, starting = list[tuple[int, bool, bool]](), threading.Barrier(threads, timeout=60)

    def work(jobs: Iterator[int]) -> None:
        starting.wait()
        for job in jobs:
            taken.append((job, torch.is_grad_enabled(), torch.is_inference_mode_enabled()))

    with mode():
        expected = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        share(work, iter(range(500)), threads)
    assert sorted(taken) == [(job, *expected) for job in range(500)]


@pytest.mark.parametrize("threads", [1, 3])
def test_the_earliest_error_is_raised_and_ends_all_threads(threads: int) -> None:
    done: list[int] = []

    def work(jobs: Iterator[int]) -> None:
        for job in jobs:
            if job == 7:
                time.sleep(0.05)  # the error in a later job comes before
            done.append(1 // (job - 7) if job in (7, 8) else job)
            if job == 8:
                raise KeyError(job)

    with pytest.raises(ZeroDivisionError):
        share(work, range(10**6), threads)
    assert len(done) < 10**6


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interruption_ends_all_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []

    def interrupt() -> None:
        if len(done) > 50:
            raise Interrupted

    monkeypatch.setattr(signals, "check", interrupt)
    with pytest.raises(Interrupted):
        share(lambda jobs: done.extend(jobs), range(10**7), threads)
    assert 50 < len(done) < 10**7
