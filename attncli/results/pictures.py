"""A single picture as a file: outside of run folders, and never in the place of another by accident."""

import os
from collections.abc import Callable
from pathlib import Path

from attncli.errors import InputError
from attncli.results.run_folder import OUTPUTS


def picture_path(name: str, out: Path | None, overwrite: bool) -> Path:
    """`out`, or outputs/heatmaps/<name>.png with a number added where that is taken.

    Raises:
        InputError: `out` is there already, or is a folder.
    """
    if out is None:
        place, number = OUTPUTS / "heatmaps" / f"{name}.png", 1
        while place.exists():
            number += 1
            place = place.with_name(f"{name}-{number}.png")
        return place
    if out.is_dir():
        raise InputError.of(f'got "{out}", a folder; expected a file that ends in .png, .svg or .pdf', where="--out")
    if out.exists() and not overwrite:
        raise InputError.of(f'got "{out}", which exists; expected a new file; --overwrite replaces it', where="--out")
    return out


def save_picture(place: Path, draw: Callable[[Path], None]) -> None:
    """Draw beside the place and rename, so that a picture is there whole or not at all."""
    unfinished = place.with_name(f".{os.getpid()}.{place.name}")  # the same ending, which says the kind of picture
    made = [folder for folder in place.absolute().parents if not folder.exists()]
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        draw(unfinished)
        unfinished.replace(place)
        made.clear()
    except OSError as error:
        raise InputError.of(f'got "{place}"; cannot write there: {error.strerror}', where="--out") from error
    finally:
        unfinished.unlink(missing_ok=True)
        for folder in made:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
