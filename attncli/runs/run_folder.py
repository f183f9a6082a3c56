"""The place of a run or a picture: it appears complete or not at all, and never replaces another by accident.

What is unfinished is in a hidden folder. What a killed process left in one is removed by the next that writes there.
"""

import errno
import itertools
import json
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import psutil

from attncli.errors import InputError

OUTPUTS = Path("outputs")
WRITABLE, WRITABLE_FILE = "a writable folder", "a writable place"
OLD, NEW = "old", "new"  # in a hidden folder: where what is replaced waits, under its name; what replaces it
JOURNAL = "points.jsonl"  # of a sweep, which is there before its results are
LONGEST_MACHINE = 100  # characters of its name
IN_USE = "into which a sweep writes; expected a folder that nobody uses; `attncli sweep --status {}` says how far it is"
CLOCK_SHIFT = 60  # seconds that the start of one and the same process may seem to move by, as clocks are set


class Words(NamedTuple):
    """What the options of a place are called in errors: on the command line, unless said otherwise."""

    out: str = "--out"
    overwrite: str = "--overwrite"


COMMAND_LINE, IN_PYTHON = Words(), Words("attncli.run: out", "overwrite=True")


@dataclass
class Folder:
    """Where a run is written, and its place in the end, which has a number added where it was taken."""

    path: Path
    place: Path


@contextmanager
def new_folder(
    name: str, out: Path | None, overwrite: bool, started: datetime, words: Words = COMMAND_LINE
) -> Iterator[Folder]:
    """A folder to write a run into; it takes its place at the end, and vanishes if something is raised.

    Without `out` its place is outputs/<name>/<start>, with a number added where that is taken, and
    outputs/<name>/latest points to it.

    Raises:
        InputError: `out` is taken, or the place cannot be written.
    """
    place = (out or OUTPUTS / name / started.strftime("%Y-%m-%dT%H-%M-%S")).absolute()
    if ".." in place.parts:  # what stands at the end is the name of the folder
        place = place.resolve()
    with ExitStack() as stack:
        with writing(out or place, WRITABLE, words):
            if out is None:
                _check_outputs(OUTPUTS / name)
            elif refused := _refusal(place, overwrite, words):
                raise InputError.of(f'got "{out}", {refused}', where=words.out)
        with writing(place, WRITABLE, words):
            hidden = stack.enter_context(hidden_folder(place))
            folder = Folder(hidden / NEW, place)
            folder.path.mkdir()
        yield folder
        with writing(place, WRITABLE, words):
            if (
                out is not None and place.is_dir() and not _refusal(place, overwrite, words)
            ):  # nobody has taken it meanwhile
                _replace(place, folder.path, hidden / OLD)
            else:
                folder.place = _renamed_to_free_place(folder.path, place)
        if out is None:
            _point_to_latest(folder.place, hidden)


def _check_outputs(place: Path) -> None:
    above = next(folder for folder in (place, *place.absolute().parents) if os.path.lexists(folder))
    if not above.is_dir():
        message = f'got a file at "{above}"; expected a folder for the runs; move the file, or use --out'
        raise InputError.of(message, where=str(place))


def _refusal(place: Path, overwrite: bool, words: Words) -> str | None:
    """Why a run may not have this place, unless that is new or empty, or an old run that may be replaced."""
    if place.is_symlink():
        return "a link; expected a folder that is new or empty"
    if not place.exists():
        return None
    if not place.is_dir():
        return "a file; expected a folder that is new or empty"
    if is_written(place):
        return IN_USE.format(place)
    if os.path.ismount(place) or Path.cwd().is_relative_to(place.resolve()):
        return "which is in use and cannot be replaced as a whole; expected a new folder inside it"
    names = {path.name for path in place.iterdir()}
    if strange := sorted(names - _files_of_run(place)):
        return f'which has "{strange[0]}", not a file of a run; expected a new or empty folder'
    if names and not overwrite:
        return f"which holds a run; expected a new or empty folder; {words.overwrite} replaces this run"
    return None


def is_written(folder: Path) -> bool | None:
    """Whether a sweep writes into a folder at this moment; None where nobody can tell."""
    try:
        with (folder / JOURNAL).open("rb") as file:
            taken = lock(file.fileno())
    except FileNotFoundError:
        return False
    except OSError:
        return None
    return None if taken is None else not taken


def lock(descriptor: int) -> bool | None:
    """Let no other process write into a file, as long as this one lives: False where another one does already.

    None where the system or the file system has no such locks.
    """
    if os.name == "nt":
        return None
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _files_of_run(folder: Path) -> set[str]:
    """The files that a run says it has written; none where the folder holds no run."""
    try:
        content = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        return set(content["files"]) if "attncli" in content else set()
    except (OSError, ValueError, LookupError, TypeError):
        unfinished = {JOURNAL, "config.yaml"}  # of a sweep
        return unfinished if (folder / JOURNAL).is_file() else set()


