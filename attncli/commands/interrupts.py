"""Ctrl-C ends the work, but not the writing of what the work has given."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class Interrupts:
    """Whether a Ctrl-C is to `wait` for what is done now; how often it was pressed, and whether one had to wait."""

    wait: bool = False
    presses: int = 0
    came: bool = False

    def hold(self) -> None:
        """From now on there is something to lose: every Ctrl-C waits."""
        self.wait = True

    def pressed(self) -> bool:
        """Count a Ctrl-C; whether it has to wait.

        So has the second in any case: the first has ended the work, which winds up. A third is meant, until there is
        something to lose.
        """
        self.presses += 1
        waits = self.wait or self.presses == 2
        self.came = self.came or waits
        return waits


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Inside, a Ctrl-C that has to wait is kept in mind; all others do what they do elsewhere.

    Only in the main thread, since signals reach no other; and not where the caller has Ctrl-C ignored.
    """
    kept, before = Interrupts(), signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield kept
        return

    def handle(number: int, frame: Any) -> None:
        if not kept.pressed():
            before(number, frame)

    signal.signal(signal.SIGINT, handle)
    try:
        yield kept
    finally:
        signal.signal(signal.SIGINT, before)
