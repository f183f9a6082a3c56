"""The file points.jsonl, the journal of a sweep: one process writes a line for each point as points finish."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, Self, get_args

from pydantic import BaseModel, Field

from attncli.config.document import read_document
from attncli.config.opening import open_file
from attncli.config.sweep import changes_at, indices_of
from attncli.engine.runs.locks import lock
from attncli.engine.runs.run_folder import IN_USE, JOURNAL, is_written
from attncli.errors import InputError, os_errors_as_input_errors, refusal
from attncli.results import Row

State = Literal["done", "failed", "died"]  # of a point
STATES = get_args(State)
SHOWN = 60  # bytes of a damaged line in errors


class PointRow(BaseModel):
    """The keys of every line of the journal, to validate it."""

    key: str
    sweep: Row
    status: State
    error: str | None
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    host: str
    finished: datetime
    records: list[Row]
    heads: list[Row] = []  # lines of earlier versions have none
    random: list[str] = []  # labels of scorers with random parameters


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


def rows_of(folder: Path) -> Iterator[Row]:
    """Yield the rows of a journal in the order of finishing; a later row of the same point replaces an earlier one.

    An incomplete last line is left out: the sweep was killed, or is just writing it.

    Raises:
        InputError: the journal cannot be read, or is damaged.
    """
    path = folder / JOURNAL
    try:
        with open_file(path) as file:
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n"):
                    yield _row(line, f"{path}:{number}")
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError.of(f"cannot be read: {refusal(error)}", where=str(path)) from error


def config_of(folder: Path, option: str) -> Path:
    """Return the path of config.yaml in the folder of a sweep; errors name the command-line option `option`.

    Raises:
        InputError: the folder holds no sweep.
    """
    config = folder / "config.yaml"
    with os_errors_as_input_errors(folder, option):
        if not (folder / JOURNAL).is_file() or not config.is_file():
            message = f'got "{folder}", which is not the folder of a sweep; expected one, as outputs/NAME_sweep/latest'
            raise InputError.of(message, where=option)
    return config


def status_of(folder: Path) -> str:
    """Return the progress of a sweep, read from its journal: `12 of 40 points done, about 3 min left`.

    Raises:
        InputError: the folder holds no sweep, or the journal is damaged.
    """
    axes, _ = read_document(config_of(folder, "--status")).sweep()
    points = (changes_at(axes, index) for index in indices_of(axes))
    tally = Tally({key: change.value for key, change in changes.items()} for changes in points)
    for row in rows_of(folder):
        tally.add(row)
    return tally.line(is_written(folder), f"attncli sweep --resume {folder}")


def _row(line: bytes, where: str) -> Row:
    try:
        PointRow.model_validate_json(line, strict=True)
        row: Row = json.loads(line)
    except ValueError:
        text = line[:SHOWN].decode(errors="replace").strip() or "nothing"
        message = f"got {text}{'…' * (len(line) > SHOWN)}; expected a finished point of a sweep"
        cure = "remove the line, and the sweep runs its point again"
        raise InputError.of(f"{message}; {cure}", where=where) from None
    return row


class Journal:
    """An open journal, which appends rows and knows which points are done. One process at a time may have it open."""

    def __init__(self, folder: Path, swept: Mapping[str, Row]) -> None:
        """Open or create the journal in a folder. `swept` maps the key of each point (a hash) to its swept values.

        Raises:
            InputError: another sweep uses the folder, or the journal is damaged or cannot be written.
        """
        self._swept, self._path = swept, folder / JOURNAL
        self._keys = {name_of(values): key for key, values in swept.items()}
        self.tally = Tally(swept.values())
        self.done = set[str]()
        self._done_before = set[str]()
        try:
            self._file = self._path.open("ab", buffering=0)  # one system call writes a line: Ctrl-C cannot cut it
            try:
                if lock(self._file.fileno()) is False:
                    raise InputError.of(f'got "{folder}", {IN_USE.format(folder)}')
                self._cut_torn_line()
                for row in rows_of(folder):
                    self._count(row)
            except BaseException:
                self._file.close()
                raise
        except OSError as error:
            raise InputError.of(f"cannot be written: {refusal(error)}", where=str(self._path)) from error

    def _cut_torn_line(self) -> None:
        """Remove an incomplete last line, written by a killed sweep."""
        with open_file(self._path) as file:
            whole = sum(len(line) for line in file if line.endswith(b"\n"))
        self._file.truncate(whole)

    def _count(self, row: Row) -> None:
        key = row["key"]
        if key not in self._swept:  # of another version, or of values no longer swept
            if row["status"] == "done" and (same := self._keys.get(name_of(row["sweep"]))):
                self._done_before.add(same)
            return
        (self.done.add if row["status"] == "done" else self.done.discard)(key)
        self.tally.add({**row, "sweep": self._swept[key]})

    @property
    def outdated(self) -> int:
        """Return the number of points that only another version of attncli has done, perhaps with other numbers."""
        return len(self._done_before - self.done)

    def add(self, row: Row) -> Row:
        """Append the row of a point, with its swept values and the time; return the swept values.

        Raises:
            InputError: the row cannot be written, for example on a full disk.
        """
        key, now = row["key"], datetime.now().astimezone().isoformat(timespec="milliseconds")
        full = {"key": key, "sweep": self._swept[key], **row, "finished": now}
        line = json.dumps(full, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace") + b"\n"
        try:
            written = self._file.write(line)
        except OSError as error:
            raise InputError.of(f"cannot be written: {refusal(error)}", where=str(self._path)) from error
        if written != len(line):
            message = "cannot be written: there is no room; make some, and --resume goes on"
            raise InputError.of(message, where=str(self._path))
        self._count(full)
        return self._swept[key]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()  # this releases the lock
