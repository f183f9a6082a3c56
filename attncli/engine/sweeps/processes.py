"""Compute the points of a sweep in processes of this machine, where a death loses one point alone."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import connection
from pathlib import Path
from typing import Any

from pebble import ProcessExpired, ProcessPool

from attncli.engine.sweeps.work import Job, in_one_line, journal_row, run_point, tried_twice
from attncli.results import Row
from attncli.runtime import signals

PATIENCE = 0.5  # seconds between checks for a signal to stop
PRELOADED = ["attncli.engine.sweeps.work", "attncli.studies.attention.study"]
BROKEN = "its process ended before its work"


def on_processes(
    jobs: Iterable[Job], processes: int, timeout: float | None = None, fail_fast: bool = False
) -> Generator[Row]:
    """Compute points on several processes, at most `timeout` seconds each, and yield their rows as they finish.

    If a process dies, its point is tried once more, alone: at the end, or at once if `fail_fast`. If that process dies,
    too, the row has the status `died`. Closing the iterator ends all processes.

    Raises:
        Interrupted: the user has stopped the sweep.
    """
    yield from tried_twice(partial(_tried_once, processes=processes, timeout=timeout), jobs, fail_fast)


def is_importing_script() -> bool:
    """Whether this is a new process that still imports the script of its parent, and so cannot start processes."""
    return getattr(multiprocessing.current_process(), "_inheriting", False)  # as multiprocessing itself asks


def can_import_script() -> bool:
    """Whether a new process can import the script that runs here, as `multiprocessing` has each of them do.

    It cannot if the script is read from stdin, or calls `attncli.sweep` without `if __name__ == "__main__"`.
    """
    file = getattr(sys.modules["__main__"], "__file__", None)  # a notebook and `python -c` have none
    if file is not None and not Path(file).exists():
        return False
    process = _context().Process(target=signals.check)
    try:
        with _signals_blocked():
            process.start()
        while process.is_alive():
            process.join(PATIENCE)
            signals.check()
        return bool(process.exitcode == 0)
    finally:
        process.kill()
        process.join()


def _tried_once(jobs: Iterable[Job], processes: int, timeout: float | None) -> Generator[Row]:
    pool = ProcessPool(processes, initializer=_begin, context=_context())
    try:
        with _signals_blocked():
            begun: dict[Future[Row], Job] = {pool.schedule(run_point, (job,), timeout=timeout): job for job in jobs}
        while begun:
            done, _ = wait(begun, PATIENCE, FIRST_COMPLETED)
            signals.check()
            for future in done:
                yield _row(future, begun.pop(future), timeout)
    finally:
        pool.stop()  # type: ignore[no-untyped-call]
        pool.join()


def _context() -> Any:
    """Return multiprocessing's context: processes are forks of a server that has loaded torch, if there are forks."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Start processes without Ctrl-C and without the signal of a closed terminal: this process ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker  # not on Windows

    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
    try:
        resource_tracker.ensure_running()  # it would unblock SIGINT
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _row(future: "Future[Row]", job: Job, timeout: float | None) -> Row:
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, ProcessExpired):
        return journal_row(job, "died", f"its process ended with {_reason(error.exitcode)}", 0.0)
    if isinstance(error, BrokenProcessPool):
        return journal_row(job, "died", BROKEN, 0.0)
    if isinstance(error, TimeoutError):
        return journal_row(job, "failed", f"took longer than {timeout:g} s, the timeout", timeout or 0.0)
    return journal_row(job, "failed", in_one_line(error), 0.0)


def _reason(exit_code: int) -> str:
    """Return in words why a process died: its exit code, or the signal (Linux sends SIGKILL when memory runs out)."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    with suppress(ValueError):
        name = signal.Signals(-exit_code).name
        return f"{name}, as when memory runs out" if name == "SIGKILL" else name
    return f"signal {-exit_code}"


def _begin() -> None:
    """Set up a new process: let it end with its parent, and send its output to stderr."""
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
