"""How a study tells that it gets on, without knowing how that is shown."""

import threading
from collections.abc import Callable
from typing import Protocol


class Progress(Protocol):
    """Receives a message for notes, and the steps of the work."""

    def step(self, done: int, total: int, what: str) -> None:
        """`done` of `total` steps are finished; `what` is under way."""

    def note(self, message: str) -> None:
        """Something that the user should know while or after the work goes on."""

    def finished(self) -> None:
        """The work is done, or the user has ended it: what there is now must not be lost any more."""


class Silent:
    """Tells nobody, for Python and tests."""

    def step(self, done: int, total: int, what: str) -> None:
        """Ignored."""

    def note(self, message: str) -> None:
        """Ignored."""

    def finished(self) -> None:
        """Ignored."""


class Counter:
    """Tells of equal steps, one by one, which several threads may make."""

    def __init__(self, total: int, progress: Progress) -> None:
        self._done, self._total, self._progress = 0, total, progress
        self._lock = threading.Lock()

    def of(self, what: str) -> Callable[[], None]:
        """What to call after each step of the part of the work that has this name."""

        def one_more() -> None:
            with self._lock:
                self._done += 1
                self._progress.step(self._done, self._total, what)

        return one_more
