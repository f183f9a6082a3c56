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

OLD, NEW = "old", "new"  # in a hidden folder: what is replaced, while it is; what replaces it
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
        owner = f"{platform.node()}-{os.getpid()}-{psutil.Process().create_time():.0f}"
        folder = Path(tempfile.mkdtemp(".partial", f".{place.name}.{owner}-", place.parent))
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
    pattern = re.compile(rf"\.(.+)\.{re.escape(platform.node())}-(\d+)-(\d+)-\w+\.partial")
    with suppress(OSError):  # what cannot be listed or moved stays
        for folder in list(parent.iterdir()):
            found = pattern.fullmatch(folder.name)
            if found is None or _lives(int(found[2]), int(found[3])):
                continue
            if (folder / OLD).exists() and not os.path.lexists(parent / found[1]):  # killed while it replaced a run
                (folder / OLD).rename(parent / found[1])
            shutil.rmtree(folder, ignore_errors=True)


def _lives(number: int, start: int) -> bool:
    """Whether the process with this number that began then is alive; numbers are given again."""
    try:
        return abs(psutil.Process(number).create_time() - start) <= CLOCK_SHIFT
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:  # it is there, and another user's
        return True
