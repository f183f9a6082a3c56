"""Progress of the work, and how Ctrl-C, SIGTERM and SIGHUP, the signal of a closed terminal, stop it.

Python's default, a KeyboardInterrupt at any line, is lost in code that catches every exception, such as the loading of
torch or a user's scorer. Here a signal is recorded during work, which stops at its next step and keeps its finished
rows. `Mode` says what else a signal does.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sized
from contextlib import ExitStack, contextmanager, suppress
from enum import Enum
from types import FrameType
from typing import Any

MESSAGE = "interrupted; what was finished is kept, nothing else"
HANGUP: int | None = getattr(signal, "SIGHUP", None)  # Windows does not have it
NUMBERS: list[int] = [signal.SIGINT, signal.SIGTERM, *([] if HANGUP is None else [HANGUP])]
SHOW_CURSOR = b"\x1b[?25h\n"  # which a progress bar has hidden


class Interrupted(KeyboardInterrupt):
    """The user has stopped the work by Ctrl-C, SIGTERM or SIGHUP."""


class Mode(Enum):
    """The work of the process, on which the effect of a signal to stop depends."""

    LOADING = "a signal ends the process: there is nothing to keep"
    WORKING = "the next `check` stops the work; a second signal ends the process"
    KEEPING = "the next `check` stops the work; no signal ends the process, since there are rows to write"
    WRITING = "signals wait"


class Signals:
    """The signals to stop that have arrived in this process. `is_pending` is set by one until the work has stopped."""

    def __init__(self) -> None:
        self.first: int | None = None
        self.is_pending = False
        self._mode = Mode.LOADING
        self._unfinished = list[ExitStack]()

    @property
    def exit_code(self) -> int:
        """The exit code of a stopped command."""
        return 128 + (self.first or signal.SIGINT)

    @contextmanager
    def handled(self, on_hangup: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Handle the signals inside the `with`, in the main thread; a signal that was ignored stays ignored.

        `on_hangup` is called when SIGHUP arrives.
        """
        before = dict[int, Any]()
        self.first, self.is_pending, self._on_hangup = None, False, on_hangup
        if threading.current_thread() is threading.main_thread():
            for number in NUMBERS:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):  # None: handled outside of Python
                    before[number] = signal.signal(number, self._handle)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self.first, self.is_pending = None, False

    @contextmanager
    def stepping(self) -> Iterator[None]:
        """Let signals wait for the next `check`, which the work in the `with` calls about every second."""
        self._mode = Mode.WORKING
        try:
            yield
        finally:
            self._mode = Mode.LOADING

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let signals wait for the end of the `with`, for example to move files to their place."""
        before, self._mode = self._mode, Mode.WRITING
        try:
            yield
        finally:
            self._mode = before
        if self.is_pending and before is Mode.LOADING:
            self.end()

    def keep(self, mode: Mode = Mode.KEEPING) -> None:
        """Set the mode KEEPING or WRITING until the end of `stepping`, if the work is inside of it."""
        if self._mode is not Mode.LOADING:
            self._mode = mode

    def check(self) -> None:
        """Raise Interrupted if a signal has arrived that has not stopped the work yet, unless signals have to wait."""
        if self.is_pending and self._mode is not Mode.WRITING:
            raise Interrupted

    @contextmanager
    def cleaning_up(self) -> Iterator[ExitStack]:
        """Yield a stack of callbacks, which run at the end of the `with` and before a signal ends the process."""
        with ExitStack() as stack:
            self._unfinished.append(stack)
            try:
                yield stack
            finally:
                self._unfinished.remove(stack)

    def end(self) -> None:
        """Remove unfinished files, and end the process with a message and the signal's exit code."""
        self._mode = Mode.WRITING
        for stack in reversed(self._unfinished):
            with suppress(Exception):
                stack.close()
        with suppress(OSError):  # stderr is closed
            os.write(2, (SHOW_CURSOR if os.isatty(2) else b"") + f"{MESSAGE}\n".encode())
        os._exit(self.exit_code)

    def _handle(self, number: int, _: FrameType | None) -> None:
        is_second = self.first is not None
        if number == HANGUP:
            self._on_hangup()
            if is_second:  # a terminal that closes sends several
                return
        self.first, self.is_pending = self.first or number, True
        if self._mode is Mode.LOADING or (self._mode is Mode.WORKING and is_second):
            self.end()


signals = Signals()


class Outcome:
    """Whether the work in a `keep_finished` was stopped."""

    interrupted = False


@contextmanager
def keep_finished(finished: Sized) -> Iterator[Outcome]:
    """Suppress the interruption by the user if `finished`, the rows so far, is not empty; otherwise it propagates.

    Studies use it to keep their finished rows, after `Interrupted` and after a KeyboardInterrupt in a notebook.
    """
    outcome = Outcome()
    try:
        yield outcome
    except KeyboardInterrupt:
        if not len(finished):
            raise
        outcome.interrupted, signals.is_pending = True, False
    if len(finished):
        signals.keep()


class Progress:
    """Receives notes and the steps of the work without showing them; subclasses show them."""

    def step(self, done: int, total: int, what: str) -> None:
        """Report about every second that `done` of `total` steps are finished, and the current part of the work.

        Raises:
            Interrupted: the user has stopped the work.
        """
        signals.check()

    def note(self, message: str) -> None:
        """Report something that the user should know, such as a warning."""


class Counter:
    """Counts finished steps, also of several threads, and reports each to a `Progress`."""

    def __init__(self, total: int, progress: Progress) -> None:
        self._done, self._total, self._progress = 0, total, progress
        self._lock = threading.Lock()

    def step(self, what: str) -> None:
        """Report that one more step is finished, and the current part of the work."""
        with self._lock:
            self._done += 1
            self._progress.step(self._done, self._total, what)
