"""Where processes come from: they are copies of one that has torch loaded, where the system can do that."""

import multiprocessing
import signal
from typing import Any

PRELOADED = ["torch", "attncli.sweeps.work", "attncli.studies.attention.study", "attncli.sweeps.ending"]


def process_context() -> Any:
    """What begins processes."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def load_ahead() -> None:
    """Begin to load what processes need, beside whatever this process does next."""
    if process_context().get_start_method() == "forkserver":
        from multiprocessing import forkserver, resource_tracker

        resource_tracker.ensure_running()  # which lets SIGINT through again
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # it inherits this: Ctrl-C is not for it
        try:
            forkserver.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
