"""Work in small parts on all cores, with the same result on any number of them."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

import torch

from attncli.stopping import signals

Job = TypeVar("Job")
Part = TypeVar("Part")
AHEAD = 8  # parts begun per thread: none idles while this thread waits for a busy core, and memory stays bounded


@contextmanager
def on_threads(wanted: int | None) -> Iterator[int]:
    """Set torch's number of threads to `wanted` inside the `with`, unless that is None; yield the previous number.

    The rounding of a sum depends on the number of threads: only one thread gives the same sum on every machine.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(wanted or threads)
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)


def in_order(
    work: Callable[[Job], Part], jobs: Iterable[Job], threads: int, pool: ThreadPoolExecutor | None = None
) -> Iterator[Part]:
    """Compute `work(job)` on the threads of the pool, and yield the results in the order of the jobs.

    torch must be set to one thread. Without a pool, `threads` threads are started and ended.
    """
    if pool is None:
        with ThreadPoolExecutor(threads) as started:
            yield from in_order(work, jobs, threads, started)
        return
    waiting = iter(jobs)
    begun: deque[Future[Part]] = deque(pool.submit(work, job) for job in islice(waiting, AHEAD * threads))
    try:
        while begun:
            part = begun.popleft().result()
            signals.check()
            begun.extend(pool.submit(work, job) for job in islice(waiting, 1))
            yield part
    finally:
        for future in begun:
            future.cancel()
