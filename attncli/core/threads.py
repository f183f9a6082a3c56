"""Work in small jobs on all cores, with the same result on any number of them."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from threading import Lock
from typing import TypeVar

import torch

from attncli.runtime import signals

Job = TypeVar("Job")
Output = TypeVar("Output")
TOGETHER = 32  # outputs of each thread that are held at most


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
    work: Callable[[Job], Output], jobs: Iterable[Job], threads: int, together: int = TOGETHER
) -> Iterator[Output]:
    """Compute `work(job)` on several threads, as `share` does, and yield the results in the order of the jobs.

    At most `together` results of each thread are held.
    """
    left = iter(jobs)
    while batch := list(islice(left, together * threads)):
        outputs = dict[int, Output]()

        def fill(taken: Iterator[tuple[int, Job]], outputs: dict[int, Output] = outputs) -> None:
            outputs.update((index, work(job)) for index, job in taken)

        share(fill, enumerate(batch), threads)
        yield from (outputs[index] for index in range(len(batch)))


def share(work: Callable[[Iterator[Job]], object], jobs: Iterable[Job], threads: int) -> None:
    """Call `work` on this thread and on `threads - 1` others; each takes the next job when it is ready.

    torch must be set to one thread. It computes gradients on all threads if it does on this one. Of several errors, the
    one in the earliest job is raised.
    """
    left, lock, errors = enumerate(jobs), Lock(), dict[int, BaseException]()
    is_inference, with_gradients = torch.is_inference_mode_enabled(), torch.is_grad_enabled()

    def run(check: Callable[[], None]) -> None:
        """Do the work of one thread, which calls `check` before each job; keep its error, which ends all threads."""
        nonlocal left
        taken = -1

        def take() -> Iterator[Job]:
            """Yield the next job that no thread has taken."""
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

    with ThreadPoolExecutor(max(threads - 1, 1)) as pool:  # starts a thread for each call, and waits for all
        for _ in range(threads - 1):
            pool.submit(run, lambda: None)
        run(signals.check)
    if errors:
        raise errors[min(errors)]
