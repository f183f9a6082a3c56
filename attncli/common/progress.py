"""Progress of a study, independent of its display."""

import threading

from attncli.common.stopping import signals


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
