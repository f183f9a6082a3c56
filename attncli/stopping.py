"""Progress of the work, and how Ctrl-C, SIGTERM and SIGHUP, the signal of a closed terminal, stop it.

Python's default, a KeyboardInterrupt at any line, is lost in code that catches every exception, such as the loading of
torch or a user's scorer. Here the effect of a signal depends on the work in progress: see `Mode`.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sized
from contextlib import ExitStack, contextmanager, suppress
from enum import Enum
from types import FrameType, TracebackType
from typing import Any, Self

MESSAGE = "interrupted; what was finished is kept, nothing else"
HANGUP: int | None = getattr(signal, "SIGHUP", None)  # Windows does not have it
NUMBERS: list[int] = [signal.SIGINT, signal.SIGTERM, *([] if HANGUP is None else [HANGUP])]
SHOW_CURSOR = b"\x1b[?25h\n"  # which a progress bar has hidden


class Interrupted(KeyboardInterrupt):
    """The user has stopped the work by Ctrl-C, SIGTERM or SIGHUP."""


class Mode(Enum):
    """The effect of a signal to stop."""

    PYTHON = "that of Python, a KeyboardInterrupt, since no command runs"
    END = "it ends the process at once"
    STEP = "`check` raises Interrupted at the next step of the work; a second signal ends the process at once"
    SKIP = "it raises Interrupted at the current line, since the rest of the block can be left out"
    WAIT = "it waits until the finished rows are written"


class Signals:
    """The signals to stop that have arrived in this process, and the effect of the next one."""

    def __init__(self) -> None:
        self.mode = Mode.PYTHON
        self.first: int | None = None
        self._count = 0
        self._obeyed = 0  # 1 after the first signal has stopped the work
        self._unfinished = list[ExitStack]()

    @property
    def is_urgent(self) -> bool:
        """Whether a second signal has arrived, so that everything is left out that can be."""
        return self._count > 1

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
        self._begin(Mode.END)
        self._on_hangup = on_hangup
        if threading.current_thread() is threading.main_thread():
            for number in NUMBERS:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):  # None: handled outside of Python
                    before[number] = signal.signal(number, self._handle)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self._begin(Mode.PYTHON)

    def _begin(self, mode: Mode) -> None:
        self.mode, self.first, self._count, self._obeyed = mode, None, 0, 0

    @contextmanager
    def stepping(self) -> Iterator[None]:
        """Set the mode STEP inside the `with`, whose work calls `check` about every second."""
        with self._in_mode(Mode.STEP):
            yield

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let signals wait for the end of the `with`, for example to move files to their place."""
        with self._in_mode(Mode.WAIT):
            yield
        if self.mode is Mode.END and self.first is not None:
            self.end()

    @contextmanager
    def _in_mode(self, mode: Mode) -> Iterator[None]:
        before = self.mode
        self.mode = before if before is Mode.PYTHON else mode
        try:
            yield
        finally:
            self.mode = before

    def wait(self) -> None:
        """Let signals wait from now until `stepping` ends, so that finished rows are written."""
        if self.mode is not Mode.PYTHON:
            self.mode = Mode.WAIT

    def check(self) -> None:
        """Raise Interrupted if a signal has arrived, unless it has stopped the work already or has to wait."""
        if self._count > self._obeyed and self.mode is not Mode.WAIT:
            raise Interrupted

    def obey(self) -> None:
        """Record that the first signal has stopped the work; from now on `check` raises only after a second one."""
        self._obeyed = min(self._count, 1)

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
        self.mode = Mode.WAIT
        for stack in reversed(self._unfinished):
            with suppress(Exception):
                stack.close()
        with suppress(OSError):  # stderr is closed
            os.write(2, (SHOW_CURSOR if os.isatty(2) else b"") + f"{MESSAGE}\n".encode())
        os._exit(self.exit_code)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == HANGUP:
            self._on_hangup()
            if self.first is not None:  # a terminal that closes sends several
                return
        self.first, self._count = self.first or number, self._count + 1
        if self.mode is Mode.END or (self.mode is Mode.STEP and self._count > 1):
            self.end()
        elif self.mode is Mode.SKIP and not _is_leaving(frame):
            self.mode = Mode.WAIT
            raise Interrupted


signals = Signals()


class keep_finished:  # noqa: N801 - in lower case, as contextlib.suppress
    """Context manager that suppresses the interruption by the user if `finished`, the rows so far, is not empty.

    Studies use it to keep their finished rows, after `Interrupted` and after a KeyboardInterrupt in a notebook. If
    there are none, the exception propagates. In a command, signals then wait until the rows are written, except inside
    a second `keep_finished`, for work that can be left out: a signal leaves it at once.
    `interrupted` says whether the work was stopped.
    """

    def __init__(self, finished: Sized) -> None:
        self._finished = finished
        self.interrupted = False

    def __enter__(self) -> Self:
        self._before = signals.mode
        if self._before is Mode.WAIT:
            signals.mode = Mode.SKIP
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        signals.mode = self._before
        has_rows = len(self._finished) > 0 or self._before is Mode.WAIT
        self.interrupted = isinstance(error, KeyboardInterrupt) and has_rows
        if self.interrupted:
            signals.obey()
        if has_rows and (error is None or self.interrupted):
            signals.wait()
        return self.interrupted


def _is_leaving(frame: FrameType | None) -> bool:
    """Whether a `with keep_finished(...)` block has just ended, so that no exception would be suppressed any more."""
    return frame is not None and frame.f_code is keep_finished.__exit__.__code__


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
