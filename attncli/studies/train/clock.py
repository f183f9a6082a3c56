"""How far a training is, and about how long the rest of it will take."""

import threading
import time
from collections.abc import Callable, Mapping

from attncli.studies.progress import Progress

REST = 300_000  # as many parameters take as long to update as everything else that a step does
EVERY = 10  # steps of which progress is told
PATIENCE = 2.0  # seconds before the rest is foretold, since first steps are slow


class Clock:
    """Counts the steps of all configurations, several of which may be under way.

    A step takes longer the more parameters it has to update; how long, the steps before it tell.
    """

    def __init__(self, parameters: Mapping[str, int], steps: int, progress: Progress) -> None:
        """`parameters` of every configuration, by its name in messages."""
        self._costs = {name: count + REST for name, count in parameters.items()}
        self._total = steps * len(parameters)
        self._left = steps * sum(self._costs.values())
        self._done, self._worked = 0, 0
        self._progress, self._start, self._lock = progress, time.monotonic(), threading.Lock()

    def of(self, name: str) -> Callable[[], None]:
        """What to call after each step of the configuration of this name."""

        def one_more() -> None:
            with self._lock:
                self._done += 1
                self._worked += self._costs[name]
                self._left -= self._costs[name]
                if self._done % EVERY == 0:
                    self._progress.step(self._done, self._total, f"{name}{self._time_left()}")

        return one_more

    def _time_left(self) -> str:
        """`, about 40 s left` or `, about 3 min left`; nothing at the beginning."""
        seconds = time.monotonic() - self._start
        if seconds < PATIENCE:
            return ""
        left = seconds * self._left / self._worked
        return f", about {left:.0f} s left" if left < 100 else f", about {left / 60:.0f} min left"
