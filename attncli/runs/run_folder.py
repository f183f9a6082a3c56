"""The folder of a run: it appears complete or not at all, and never takes the place of another by accident."""

import errno
import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from attncli.errors import InputError

OUTPUTS = Path("outputs")


@contextmanager
def new_folder(name: str, out: Path | None, overwrite: bool, started: datetime) -> Iterator["Folder"]:
    """A folder to write a run into; it takes its place at the end, and vanishes if something is raised.

    Without `out` its place is outputs/<name>/<start>, with a number added where that is taken, and
    outputs/<name>/latest points to it.

    Raises:
        InputError: `out` is taken, or the place cannot be written.
    """
    if out:
        check_out(out, overwrite)
    place = absolute(out or OUTPUTS / name / started.strftime("%Y-%m-%dT%H-%M-%S"))
    folder = Folder(place, may_replace=lambda: out is not None and _is_free(place, overwrite))
    try:
        yield folder
        folder.take_place()
        if out is None:
            _point_to_latest(folder.place)
    finally:
        folder.clean_up()


def check_outputs(name: str) -> None:
    """Raise an InputError where outputs/<name> cannot become a folder, which can be told before any work."""
    place = OUTPUTS / name
    with suppress(OSError):  # what the system does not even let us look at, it refuses in its own words later
        above = next(folder for folder in (place, *place.absolute().parents) if os.path.lexists(folder))
        if not above.is_dir():
            message = f'got a file at "{above}"; expected a folder for the runs; move the file, or use --out'
            raise InputError.of(message, where=str(place))


def absolute(path: Path) -> Path:
    """The absolute path, without `..` at its end, since what stands there is the name of the folder."""
    path = path.absolute()
    return path.resolve() if ".." in path.parts else path


def check_out(out: Path, overwrite: bool) -> None:
    """Raise an InputError unless `out` is new or empty, or an old run that may be replaced."""
    try:
        _check_place(absolute(out), out, overwrite)
    except OSError as error:
        raise _unwritable(out, error) from error


def _check_place(place: Path, out: Path, overwrite: bool) -> None:
    if place.is_symlink():
        raise _refused(out, "a link; expected a folder that is new or empty")
    if not place.exists():
        return
    if not place.is_dir():
        raise _refused(out, "a file; expected a folder that is new or empty")
    if os.path.ismount(place) or Path.cwd().is_relative_to(place.resolve()):
        raise _refused(out, "which is in use and cannot be replaced as a whole; expected a new folder inside it")
    if not any(place.iterdir()):
        return
    strange = sorted({path.name for path in place.iterdir()} - _files_of_run(place))
    if strange:
        raise _refused(out, f'which has "{strange[0]}", not the file of a run; expected a new or empty folder')
    if not overwrite:
        raise _refused(out, "which holds a run; expected a new or empty folder; --overwrite replaces this run")


def _files_of_run(folder: Path) -> set[str]:
    """The files that a run says it has written; none where the folder holds no run."""
    try:
        content = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        return set(content["files"]) if "attncli" in content else set()
    except (OSError, ValueError, LookupError, TypeError):
        return set()


def _is_free(place: Path, overwrite: bool) -> bool:
    """Whether `check_out` still lets a run have this place: another may have taken it meanwhile."""
    try:
        check_out(place, overwrite)
    except InputError:
        return False
    return True


def _refused(out: Path, why: str) -> InputError:
    return InputError.of(f'got "{out}", {why}', where="--out")


class Folder:
    """A folder under construction beside its place."""

    def __init__(self, place: Path, may_replace: Callable[[], bool]) -> None:
        """`may_replace` tells, when the work is done, whether what is at the place may go; else a number is added."""
        self.place = place
        self._may_replace = may_replace
        self._made: list[Path] = []  # folders that were not there before
        try:
            self._make_missing(place.parent)
            self.path = self._make_partial()
        except OSError as error:
            self.clean_up()
            raise _unwritable(place, error) from error

    def _make_missing(self, path: Path) -> None:
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        for folder in reversed(missing):
            with suppress(FileExistsError):  # another run was faster
                folder.mkdir()
                self._made.append(folder)

    def _make_partial(self) -> Path:
        for number in itertools.count():  # a run that was killed may have left its folder behind
            path = self.place.with_name(f".{self.place.name}.{os.getpid()}-{number}.partial")
            if not _old(path).exists():
                with suppress(FileExistsError):
                    path.mkdir()
                    self._made.append(path)
                    return path
        raise AssertionError

    def take_place(self) -> None:
        """Rename to the final place, atomically where there was nothing."""
        try:
            if self.place.is_dir() and self._may_replace():
                self._replace()
            else:
                self._rename_to_free_place()
        except OSError as error:
            raise _unwritable(self.place, error) from error
        self._made.clear()

    def _replace(self) -> None:
        old = _old(self.path)
        self.place.rename(old)
        try:
            self.path.rename(self.place)
        except OSError:
            old.rename(self.place)
            raise
        shutil.rmtree(old, ignore_errors=True)  # the new run is complete, whatever becomes of the old one

    def _rename_to_free_place(self) -> None:
        for number in itertools.count(1):
            place = self.place.with_name(f"{self.place.name}-{number}") if number > 1 else self.place
            if not os.path.lexists(place):
                try:
                    self.path.rename(place)
                except OSError as error:
                    if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # another run was faster
                        raise
                else:
                    self.place = place
                    return

    def clean_up(self) -> None:
        """Remove what is unfinished, and the parents that were made for it."""
        if self._made and self._made[-1].suffix == ".partial":
            shutil.rmtree(self._made.pop(), ignore_errors=True)
        while self._made:
            try:
                self._made.pop().rmdir()
            except OSError:  # someone else has put something there
                self._made.clear()


def _old(path: Path) -> Path:
    """Where the run that `path` is going to replace waits meanwhile."""
    return path.with_name(f"{path.name}.old")


def _unwritable(place: Path, error: OSError) -> InputError:
    return InputError.of(
        f'got "{place}"; cannot write there: {error.strerror}; expected a writable folder', where="--out"
    )


def _point_to_latest(place: Path) -> None:
    """outputs/<name>/latest, replaced in one step; a real file or folder of that name is left alone."""
    latest, new = place.parent / "latest", place.parent / f".latest.{os.getpid()}"
    if latest.is_symlink() or not latest.exists():
        try:
            new.unlink(missing_ok=True)
            new.symlink_to(place.name)
            new.replace(latest)
        except OSError:  # a file system without links: the runs are there all the same
            new.unlink(missing_ok=True)
