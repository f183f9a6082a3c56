"""Seconds per call of several implementations that take turns, so that noise meets all of them; and their ratios."""

import math
import statistics
from collections.abc import Callable, Collection, Sequence
from timeit import default_timer
from typing import Any

import torch
from torch.utils.benchmark import Timer
from torch.utils.benchmark.utils.timer import timer as synchronised

BLOCK = 0.01  # seconds that an implementation is called for in each round, at least
BUDGET = 0.5  # seconds for all rounds of one implementation at one size, where the fewest rounds do not need more
FEWEST, MOST = 5, 11  # rounds
HOPELESS, TRIES = 2.0, 3  # seconds of a call from which there are fewer rounds, and how many
# 97.5 % of Student's t lies below these, for 1, 2, ... degrees of freedom.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
Clock = Callable[[], float]
Call = Callable[[], Any]


def rounds_of(calls: Sequence[Call], baselines: Collection[int], clock: Clock) -> list[list[float]]:
    """Seconds per call in each round; in the first rounds all take part, slow ones leave early, `baselines` never.

    In a round each is called for a block of time, in an order that begins with another every round. How many rounds
    there are depends on how long one call takes.
    """
    timers = [_timer(call, clock) for call in calls]
    wanted = [_rounds(_once(timer)) for timer in timers]
    wanted = [max(wanted) if index in baselines else rounds for index, rounds in enumerate(wanted)]
    seconds: list[list[float]] = [[] for _ in calls]
    for turn in range(max(wanted)):
        for place in range(len(calls)):
            index = (place + turn) % len(calls)
            if turn < wanted[index]:
                seconds[index].append(timers[index].blocked_autorange(min_run_time=BLOCK).median)
    return seconds


def clock_for(device: torch.device) -> Clock:
    """A clock that waits until the device has done what it was told."""
    if device.type == "cuda":
        return synchronised
    if device.type == "mps":
        return _on_mps
    return default_timer


def _on_mps() -> float:
    torch.mps.synchronize()
    return default_timer()


def _timer(call: Call, clock: Clock) -> Timer:
    return Timer("call()", globals={"call": call}, timer=clock, num_threads=torch.get_num_threads())


def _once(timer: Timer) -> float:
    """Seconds of one call; what seems slow, but not hopelessly, is tried again, for it may have been the machine."""
    once = timer.timeit(1).median
    if _rounds(once) < MOST and once < BUDGET:
        once = min(once, *(timer.timeit(1).median for _ in range(2)))
    return once


def _rounds(once: float) -> int:
    """As many as the budget allows: a round calls at least twice, first to learn how many calls a block needs."""
    fewest = FEWEST if once < HOPELESS else TRIES
    return int(min(max(BUDGET // max(2 * once, 2 * BLOCK), fewest), MOST))


def interquartile_range(seconds: Sequence[float]) -> float:
    """Between the quartiles, which lie between two rounds where they must."""
    low, _, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return high - low


def ratio_of(seconds: Sequence[float], baseline: Sequence[float]) -> tuple[float, list[float]]:
    """The ratio of times round by round, as their geometric mean, and its 95 % interval.

    Both times of a round suffer from the same noise, which the ratio is free of. The interval is Student's t in
    logarithms: exp(mean +- t s / sqrt(rounds)). Rounds that only one of the two has are left out.
    """
    logarithms = [math.log(one / other) for one, other in zip(seconds, baseline, strict=False)]
    mean, count = statistics.fmean(logarithms), len(logarithms)
    half = STUDENT[count - 2] * statistics.stdev(logarithms) / math.sqrt(count)
    return math.exp(mean), [math.exp(mean - half), math.exp(mean + half)]
