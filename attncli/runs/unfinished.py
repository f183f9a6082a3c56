"""Hidden folders for what is unfinished. What a killed process left in one is removed by the next that writes there."""

import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from attncli.errors import InputError

OLD, NEW = "old", "new"  # in a hidden folder: where what is replaced waits, under its name; what replaces it
LONGEST_MACHINE = 100  # characters of its name
CLOCK_SHIFT = 60  # seconds that the start of one and the same process may seem to move by, as clocks are set


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
def writing(place: Path, expected: str) -> Iterator[None]:
    """Let the system's refusal of a place name it."""
    try:
        yield
    except OSError as error:
        message = f'got "{place}"; cannot write there: {error.strerror}; expected {expected}'
        raise InputError.of(message, where="--out") from error


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
