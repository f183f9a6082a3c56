"""Start processes as forks of a server that has loaded torch, if the system can fork."""

import multiprocessing
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PRELOADED = ["torch", "attncli.sweeps.work", "attncli.studies.attention.study", "attncli.sweeps.ending"]


def process_context() -> Any:
    """Return multiprocessing's context for worker processes: a fork server that loads torch, or spawn."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def load_ahead() -> None:
    """Start the fork server, which loads the libraries of the worker processes, without waiting for it."""
    if process_context().get_start_method() == "forkserver":
        from multiprocessing import forkserver, resource_tracker

        sys.warnoptions.append("ignore:resource_tracker")  # of semaphores that it removes after a second Ctrl-C
        # Workers inherit the mask, since their parent ends them. Ignoring signals here instead would lose a Ctrl-C.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
        try:
            resource_tracker.ensure_running()  # it would unblock SIGINT
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            forkserver.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def without_script() -> Iterator[None]:
    """Keep new processes from importing the caller's script, which would start the sweep again in each of them."""
    main = sys.modules["__main__"]
    before: dict[str, Any] = {name: vars(main)[name] for name in ("__file__", "__spec__") if name in vars(main)}
    vars(main).update(dict.fromkeys(before))
    try:
        yield
    finally:
        vars(main).update(before)
