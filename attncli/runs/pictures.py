"""A single picture as a file: outside of run folders, and never in the place of another by accident."""

import errno
import itertools
import os
from collections.abc import Callable
from pathlib import Path

from attncli.errors import InputError
from attncli.runs.run_folder import OUTPUTS
from attncli.runs.unfinished import hidden_folder, writing

WRITABLE = "a place that can be written"


def picture_path(name: str, out: Path | None, overwrite: bool) -> Path:
    """`out`, or outputs/heatmaps/<name>.png with a number added where that is taken.

    Raises:
        InputError: `out` is there already, or it cannot be written.
    """
    place = out or OUTPUTS / "heatmaps" / f"{name}.png"
    with writing(place, WRITABLE):
        if out is None:
            place = _free(place)
        elif out.exists() and (out.is_dir() or not overwrite):
            message = f'got "{out}", which exists; expected a new file; --overwrite replaces it'
            raise InputError.of(message, where="--out")
        above = next(folder for folder in place.absolute().parents if folder.exists())
        if not above.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return place


def _free(place: Path) -> Path:
    numbered = (place.with_stem(f"{place.stem}-{number}") for number in itertools.count(2))
    return next(candidate for candidate in itertools.chain([place], numbered) if not candidate.exists())


def save_picture(place: Path, draw: Callable[[Path], None]) -> None:
    """Draw beside the place and rename, so that a picture is there whole or not at all."""
    with writing(place, WRITABLE), hidden_folder(place.absolute()) as hidden:
        unfinished = hidden / place.name  # the ending says the kind of picture
        draw(unfinished)
        unfinished.replace(place)
