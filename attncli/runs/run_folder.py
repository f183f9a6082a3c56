"""The folder of a run: it appears complete or not at all, and never takes the place of another by accident."""

import errno
import itertools
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from attncli.errors import InputError
from attncli.runs.unfinished import NEW, OLD, hidden_folder, writing

OUTPUTS = Path("outputs")
WRITABLE = "a writable folder"


@dataclass
class Folder:
    """Where a run is written, and its place in the end, which has a number added where it was taken."""

    path: Path
    place: Path


@contextmanager
def new_folder(name: str, out: Path | None, overwrite: bool, started: datetime) -> Iterator[Folder]:
    """A folder to write a run into; it takes its place at the end, and vanishes if something is raised.

    Without `out` its place is outputs/<name>/<start>, with a number added where that is taken, and
    outputs/<name>/latest points to it.

    Raises:
        InputError: `out` is taken, or the place cannot be written.
    """
    if out:
        check_out(out, overwrite)
    place = absolute(out or OUTPUTS / name / started.strftime("%Y-%m-%dT%H-%M-%S"))
    with ExitStack() as stack:
        with writing(place, WRITABLE):
            hidden = stack.enter_context(hidden_folder(place))
            folder = Folder(hidden / NEW, place)
            folder.path.mkdir()
        yield folder
        with writing(place, WRITABLE):
            if out is not None and place.is_dir() and _is_free(place, overwrite):
                _replace(place, folder.path, hidden / OLD)
            else:
                folder.place = _renamed_to_free_place(folder.path, place)
        if out is None:
            _point_to_latest(folder.place, hidden)


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
    with writing(out, WRITABLE):
        _check_place(absolute(out), out, overwrite)


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


def _replace(place: Path, new: Path, aside: Path) -> None:
    aside.mkdir()
    old = place.rename(aside / place.name)
    try:
        new.rename(place)
    except OSError:
        old.rename(place)
        raise


def _renamed_to_free_place(path: Path, wanted: Path) -> Path:
    for number in itertools.count(1):
        place = wanted.with_name(f"{wanted.name}-{number}") if number > 1 else wanted
        if not os.path.lexists(place):
            try:
                return path.rename(place)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # another run was faster
                    raise
    raise AssertionError


def _point_to_latest(place: Path, hidden: Path) -> None:
    """outputs/<name>/latest, replaced in one step; a real file or folder of that name is left alone."""
    latest = place.parent / "latest"
    if latest.is_symlink() or not latest.exists():
        with suppress(OSError):  # a file system without links: the runs are there all the same
            (hidden / "latest").symlink_to(place.name)
            (hidden / "latest").replace(latest)
