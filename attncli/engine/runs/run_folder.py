"""Create run folders and files: they appear complete or not at all, and replace nothing by accident.

Unfinished files are in a hidden folder, and the process that writes them holds the lock of a file beside it. The system
releases the lock when the process ends, killed or not, and the next process that writes to the same place removes the
hidden folder.
"""

import errno
import itertools
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from attncli.core.opening import open_file
from attncli.errors import InputError, refusal
from attncli.runtime import signals

OUTPUTS = Path("outputs")
OLD, NEW = "old", "new"  # folders inside a hidden folder: for the replaced run, and the new run
JOURNAL = "points.jsonl"  # in the folder of a sweep, written while it runs
HIDDEN, PARTIAL = ".attncli.", ".partial"  # start and end of the names of hidden folders
LOCK = ".lock"  # end of the name of the lock file beside a hidden folder, and name of that in the folder of a sweep
IN_USE = "into which a sweep writes; expected a folder not in use; `attncli sweep --status {}` says how far it is"


class OptionNames(NamedTuple):
    """The names, in error messages, of the options for the place of the output and for overwriting it."""

    out: str = "--out"
    overwrite: str = "--overwrite"


COMMAND_LINE = OptionNames()


@dataclass(frozen=True)
class Destination:
    """Where a run is saved, with or without pictures and a page, and the command or function that started it.

    `out` is the folder, by default outputs/<name>/<started>. `report` adds a page to explore the run. `command` is the
    command line; if it is None, `function` is the function of Python.
    """

    out: Path | None = None
    overwrite: bool = False
    pictures: bool = True
    report: bool = False
    command: str | None = None
    function: str = "attncli.run"
    started: datetime = field(default_factory=lambda: datetime.now().astimezone())

    @property
    def words(self) -> OptionNames:
        """Return the names of the options in error messages."""
        return COMMAND_LINE if self.command else OptionNames(f"{self.function}: out", "overwrite=True")


@dataclass
class Folder:
    """The hidden folder `path` into which a run is written, and `target`, to which it is moved at the end."""

    path: Path
    target: Path


def free_place(name: str, to: Destination) -> Path:
    """Return the place of a new run folder.

    Raises:
        InputError: as `new_folder`, as far as this can be known without writing.
    """
    target = (to.out or OUTPUTS / name / to.started.strftime("%Y-%m-%dT%H-%M-%S")).absolute()
    if ".." in target.parts:  # resolve it, since its last part must be a name
        target = Path(os.path.realpath(target))
    with writing(to.out or target, to.words):
        for folder in (OUTPUTS, OUTPUTS / name) if to.out is None else ():
            if os.path.lexists(folder) and not folder.is_dir():
                expected = f"expected a folder for the runs; move the file, or use {to.words.out}"
                raise InputError.of(f"got a file; {expected}", where=str(folder))
        if to.out is not None and (refused := _refusal(target, to)):
            raise InputError.of(f'got "{to.out}", {refused}', where=to.words.out)
    return target


@contextmanager
def new_folder(name: str, to: Destination) -> Iterator[Folder]:
    """Yield a folder to write a run into. It is moved to its place at the end, and removed on errors.

    The place is `out` of the destination. By default it is outputs/<name>/<started>, with a number added if that
    exists, and the link outputs/<name>/latest is made to point to it.

    Raises:
        InputError: `out` holds other files, or a run and `overwrite` is False; or the place cannot be written.
    """
    target = free_place(name, to)
    with ExitStack() as stack:
        with writing(target, to.words):
            hidden = stack.enter_context(hidden_folder(target))
            folder = Folder(hidden / NEW, target)
            folder.path.mkdir()
        yield folder
        with writing(target, to.words), signals.waiting():
            if to.out is not None and target.is_dir() and not _refusal(target, to):  # it is still free
                (hidden / OLD).mkdir()
                target.rename(hidden / OLD / target.name)
                folder.path.rename(target)
            else:
                folder.target = _renamed_to_free_place(folder.path, target)
            if to.out is None:
                _point_to_latest(folder.target, hidden)


def _refusal(path: Path, to: Destination) -> str | None:
    """Return why a run cannot be written to this place, or None if it is free or holds a run that may be replaced."""
    if path.is_symlink():
        return "a link; expected a folder that is new or empty"
    if not path.exists():
        return None
    if not path.is_dir():
        return "a file; expected a folder that is new or empty"
    if is_locked(path / LOCK):
        return IN_USE.format(path)
    if os.path.ismount(path) or Path.cwd().is_relative_to(path.resolve()):
        return "which is in use and cannot be replaced as a whole; expected a new folder inside it"
    names = {file.name for file in path.iterdir()} - {LOCK}  # a killed sweep leaves it
    if strange := sorted(names - _files_of_run(path)):
        return f'which has "{strange[0]}", not a file of a run; expected a new or empty folder'
    if names and not to.overwrite:
        return f"which holds a run; expected a new or empty folder; {to.words.overwrite} replaces this run"
    return None


@contextmanager
def locked(path: Path, timeout: float = 0.0) -> Iterator[None]:
    """Hold the lock file at `path`, and remove it at the end.

    It is removed while it is locked: no other process can have locked it by then, and one that has opened it just
    before gets a lock without a name, which the library gives back to lock the new file.

    Raises:
        TimeoutError: another process has held it for `timeout` seconds.
    """
    from filelock import FileLock  # loads asyncio

    with FileLock(path, timeout=timeout):
        try:
            yield
        finally:
            with suppress(OSError):  # Windows cannot remove an open file
                path.unlink()


