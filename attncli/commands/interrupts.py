"""How Ctrl-C and SIGTERM end a command: in the same way, whatever is at work when they arrive."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

from attncli.commands.streams import INTERRUPTED, TERMINATED, print_error

SIGNALS = (signal.SIGINT, signal.SIGTERM)
KEPT = "interrupted; what was finished is kept, nothing else"


class Terminated(KeyboardInterrupt):
    """SIGTERM has arrived. Code that lets Ctrl-C through, or keeps what is finished, does so here, too."""


def exit_code(error: KeyboardInterrupt) -> int:
    """The exit code of a command that this ended."""
    return TERMINATED if isinstance(error, Terminated) else INTERRUPTED


@contextmanager
def heeding_sigterm() -> Iterator[None]:
    """Let SIGTERM raise `Terminated`, so that no unfinished run folder is left; not where the caller ignores it."""
    is_heeded = signal.getsignal(signal.SIGTERM) not in (signal.SIG_IGN, None)  # None: handled outside of Python
    with _handling({signal.SIGTERM: _terminate} if is_heeded else {}):
        yield


@contextmanager
def ending_at_once() -> Iterator[None]:
    """End the process on a signal, as long as nothing is begun: torch swallows exceptions while it is loaded."""
    with _handling(dict.fromkeys(_heeded(), _end_at_once)):
        yield


class Interrupts:
    """While it is open, Ctrl-C and SIGTERM end the work, but not the writing of what the work has given.

    The second press waits in any case, as the first has ended the work, which winds up. A third one aborts, unless
    results are being written. Signals are handled in the main thread only, and not where the caller ignores them.
    """

    def __init__(self) -> None:
        self._before = _heeded()
        self._handlers = _handling(dict.fromkeys(self._before, self._handle))
        self._arrived = list[int]()
        self._must_wait = False

    def __enter__(self) -> Self:
        self._handlers.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._handlers.__exit__(*error)

    @property
    def arrived(self) -> bool:
        """Whether there was a signal: one that had to wait, where the work has come to its end."""
        return bool(self._arrived)

    @property
    def exit_code(self) -> int:
        """The exit code of work that a signal has ended."""
        return TERMINATED if self._arrived[:1] == [signal.SIGTERM] else INTERRUPTED

    def check(self) -> None:
        """Raise once more what ends the work, where a scorer or model of the user's own has caught it."""
        if self._arrived and not self._must_wait:
            raise Terminated if self._arrived[0] == signal.SIGTERM else KeyboardInterrupt

    def wait(self) -> None:
        """From now on there is something to lose: every signal waits."""
        self._must_wait = True

    def _handle(self, number: int, frame: Any) -> None:
        self._arrived.append(number)
        if not self._must_wait and len(self._arrived) != 2:
            self._before[number](number, frame)


def _heeded() -> dict[int, Any]:
    """The handlers of the signals that end the work; none of those that the caller ignores."""
    return {number: before for number in SIGNALS if callable(before := signal.getsignal(number))}


@contextmanager
def _handling(handlers: Mapping[int, Callable[[int, Any], None]]) -> Iterator[None]:
    """Have signals handled by these functions; the main thread alone can say so."""
    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handler) for number, handler in handlers.items() if is_main}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _terminate(number: int, frame: object) -> None:
    raise Terminated


def _end_at_once(number: int, frame: object) -> None:
    print_error(KEPT)
    os._exit(TERMINATED if number == signal.SIGTERM else INTERRUPTED)
