"""Progress of a study, independent of its display."""

import threading

from attncli.common.stopping import check_stop


class Progress:
    """Receives notes and the steps of the work, and shows none of them: subclasses do."""

    def step(self, done: int, total: int, what: str) -> None:
        """Report that `done` of `total` steps are finished and `what` is under way, about every second.

        Raises:
            Interrupted: the user has stopped the work.
        """
        check_stop()

    def note(self, message: str) -> None:
        """Something that the user should know while or after the work goes on."""


class Counter:
    """Reports equal steps one by one, which several threads may make."""

    def __init__(self, total: int, progress: Progress) -> None:
        self._done, self._total, self._progress = 0, total, progress
        self._lock = threading.Lock()

    def step(self, what: str) -> None:
        """One more step is done, of the part of the work that has this name."""
        with self._lock:
            self._done += 1
            self._progress.step(self._done, self._total, what)
