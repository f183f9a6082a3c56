"""Work in small parts on all cores, with the same result on any number of them."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from threading import Lock
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
        with ThreadPoolExecutor(threads, initializer=torch.get_num_threads) as started:  # as in `share`
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


def share(
    work: Callable[[Iterator[Job]], object],
    jobs: Iterable[Job],
    threads: int,
    pool: ThreadPoolExecutor | None = None,
) -> None:
    """Call `work` on this thread and on `threads - 1` of the pool; each takes the next job when it is ready.

    To hand over results takes a fraction of a millisecond, so this suits shorter jobs than `in_order`. torch must be
    set to one thread. It computes gradients on all threads if it does on this one. Of several errors, the one in the
    earliest job is raised. Without a pool, the threads are started and ended.
    """
    if pool is None and threads > 1:
        with ThreadPoolExecutor(threads - 1) as started:
            share(work, jobs, threads, started)
        return
    left, lock, errors = enumerate(jobs), Lock(), dict[int, BaseException]()
    is_inference, with_gradients = torch.is_inference_mode_enabled(), torch.is_grad_enabled()

    def run(check: Callable[[], None]) -> None:
        nonlocal left
        taken = -1

        def take() -> Iterator[Job]:
            nonlocal taken
            while True:
                with lock:
                    try:
                        taken, job = next(left)
                    except StopIteration:
                        return
                check()
                yield job

        try:
            torch.get_num_threads()  # a new thread takes over torch's number of threads only when it asks for it
            with torch.inference_mode(is_inference), torch.set_grad_enabled(with_gradients):
                work(take())
        except BaseException as error:  # raised below
            left = enumerate(())
            errors[taken] = error

    others = [pool.submit(run, lambda: None) for _ in range(threads - 1)] if pool else []
    run(signals.check)
    wait(others)
    if errors:
        raise errors[min(errors)]
