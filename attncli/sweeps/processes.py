"""Compute the points of a sweep in processes of this machine; a process that dies loses only its own point."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import connection
from typing import Any

from pebble import ProcessExpired, ProcessPool

from attncli.common.stopping import signals
from attncli.common.study import Record
from attncli.sweeps.starting import process_context, without_script
from attncli.sweeps.work import Job, in_one_line, row_of, run_point, tried_twice

PATIENCE = 0.5  # seconds between checks for a signal to stop, and for processes that exited with code 0


@dataclass(frozen=True)
class Begun:
    """A point that a process has begun to compute, and the time when it began."""

    job: Job
    worker: "Worker"
    since: float


class Worker:
    """One process in its own pool: killing a process of a larger pool could block the others, which share locks."""

    def __init__(self, context: Any) -> None:
        self._starts = context.Value("i", 0)
        self._pool = ProcessPool(1, initializer=_begin, initargs=(self._starts,), context=context)

    def submit(self, job: Job, timeout: float | None) -> "Future[Record]":
        """Start to compute a point and return the future of its row; after `timeout` seconds the process is ended."""
        try:
            future: Future[Record] = self._pool.schedule(run_point, (job,), timeout=timeout)
        except RuntimeError as error:  # it died while it had nothing to do
            future = Future()
            future.set_exception(BrokenProcessPool(str(error)))
        return future

    @property
    def was_replaced(self) -> bool:
        """Whether the process ended and the pool started another, which it does silently after exit code 0."""
        return bool(self._starts.value > 1)

    def stop(self) -> None:
        """Ask the process to end, without waiting."""
        self._pool.stop()  # type: ignore[no-untyped-call]

    def join(self) -> None:
        """Wait until the process has ended."""
        self._pool.join()


def on_processes(
    jobs: Iterable[Job], processes: int, timeout: float | None = None, fail_fast: bool = False
) -> Generator[Record]:
    """Compute points on several processes, at most `timeout` seconds each, and yield their rows as they finish.

    If a process dies, its point is tried once more, alone: at the end, or at once if `fail_fast`. If that process dies,
    too, the row has the status `died`. Closing the iterator ends all processes.

    Raises:
        Interrupted: the user has stopped the sweep.
    """
    with without_script():
        yield from tried_twice(partial(_tried_once, processes=processes, timeout=timeout), jobs, fail_fast)


def _tried_once(jobs: Iterable[Job], processes: int, timeout: float | None) -> Generator[Record]:
    context, waiting = process_context(), deque(jobs)
    idle, begun = list[Worker](), dict[Future[Record], Begun]()
    try:
        while waiting or begun:
            while waiting and len(begun) < processes:
                worker, job = idle.pop() if idle else Worker(context), waiting.popleft()
                begun[worker.submit(job, timeout)] = Begun(job, worker, time.monotonic())
            done, _ = wait(begun, PATIENCE, FIRST_COMPLETED)
            signals.check()
            gone = {future for future, each in begun.items() if each.worker.was_replaced}
            for future in done | gone:
                each = begun.pop(future)
                row = _row(future, each, timeout)
                if future in gone or future.exception() is not None:
                    end([each.worker])
                else:
                    idle.append(each.worker)
                yield row
    finally:
        end([*idle, *(each.worker for each in begun.values())])


def end(workers: Iterable[Worker]) -> None:
    """End processes at once."""
    workers = list(workers)
    for worker in workers:
        worker.stop()
    for worker in workers:
        worker.join()


def _row(future: "Future[Record]", begun: Begun, timeout: float | None) -> Record:
    seconds = time.monotonic() - begun.since
    error = future.exception() if future.done() else BrokenProcessPool()
    if error is None:
        return future.result()
    if isinstance(error, ProcessExpired):
        return row_of(begun.job, "died", f"its process ended with {_reason(error.exitcode)}", seconds)
    if isinstance(error, BrokenProcessPool):
        return row_of(begun.job, "died", "its process ended without a word", seconds)
    if isinstance(error, TimeoutError):
        return row_of(begun.job, "failed", f"took longer than {timeout:g} s, the timeout", seconds)
    return row_of(begun.job, "failed", in_one_line(error), seconds)


def _reason(exit_code: int) -> str:
    """Return in words why a process died: its exit code, or the signal (Linux sends SIGKILL when memory runs out)."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    with suppress(ValueError):
        name = signal.Signals(-exit_code).name
        return f"{name}, as when memory runs out" if name == "SIGKILL" else name
    return f"signal {-exit_code}"


def _begin(starts: Any) -> None:
    """Set up a new process: count it in `starts`, let it end with its parent, and send its output to stderr."""
    starts.value += 1
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # it ends at once, also in the middle of a long operation of torch
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    with suppress(OSError):  # there is no stderr
        os.dup2(2, 1)  # scorers of the user's own may print, and stdout is for results
    sys.stdout = sys.stderr


def _end_with(parent: int) -> None:
    """Wait until the process with the sentinel `parent` has ended, perhaps by SIGKILL, and end this process."""
    connection.wait([parent])
    os._exit(1)
