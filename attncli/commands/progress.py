"""The console that tables are printed on, and progress, notes and warnings on stderr, so that stdout stays clean."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from attncli.commands.interrupts import Interrupts
from attncli.commands.streams import discard
from attncli.common.progress import Progress
from attncli.errors import as_line

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

PATIENCE = 1.0  # seconds between lines of progress, where stderr is no terminal


class Terminal(Console):
    """Goes on in silence where a reader such as `head` has had enough: files and the exit code are still wanted."""

    def on_broken_pipe(self) -> None:
        discard(self.file)


class ProgressOnStderr(Progress):
    """Shows the steps of a study: on the bar of a terminal, in a pipe now and then in a line."""

    def __init__(self, name: str, quiet: bool, steps: bool, interrupts: Interrupts, bar: "Bar | None" = None) -> None:
        self._name, self._quiet, self._steps, self._interrupts, self._bar = name, quiet, steps, interrupts, bar
        self._console = bar.console if bar else Terminal(stderr=True)
        self._last_line = time.monotonic()

    def step(self, done: int, total: int, what: str) -> None:
        """Show the step, unless a signal has ended the work."""
        self._interrupts.check()
        text = as_line(f"{self._name}: {what}")
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, total=total, description=escape(text))
        elif self._steps and time.monotonic() - self._last_line > PATIENCE:
            self._last_line = time.monotonic()
            self._console.print(f"{text} ({done} of {total} done)", markup=False, highlight=False)

    def note(self, message: str) -> None:
        """Print a note or a warning; --quiet keeps the warnings."""
        if not self._quiet or message.startswith("warning"):
            self._console.print(as_line(f"{self._name}: {message}"), markup=False, highlight=False, soft_wrap=True)

    def finished(self) -> None:
        self._interrupts.wait()


@contextmanager
def running(
    name: str, quiet: bool = False, json: bool = False, interrupts: Interrupts | None = None
) -> Iterator[ProgressOnStderr]:
    """Progress of the work of the body: with a bar where a person is looking, of which nothing is left.

    With `json` notes and warnings alone, with `quiet` warnings alone.
    """
    console, steps = Terminal(stderr=True), not (quiet or json)
    interrupts = interrupts or Interrupts()  # which hears nothing
    if not (steps and console.is_terminal):
        yield ProgressOnStderr(name, quiet, steps, interrupts)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        bar.add_task(escape(name), total=None)
        yield ProgressOnStderr(name, quiet, steps, interrupts, bar)
