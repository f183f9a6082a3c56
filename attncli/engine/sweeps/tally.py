"""The progress of a sweep, counted from the rows of its journal, which another process may be writing."""

import json
from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from attncli.results import Row


class Tally:
    """Counts the points of a sweep by state, and estimates the time left."""

    def __init__(self, points: Iterable[Row]) -> None:
        """Start with no finished point; `points` has the swept values of every point."""
        self._open = {name_of(point) for point in points}
        self.total = len(self._open)
        self._states = dict[str, str]()
        self._busy = 0.0  # seconds of computing, without pauses before the sweep was resumed
        self._until = float("-inf")

    def add(self, row: Row) -> None:
        """Count the row of a point, in place of an earlier row of the same point."""
        name = name_of(row["sweep"])
        if name not in self._open and name not in self._states:
            return
        self._open.discard(name)
        self._states[name] = row["status"]
        finished = datetime.fromisoformat(row["finished"]).timestamp()
        begun = max(self._until, finished - row["seconds"])
        self._busy += max(0.0, finished - begun)
        self._until = max(self._until, finished)

    @property
    def finished(self) -> int:
        """Return the number of points that are done, failed or died."""
        return len(self._states)

    @property
    def seconds_left(self) -> float:
        """Return the estimated time left in seconds, if points go on finishing as fast as before."""
        return self._busy / max(self.finished, 1) * len(self._open)

    @property
    def words(self) -> str:
        """Return failures and the time left in words: `1 failed, 1 died, about 3 min left`."""
        left = [f"about {_duration(self.seconds_left)} left"] if self._open and self._states else []
        return ", ".join([*self._failed, *left])

    @property
    def _failed(self) -> list[str]:
        counts = Counter(self._states.values())
        return [f"{counts[state]:,} {state}" for state in ("failed", "died") if counts[state]]

    def line(self, running: bool | None, again: str) -> str:
        """Return a line such as `12 of 40 points done, 1 failed, about 3 min left`; without the time unless `running`.

        `running` is None if unknown. `again` is the command that resumes the sweep, for the line of a stopped sweep.
        """
        done = f"{Counter(self._states.values())['done']:,} of {self.total:,} points done"
        line = ", ".join(part for part in (done, *([self.words] if running else self._failed)) if part)
        return f"{line}; stopped; `{again}` goes on" if running is False and self._open else line


def name_of(swept: Row) -> str:
    """Return swept values as text that identifies a point, equal for values of the plan and of the journal."""
    return json.dumps(swept, sort_keys=True)


def _duration(seconds: float) -> str:
    """Return a time as text in a fitting unit, such as `3 min`."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