def is_locked(path: Path) -> bool | None:
    """Whether a running process holds the lock file at `path`; None if that cannot be determined.

    The lock is tried: for a moment this process holds it, so who needs the lock must wait for it (`PATIENCE`).
    """
    try:
        if path.exists():
            with locked(path):
                pass
    except TimeoutError:
        return True
    except OSError:
        return None
    return False


def _files_of_run(folder: Path) -> set[str]:
    """Return the names of the files that belong to the run in a folder; empty if it holds no run."""
    try:
        with open_file(folder / "results.json") as file:
            content = json.load(file)
        return set(content["files"]) if "attncli" in content else set()
    except (OSError, ValueError, LookupError, TypeError):
        unfinished = {JOURNAL, "config.yaml"}  # files of an unfinished sweep
        return unfinished if (folder / JOURNAL).is_file() else set()


def _renamed_to_free_place(path: Path, wanted: Path) -> Path:
    for target in _numbered(wanted, wanted.name):
        if not os.path.lexists(target):
            try:
                return path.rename(target)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # not taken by another run meanwhile
                    raise
    raise AssertionError


def _numbered(path: Path, name: str, ending: str = "") -> Iterator[Path]:
    """Yield the place, then places beside it with numbers from 2 added to the name, without end."""
    yield path
    yield from (path.with_name(f"{name}-{number}{ending}") for number in itertools.count(2))


def _point_to_latest(target: Path, hidden: Path) -> None:
    """Make or replace the link `latest` beside a run, atomically. Leave a file or folder of this name as it is."""
    latest = target.parent / "latest"
    if latest.is_symlink() or not latest.exists():
        with suppress(OSError):  # the file system has no links
            (hidden / "latest").symlink_to(target.name)
            (hidden / "latest").replace(latest)


def check_file(out: Path, overwrite: bool, words: OptionNames = COMMAND_LINE) -> None:
    """Raise an InputError unless a file can be written to `out`: it must be new, or `overwrite` given."""
    with writing(out, words):
        if out.exists() and (out.is_dir() or not overwrite):
            message = f'got "{out}", which exists; expected a new file; {words.overwrite} replaces it'
            raise InputError.of(message, where=words.out)
        above = next(folder for folder in out.absolute().parents if folder.exists())
        if not above.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))


def text_writer(text: str) -> Callable[[Path], None]:
    """Return a function that writes a text to a path."""

    def write(path: Path) -> None:
        path.write_text(text, encoding="utf-8")

    return write


def save_numbered(target: Path, write: Callable[[Path], None]) -> Path:
    """Write a file to this place, with a number added to the name if the place is taken. Return the path."""
    free = next(free for free in _numbered(target, target.stem, target.suffix) if not free.exists())
    return save_file_at(free, write)


def save_file_at(target: Path, write: Callable[[Path], None], words: OptionNames = COMMAND_LINE) -> Path:
    """Write a file in a hidden folder, then move it to its place, and return the place."""
    with writing(target, words), hidden_folder(target.absolute()) as hidden:
        unfinished = hidden / target.name  # keep the ending, which decides the format
        write(unfinished)
        return unfinished.replace(target)


@contextmanager
def hidden_folder(target: Path) -> Iterator[Path]:
    """Yield a new locked folder beside `target`. Remove it at the end, and new parents of `target` if they are empty.

    Raises:
        OSError: the folder cannot be created.
    """
    with signals.cleaning_up() as stack:
        with signals.waiting():
            for parent in [folder for folder in reversed(target.parents) if not folder.exists()]:
                with suppress(FileExistsError):  # another process was faster
                    parent.mkdir()
                    stack.callback(_remove_if_empty, parent)
            if not target.parent.is_dir():  # the lock's library would report that the file exists
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            folder = target.parent / f"{HIDDEN}{secrets.token_hex(8)}{PARTIAL}"
            stack.enter_context(locked(folder.with_suffix(LOCK)))  # before others can see the folder
            folder.mkdir()
            stack.callback(_remove, folder)
            _remove_abandoned(target.parent)
        yield folder


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):  # it is in use
        folder.rmdir()


@contextmanager
def writing(path: Path, words: OptionNames = COMMAND_LINE) -> Iterator[None]:
    """Turn errors of the system in the `with` block into an InputError with the path."""
    try:
        if "\0" in str(path):  # one error for all versions of Python
            raise ValueError("embedded null byte")
        yield
    except InputError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        message = f'got "{path}"; cannot write there: {refusal(error)}; expected a writable place'
        raise InputError.of(message, where=words.out) from error


def _remove_abandoned(parent: Path) -> None:
    """Remove the hidden folders of processes that have ended, whose locks are free."""
    with suppress(OSError):  # `parent` cannot be read
        for path in list(parent.glob(f"{HIDDEN}*{LOCK}")):
            with suppress(OSError), locked(path):  # else it is locked, or cannot be opened or moved
                _remove(path.with_suffix(PARTIAL))


def _remove(folder: Path) -> None:
    """Remove a hidden folder; a run that was not replaced, since the process failed or was killed, has its place again.

    Raises:
        OSError: the run cannot be moved, and the hidden folder stays.
    """
    for old in (folder / OLD).glob("*"):
        if not os.path.lexists(folder.parent / old.name):
            old.rename(folder.parent / old.name)
    shutil.rmtree(folder, ignore_errors=True)
