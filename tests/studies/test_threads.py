"""Parts of the work on several threads: in order, few at a time, and torch on one thread meanwhile."""

import random
import time

import pytest
import torch

from attncli.studies.threads import in_order, on_threads


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_parts_come_in_the_order_of_their_jobs(threads: int) -> None:
    randomness = random.Random(4)
    delays = [randomness.random() / 200 for _ in range(60)]

    def work(job: int) -> int:
        time.sleep(delays[job])
        return job * job

    assert list(in_order(work, range(60), threads)) == [job * job for job in range(60)]


def test_few_parts_are_begun_ahead() -> None:
    begun: list[int] = []
    for done, _ in enumerate(in_order(begun.append, range(100), 2), start=1):
        assert len(begun) <= done + 4
    assert sorted(begun) == list(range(100))


def test_an_error_in_a_part_is_raised_in_its_turn() -> None:
    parts = in_order(lambda job: 1 / (7 - job), range(100), 3)
    assert [next(parts) for _ in range(7)] == [1 / (7 - job) for job in range(7)]
    with pytest.raises(ZeroDivisionError):
        next(parts)


def test_torch_has_one_thread_inside_and_its_own_again_after_an_error() -> None:
    before = torch.get_num_threads()

    def fails() -> None:
        with on_threads(1) as threads:
            assert (threads, torch.get_num_threads()) == (3, 1)
            raise KeyError

    try:
        torch.set_num_threads(3)
        with pytest.raises(KeyError):
            fails()
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
