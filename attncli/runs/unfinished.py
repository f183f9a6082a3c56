"""Hidden folders for what is unfinished. What a killed process left in one is removed by the next that writes there."""

import fcntl
import itertools
import os
import platform
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attncli.errors import InputError

OLD, NEW = "old", "new"  # in a hidden folder: what is replaced, while it is; what replaces it
OWNER = f"attncli-{platform.node()}"  # machines that share a file system do not always see each other's locks


@contextmanager
def hidden_folder(place: Path) -> Iterator[Path]:
    """A new folder beside `place`, which vanishes in the end, and with it the parents it needed if they are empty.

    A lock tells that its process lives: the system drops it with the process, however that ends.

    Raises:
        OSError: the folder cannot be made.
    """
    made = list[Path]()
    try:
        for parent in [folder for folder in reversed(place.parents) if not folder.exists()]:
            with suppress(FileExistsError):  # another run was faster
                parent.mkdir()
                made.append(parent)
        folder, lock = _new_folder(place)
        try:
            _remove_abandoned(place.parent)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
    finally:
        with suppress(OSError):  # one that is in use
            while made:
                made.pop().rmdir()


@contextmanager
def writing(place: Path, expected: str) -> Iterator[None]:
    """Let the system's refusal of a place name it."""
    try:
        yield
    except OSError as error:
        message = f'got "{place}"; cannot write there: {error.strerror}; expected {expected}'
        raise InputError.of(message, where="--out") from error


def _new_folder(place: Path) -> tuple[Path, int]:
    """A folder, and the open descriptor that holds its lock."""
    for number in itertools.count():
        folder = place.with_name(f".{place.name}.{OWNER}-{os.getpid()}-{number}.partial")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        with suppress(FileNotFoundError):  # another process took it for abandoned before it was locked
            descriptor = os.open(folder, os.O_RDONLY)
            with suppress(OSError):  # a file system without locks, where nothing is removed either
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if folder.exists():
                return folder, descriptor
            os.close(descriptor)
    raise AssertionError


def _remove_abandoned(parent: Path) -> None:
    """Remove hidden folders that no living process of this machine has locked."""
    pattern = re.compile(rf"\.(.+)\.{re.escape(OWNER)}-\d+-\d+\.partial")
    with suppress(OSError):  # what cannot be listed stays
        for folder in list(parent.iterdir()):
            if match := pattern.fullmatch(folder.name):
                _remove_if_abandoned(folder, parent / match[1])


def _remove_if_abandoned(folder: Path, place: Path) -> None:
    with suppress(OSError):  # it is locked, or another process was faster
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if (folder / OLD).exists() and not os.path.lexists(place):  # killed before the new one took its place
                (folder / OLD).rename(place)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)
