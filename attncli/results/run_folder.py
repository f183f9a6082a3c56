"""The folder of a run: it appears complete or not at all, and never takes the place of another by accident."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from attncli.errors import InputError

OUTPUTS = Path("outputs")
MARKS = ("config.yaml", "results.json")  # what tells a run folder from any other


@contextmanager
def new_folder(name: str, out: Path | None, overwrite: bool, started: datetime) -> Iterator["Folder"]:
    """A folder to write a run into; it takes its place at the end, and vanishes if something is raised.

    Without `out` its place is outputs/<name>/<start>, with a number added where that is taken, and
    outputs/<name>/latest points to it.

    Raises:
        InputError: `out` is taken, or the place cannot be written.
    """
    place = out.absolute() if out else (OUTPUTS / name / started.strftime("%Y-%m-%dT%H-%M-%S")).absolute()
    if out:
        check_out(out, overwrite)
    folder = Folder(place, numbered=out is None)
    try:
        yield folder
        folder.take_place()
        if out is None:
            _point_to_latest(folder.place)
    finally:
        folder.clean_up()


def check_out(out: Path, overwrite: bool) -> None:
    """Raise an InputError unless `out` is new or empty, or an old run that may be replaced."""
    if out.is_symlink() or not out.exists():
        if out.is_symlink():
            raise InputError.of(f'got "{out}", a link; expected a folder that is new or empty', where="--out")
        return
    if not out.is_dir():
        raise InputError.of(f'got "{out}", a file; expected a folder that is new or empty', where="--out")
    if not any(out.iterdir()):
        return
    if not all((out / mark).is_file() for mark in MARKS):
        raise InputError.of(
            f'got "{out}", which has files that are not a run; expected a new or empty one', where="--out"
        )
    if not overwrite:
        cure = "expected a new or empty folder; --overwrite replaces this run"
        raise InputError.of(f'got "{out}", which holds a run; {cure}', where="--out")


class Folder:
    """A folder under construction beside its place."""

    def __init__(self, place: Path, numbered: bool) -> None:
        self.place = place
        self._numbered = numbered
        self._made: list[Path] = []  # parents that were not there before
        self.path = place.parent / f".{place.name}.{os.getpid()}.partial"
        try:
            self._make(self.path)
        except OSError as error:
            self.clean_up()
            raise _unwritable(place, error) from error

    def _make(self, path: Path) -> None:
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir()
            self._made.append(folder)

    def take_place(self) -> None:
        """Rename to the final place, atomically where there was nothing."""
        try:
            if self.place.is_dir() and not self._numbered:
                self._replace()
            else:
                self._rename_to_free_place()
        except OSError as error:
            raise _unwritable(self.place, error) from error
        self._made.clear()

    def _replace(self) -> None:
        old = self.place.with_name(f"{self.path.name}.old")
        self.place.rename(old)
        try:
            self.path.rename(self.place)
        except OSError:
            old.rename(self.place)
            raise
        shutil.rmtree(old)

    def _rename_to_free_place(self) -> None:
        first, number = self.place, 1
        while self.place.exists():
            number += 1
            self.place = first.with_name(f"{first.name}-{number}")
        self.path.rename(self.place)

    def clean_up(self) -> None:
        """Remove what is unfinished, and the parents that were made for it."""
        if self.path in self._made:
            shutil.rmtree(self.path, ignore_errors=True)
            self._made.remove(self.path)
        while self._made:
            try:
                self._made.pop().rmdir()
            except OSError:  # someone else has put something there
                self._made.clear()


def _unwritable(place: Path, error: OSError) -> InputError:
    return InputError.of(
        f'got "{place}"; cannot write there: {error.strerror}; expected a writable folder', where="--out"
    )


def _point_to_latest(place: Path) -> None:
    """outputs/<name>/latest, replaced in one step; a real file or folder of that name is left alone."""
    latest, new = place.parent / "latest", place.parent / f".latest.{os.getpid()}"
    if latest.is_symlink() or not latest.exists():
        try:
            new.symlink_to(place.name)
            new.replace(latest)
        except OSError:  # a file system without links: the runs are there all the same
            new.unlink(missing_ok=True)
