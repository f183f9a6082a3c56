"""Work in small parts on all cores, with the same result on any number of them."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from threading import Lock
from typing import TypeVar

import torch

from attncli.runtime import signals

Job = TypeVar("Job")
Part = TypeVar("Part")
TOGETHER = 32


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
    work: Callable[[Job], Part], jobs: Iterable[Job], threads: int, together: int = TOGETHER
) -> Iterator[Part]:
    """Compute `work(job)` on several threads, as `share` does, and yield the results in the order of the jobs.

    At most `together` results of each thread are held.
    """
    left = iter(jobs)
    while batch := list(islice(left, together * threads)):
        parts = dict[int, Part]()

        def fill(taken: Iterator[tuple[int, Job]], parts: dict[int, Part] = parts) -> None:
            parts.update((index, work(job)) for index, job in taken)

        share(fill, enumerate(batch), threads)
        yield from (parts[index] for index in range(len(batch)))


def share(
    work: Callable[[Iterator[Job]], object],
    jobs: Iterable[Job],
    threads: int,
    pool: ThreadPoolExecutor | None = None,
) -> None:
    """Call `work` on this thread and on `threads - 1` of the pool; each takes the next job when it is ready.

    torch must be set to one thread. It computes gradients on all threads if it does on this one. Of several errors, the
    one in the earliest job is raised. Without a pool, the threads are started and ended.
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
