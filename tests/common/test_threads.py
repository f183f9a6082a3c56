"""Parts of the work on several threads: results in order, and few parts at a time."""

import random
import time

import pytest

from attncli.threads import AHEAD, in_order


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
        assert len(begun) <= done + 2 * AHEAD
    assert sorted(begun) == list(range(100))


def test_an_error_in_a_part_is_raised_in_its_turn() -> None:
    parts = in_order(lambda job: 1 / (7 - job), range(100), 3)
    assert [next(parts) for _ in range(7)] == [1 / (7 - job) for job in range(7)]
    with pytest.raises(ZeroDivisionError):
        next(parts)
