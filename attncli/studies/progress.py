"""How a study tells that it gets on, without knowing how that is shown."""

from typing import Protocol


class Progress(Protocol):
    """Receives a message for notes, and the steps of the work."""

    def step(self, done: int, total: int, what: str) -> None:
        """`done` of `total` steps are finished; `what` is under way."""

    def note(self, message: str) -> None:
        """Something that the user should know while or after the work goes on."""


class Silent:
    """Tells nobody, for Python and tests."""

    def step(self, done: int, total: int, what: str) -> None:
        """Ignored."""

    def note(self, message: str) -> None:
        """Ignored."""
