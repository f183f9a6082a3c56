"""A single picture as a file: outside of run folders, and never in the place of another by accident."""

import os
from collections.abc import Callable
from pathlib import Path

from attncli.errors import InputError
from attncli.results.run_folder import OUTPUTS


def picture_path(name: str, out: Path | None, overwrite: bool) -> Path:
    """`out`, or outputs/heatmaps/<name>.png with a number added where that is taken.

    Raises:
        InputError: `out` is there already, or it cannot be written.
    """
    if out is None:
        place, number = OUTPUTS / "heatmaps" / f"{name}.png", 1
        while place.exists():
            number += 1
            place = place.with_name(f"{name}-{number}.png")
    elif out.exists() and (out.is_dir() or not overwrite):
        raise InputError.of(f'got "{out}", which exists; expected a new file; --overwrite replaces it', where="--out")
    else:
        place = out
    above = next(folder for folder in place.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise InputError.of(f'got "{place}"; cannot write in "{above.name}"; expected a writable folder', where="--out")
    return place


def save_picture(place: Path, draw: Callable[[Path], None]) -> None:
    """Draw beside the place and rename, so that a picture is there whole or not at all."""
    made = [folder for folder in place.absolute().parents if not folder.exists()]
    place.parent.mkdir(parents=True, exist_ok=True)
    unfinished = place.with_name(f".{os.getpid()}.{place.name}")  # the same ending, which says the kind of picture
    try:
        draw(unfinished)
        unfinished.replace(place)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        for folder in made:
            folder.rmdir()
        raise
