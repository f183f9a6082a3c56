"""Print tables on stdout, and progress, notes and warnings on stderr."""

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.segment import Segment

from attncli.cli.streams import discard, until_gone
from attncli.core.numbers import rough_duration
from attncli.errors import printable
from attncli.runtime import Progress, signals
from attncli.show.terminal.console import SafeConsole

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

TRAILING = re.compile(" +$", re.M)
PATIENCE = 10.0  # seconds between lines of progress if stderr is no terminal


class Terminal(SafeConsole):
    """A console whose output is discarded after its reader, such as `head`, or its terminal is gone.

    In a pipe or a file no line ends in the spaces with which rich fills up lines.
    """

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        text = super()._render_buffer(buffer)
        return text if self.is_terminal else TRAILING.sub("", text)

    def on_broken_pipe(self) -> None:
        """Discard the rest of the output: its reader is gone."""
        discard(self.file)

    def _check_buffer(self) -> None:
        with until_gone(self.file):
            super()._check_buffer()


class ProgressOnStderr(Progress):
    """Progress shown on stderr: a bar on a terminal, otherwise a line from time to time.

    Steps are shown only if `steps`, notes only if not `quiet`, and warnings always. `name` begins each line.
    """

    def __init__(self, name: str, quiet: bool, steps: bool, bar: "Bar | None" = None) -> None:
        self._name, self._quiet, self._steps, self._bar = name, quiet, steps, bar
        self._console = bar.console if bar else Terminal(stderr=True)
        self._last_line = self._began = time.monotonic()
        self._total = self._first = 0  # of this series of steps, and the first that was seen

    def step(self, done: int, total: int, what: str) -> None:
        """Show `done` of `total` steps, with the text `what`; raise Interrupted if the user has stopped the run."""
        super().step(done, total, what)
        text, now = printable(f"{self._name}: {what}"), time.monotonic()
        if total != self._total:
            self._total, self._first, self._began = total, done, now
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, total=total, description=escape(text))
        elif self._steps and now - self._last_line > PATIENCE:
            self._last_line, steps = now, done - self._first
            left = f", {rough_duration((now - self._began) / steps * (total - done))} left" if steps > 0 else ""
            self._console.print(f"{text} ({done} of {total} done{left})", markup=False, highlight=False)

    def note(self, message: str) -> None:
        """Print a note, or a warning, which begins with `warning`; print only warnings if --quiet is given."""
        if not self._quiet or message.startswith("warning"):
            self._console.print(printable(f"{self._name}: {message}"), markup=False, highlight=False, soft_wrap=True)


@contextmanager
def running(name: str, quiet: bool = False, json: bool = False) -> Iterator[ProgressOnStderr]:
    """Yield a Progress for the experiment `name`; its bar, if any, is removed at the end of the `with` block.

    If `json`, only notes and warnings are shown; if `quiet`, only warnings.
    """
    console, steps = Terminal(stderr=True), not (quiet or json)
    with signals.stepping():
        if not (steps and console.is_terminal):
            yield ProgressOnStderr(name, quiet, steps)
            return
        # Only a terminal shows a bar.
        from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        with Bar(*columns, console=console, transient=True) as bar:
            bar.add_task(escape(name), total=None)
            yield ProgressOnStderr(name, quiet, steps, bar)
