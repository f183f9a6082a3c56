"""Jobs that take long, side by side on several threads until all are done, or the user ends it."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TypeVar

Job = TypeVar("Job")
Done = TypeVar("Done")


class StoppedError(Exception):
    """Nobody wants the rest of a job."""


def work_off(
    work: Callable[[Job], Done], jobs: Sequence[Job], threads: int, stop: threading.Event
) -> tuple[dict[int, Done], bool]:
    """What became of the jobs, by their index, and whether the user ended the work before all were done.

    `work` is to raise StoppedError soon after `stop` is set.

    Raises:
        Exception: the first that a job raises; the others are stopped.
    """
    with ThreadPoolExecutor(threads) as pool:
        futures = list[Future[Done]]()
        try:
            with suppress(KeyboardInterrupt):
                for job in jobs:
                    futures.append(pool.submit(work, job))
                wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()  # by now all are done, or nobody wants the rest
            pool.shutdown(wait=True, cancel_futures=True)
    errors = [_error(future) for future in futures]
    for error in errors:
        if error is not None and not isinstance(error, StoppedError | KeyboardInterrupt):
            raise error
    done = {index: futures[index].result() for index, error in enumerate(errors) if error is None}
    return done, len(done) < len(jobs)


def _error(future: "Future[Done]") -> BaseException | None:
    return StoppedError() if future.cancelled() else future.exception()
