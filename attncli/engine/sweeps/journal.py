"""The file points.jsonl, the journal of a sweep: one process writes a line for each point as points finish."""

import errno
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, Self, get_args

from pydantic import BaseModel, Field

from attncli.config.document import read_document
from attncli.config.sweep import changes_at, grid_indices
from attncli.core.opening import open_file
from attncli.engine.runs.run_folder import IN_USE, JOURNAL, LOCK, is_locked, locked, writing
from attncli.errors import InputError, os_errors_as_input_errors, refusal, shortened
from attncli.results import Row

State = Literal["done", "failed", "died"]  # of a point
STATES = get_args(State)
PATIENCE = 1.0  # seconds for the lock, which `--status` holds for a moment


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
    heads: list[Row] | None = []  # None: too many
    random: list[str] = []  # labels of scorers with random parameters
    layers: dict[str, int] = {}


class Tally:
    """Counts the points of a sweep by state."""

    def __init__(self, points: Iterable[str]) -> None:
        """Start with no finished point; `points` has a name for every point."""
        self._points = {*points}
        self._states = dict[str, State]()

    def add(self, point: str, row: Row) -> None:
        """Count the row of a point, in place of an earlier row; points that are not of the sweep do not count."""
        if point in self._points:
            self._states[point] = row["status"]

    @property
    def done(self) -> set[str]:
        """Return the points that are done."""
        return {point for point, state in self._states.items() if state == "done"}

    @property
    def finished(self) -> int:
        """Return the number of points that are done, failed or died."""
        return len(self._states)

    @property
    def total(self) -> int:
        """Return the number of all points."""
        return len(self._points)

    @property
    def failures(self) -> str:
        """Return the numbers of points that have failed and died, in words: `1 failed, 1 died`."""
        counts = Counter(self._states.values())
        return ", ".join(f"{counts[state]:,} {state}" for state in ("failed", "died") if counts[state])


def read_journal(folder: Path) -> Iterator[Row]:
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


def journal_config(folder: Path, option: str) -> Path:
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


def journal_status(folder: Path) -> str:
    """Return the progress of a sweep, read from its journal: `12 of 40 points done, 1 failed`.

    Raises:
        InputError: the folder holds no sweep, or the journal is damaged.
    """
    axes, _ = read_document(journal_config(folder, "--status")).sweep()
    points = (changes_at(axes, index) for index in grid_indices(axes))
    tally = Tally(_point_name({key: change.value for key, change in changes.items()}) for changes in points)
    for row in read_journal(folder):
        tally.add(_point_name(row["sweep"]), row)
    line = ", ".join(filter(None, (f"{len(tally.done):,} of {tally.total:,} points done", tally.failures)))
    is_stopped = tally.finished < tally.total and is_locked(folder / LOCK) is False
    return f"{line}; stopped; `attncli sweep --resume {folder}` goes on" if is_stopped else line


def _point_name(swept: Row) -> str:
    """Return swept values as text that identifies a point, equal for values of the plan and of the journal."""
    return json.dumps(swept, sort_keys=True)


def _row(line: bytes, where: str) -> Row:
    try:
        PointRow.model_validate_json(line, strict=True)
        row: Row = json.loads(line)
    except ValueError:
        text = shortened(line.decode(errors="replace").strip()) or "nothing"
        message = f"got {text}; expected a finished point of a sweep"
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
        self.tally = Tally(swept)
        self.outdated = 0  # points done with another version of attncli, or before a file or scorer changed
        with writing(self._path), ExitStack() as stack:
            try:
                stack.enter_context(locked(folder / LOCK, PATIENCE))
            except TimeoutError as error:
                raise InputError.of(f'got "{folder}", {IN_USE.format(folder)}') from error
            # One system call writes a line: Ctrl-C cannot cut it.
            self._file = stack.enter_context(self._path.open("ab", buffering=0))
            self._cut_torn_line()
            done_before = set[str]()
            for row in read_journal(folder):
                self.tally.add(row["key"], row)
                if row["key"] not in swept and row["status"] == "done":
                    done_before.add(_point_name(row["sweep"]))
            missing = {_point_name(values) for key, values in swept.items() if key not in self.tally.done}
            self.outdated = len(done_before & missing)
            self._opened = stack.pop_all()

    def _cut_torn_line(self) -> None:
        """Remove an incomplete last line, written by a killed sweep."""
        with open_file(self._path) as file:
            whole = sum(len(line) for line in file if line.endswith(b"\n"))
        self._file.truncate(whole)

    def add(self, row: Row) -> Row:
        """Append the row of a point, with its swept values and the time; return the swept values.

        Raises:
            InputError: the row cannot be written, for example on a full disk.
        """
        key, now = row["key"], datetime.now().astimezone().isoformat(timespec="milliseconds")
        full = {"key": key, "sweep": self._swept[key], **row, "finished": now}
        line = json.dumps(full, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace") + b"\n"
        with writing(self._path):
            if self._file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.tally.add(key, full)
        return self._swept[key]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._opened.close()
