"""The console that tables are printed on, and progress, notes and warnings on stderr, so that stdout stays clean."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from attncli.commands.streams import discard

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE = 1.0  # seconds before progress is shown


class Terminal(Console):
    """Goes on in silence where a reader such as `head` has had enough: files and the exit code are still wanted."""

    def on_broken_pipe(self) -> None:
        """Write the rest to nowhere."""
        discard(self.file)


class Shown:
    """Shows the steps of a study: a bar in a terminal, in a pipe now and then a line."""

    def __init__(self, name: str, quiet: bool = False, finished: Callable[[], None] = lambda: None) -> None:
        """`finished` is what to call when the work is done."""
        self._console = Terminal(stderr=True)
        self._name, self._quiet, self.finished = name, quiet, finished
        self._bar: Progress | None = None
        self._steps = (0, 0, "")
        self._last_line = time.monotonic()
        self._lock = threading.Lock()

    def step(self, done: int, total: int, what: str) -> None:
        """Show how far the work is, once it has taken a while."""
        with self._lock:
            self._steps = (done, total, what)
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], completed=done, total=total, description=self._text())
            elif not self._quiet and not self._console.is_terminal and time.monotonic() - self._last_line > PATIENCE:
                self._last_line = time.monotonic()
                self._console.print(f"{self._text()} ({done} of {total} done)", markup=False, highlight=False)

    def note(self, message: str) -> None:
        """Print a note or a warning; --quiet keeps the warnings."""
        if not self._quiet or message.startswith("warning"):
            self._console.print(f"{self._name}: {message}", markup=False, highlight=False, soft_wrap=True)

    def _text(self) -> str:
        return escape(f"{self._name}: {self._steps[2]}")

    def _start_bar(self) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        with self._lock:
            steps = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
            self._bar = Progress(
                *steps, TimeElapsedColumn(), TimeRemainingColumn(), console=self._console, transient=True
            )
            self._bar.add_task(self._text(), completed=self._steps[0], total=self._steps[1] or None)
            self._bar.start()

    @contextmanager
    def running(self) -> Iterator["Shown"]:
        """Show a bar while the body runs, if that takes a while and a person is looking."""
        timer = threading.Timer(PATIENCE, self._start_bar)
        timer.daemon = True
        if self._console.is_terminal and not self._quiet:
            timer.start()
        try:
            yield self
        finally:
            timer.cancel()
            with self._lock:
                if self._bar is not None:
                    self._bar.stop()