def _replace(place: Path, new: Path, aside: Path) -> None:
    aside.mkdir()
    old = place.rename(aside / place.name)
    try:
        new.rename(place)
    except OSError:
        old.rename(place)
        raise


def _renamed_to_free_place(path: Path, wanted: Path) -> Path:
    for place in _numbered(wanted, wanted.name):
        if not os.path.lexists(place):
            try:
                return path.rename(place)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # another run was faster
                    raise
    raise AssertionError


def _numbered(place: Path, name: str, ending: str = "") -> Iterator[Path]:
    """The place, and then the places beside it that have a number added to the name."""
    yield place
    yield from (place.with_name(f"{name}-{number}{ending}") for number in itertools.count(2))


def _point_to_latest(place: Path, hidden: Path) -> None:
    """outputs/<name>/latest, replaced in one step; a real file or folder of that name is left alone."""
    latest = place.parent / "latest"
    if latest.is_symlink() or not latest.exists():
        with suppress(OSError):  # a file system without links: the runs are there all the same
            (hidden / "latest").symlink_to(place.name)
            (hidden / "latest").replace(latest)


def check_file(out: Path, overwrite: bool, words: Words = COMMAND_LINE) -> None:
    """Raise an InputError unless a picture or a capture can be written there: a new file, or one to be replaced."""
    with writing(out, WRITABLE_FILE, words):
        if out.exists() and (out.is_dir() or not overwrite):
            message = f'got "{out}", which exists; expected a new file; {words.overwrite} replaces it'
            raise InputError.of(message, where=words.out)
        above = next(folder for folder in out.absolute().parents if folder.exists())
        if not above.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))


def writer_of(text: str) -> Callable[[Path], None]:
    """What writes a text into the path it is given."""

    def write(path: Path) -> None:
        path.write_text(text, encoding="utf-8")

    return write


def save_numbered(place: Path, write: Callable[[Path], None]) -> Path:
    """Write a file to this place, with a number added where that is taken."""
    free = next(free for free in _numbered(place, place.stem, place.suffix) if not free.exists())
    return save_file_at(free, write)


def save_file_at(place: Path, write: Callable[[Path], None], words: Words = COMMAND_LINE) -> Path:
    """Write beside the place, and rename."""
    with writing(place, WRITABLE_FILE, words), hidden_folder(place.absolute()) as hidden:
        unfinished = hidden / place.name  # the ending says the kind of file
        write(unfinished)
        return unfinished.replace(place)


@contextmanager
def hidden_folder(place: Path) -> Iterator[Path]:
    """A new folder beside `place`, which vanishes in the end, and with it the parents it needed if they are empty.

    Its name says which process owns it: machine, number and start.

    Raises:
        OSError: the folder cannot be made.
    """
    made = list[Path]()
    try:
        for parent in [folder for folder in reversed(place.parents) if not folder.exists()]:
            with suppress(FileExistsError):  # another run was faster
                parent.mkdir()
                made.append(parent)
        owner = f"{_machine()}-{os.getpid()}-{psutil.Process().create_time():.0f}"
        folder = Path(tempfile.mkdtemp(".partial", f".attncli.{owner}-", place.parent))
        try:
            _remove_abandoned(place.parent)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        with suppress(OSError):  # one that is in use
            while made:
                made.pop().rmdir()


@contextmanager
def writing(place: Path, expected: str, words: Words = COMMAND_LINE) -> Iterator[None]:
    """Let the system's refusal of a place name it."""
    try:
        yield
    except InputError:
        raise
    except (OSError, ValueError) as error:  # the latter of a name that no file can have
        message = f'got "{place}"; cannot write there: {getattr(error, "strerror", error)}; expected {expected}'
        raise InputError.of(message, where=words.out) from error


def _remove_abandoned(parent: Path) -> None:
    """Remove hidden folders of processes of this machine that live no more."""
    pattern = re.compile(rf"\.attncli\.{re.escape(_machine())}-(\d+)-(\d+)-\w+\.partial")
    with suppress(OSError):  # what cannot be listed or moved stays
        for folder in list(parent.iterdir()):
            found = pattern.fullmatch(folder.name)
            if found is None or _lives(int(found[1]), int(found[2])):
                continue
            for old in (folder / OLD).glob("*"):  # it was killed while it replaced a run
                if not os.path.lexists(parent / old.name):
                    old.rename(parent / old.name)
            shutil.rmtree(folder, ignore_errors=True)


def _machine() -> str:
    return platform.node()[:LONGEST_MACHINE]


def _lives(number: int, start: int) -> bool:
    """Whether the process with this number that began then is alive; numbers are given again."""
    try:
        return abs(psutil.Process(number).create_time() - start) <= CLOCK_SHIFT
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:  # it is there, and another user's
        return True
