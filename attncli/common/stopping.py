"""How Ctrl-C and SIGTERM stop a command: the signal sets a flag, and the next step of the work raises `Interrupted`.

Python's default, a KeyboardInterrupt at any line, is lost in code that catches every exception, such as the loading of
torch or a user's scorer. Outside of `stepping`, for example while libraries load, the signal ends the process at once;
so does a second signal, unless results are being written.
"""

import os
import signal
import threading
from collections.abc import Iterator, Sized
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self

MESSAGE = "interrupted; what was finished is kept, nothing else"
EXIT_CODES: dict[int, int] = {signal.SIGINT: 130, signal.SIGTERM: 143}
SHOW_CURSOR = b"\x1b[?25h\n"  # which a progress bar has hidden

_arrived: int | None = None  # the first signal
_is_stepping = _is_writing = False


class Interrupted(KeyboardInterrupt):
    """The user has stopped the work by Ctrl-C or SIGTERM."""


class Keeping:
    """Context manager that suppresses the interruption by the user if `finished`, the rows so far, is not empty.

    Studies use it to keep their finished rows, after `Interrupted` and after a KeyboardInterrupt in a notebook. If
    there are none, the exception propagates.
    `interrupted` says whether the work was stopped.
    """

    def __init__(self, finished: Sized) -> None:
        self._finished = finished
        self.interrupted = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        self.interrupted = isinstance(error, KeyboardInterrupt) and len(self._finished) > 0
        if self.interrupted:
            hold_signals()
        return self.interrupted


def has_arrived() -> bool:
    """Whether a signal to stop, SIGINT or SIGTERM, has arrived."""
    return _arrived is not None


def exit_code() -> int:
    """Return the exit code of a stopped command."""
    return EXIT_CODES[_arrived or signal.SIGINT]


def check_stop() -> None:
    """Raise Interrupted if a signal to stop has arrived and the work has no results yet."""
    if _arrived is not None and not _is_writing:
        raise Interrupted


def hold_signals() -> None:
    """Make signals to stop wait from now until `stepping` ends, so that the results can be written."""
    global _is_writing
    _is_writing = _is_stepping


@contextmanager
def handling_signals() -> Iterator[None]:
    """Handle SIGINT and SIGTERM inside the `with`, in the main thread; a signal that was ignored stays ignored."""
    global _arrived
    _arrived, before = None, dict[int, Any]()
    if threading.current_thread() is threading.main_thread():
        for number in EXIT_CODES:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):  # None: handled outside of Python
                before[number] = signal.signal(number, _handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _arrived = None


@contextmanager
def stepping() -> Iterator[None]:
    """Let the first signal wait for the next `check_stop` inside the `with`, which must call it about every second."""
    global _is_stepping, _is_writing
    _is_stepping = True
    try:
        yield
    finally:
        _is_stepping = _is_writing = False


@contextmanager
def writing_files() -> Iterator[None]:
    """Let signals wait for the end of the `with`, so that files are written completely."""
    global _is_writing
    before, _is_writing = _is_writing, True
    try:
        yield
    finally:
        _is_writing = before
    if _arrived is not None and not (_is_writing or _is_stepping):
        end_at_once()


def end_at_once() -> None:
    """End the process with a message and the signal's exit code, without any cleaning up."""
    with suppress(OSError):  # stderr is closed
        os.write(2, (SHOW_CURSOR if os.isatty(2) else b"") + f"{MESSAGE}\n".encode())
    os._exit(exit_code())


def _handle(number: int, frame: object) -> None:
    global _arrived
    is_first, _arrived = _arrived is None, _arrived or number
    if not _is_writing and not (is_first and _is_stepping):
        end_at_once()
