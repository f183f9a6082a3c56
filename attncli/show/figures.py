"""Figures as files: the same figure gives the same bytes."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.text import Text

from attncli.errors import InputError, got
from attncli.show.fonts import DEFAULT

DPI = 200
# What is left out of each kind of file: it must not depend on the day or on matplotlib's version.
METADATA: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Producer": None, "Creator": None},
}
OPTIONS: dict[str, Any] = {".png": {"pil_kwargs": {"compress_level": 1}}}  # flat colours: quick, and small all the same
SETTINGS = {
    "svg.hashsalt": "attncli",
    "svg.fonttype": "path",  # looks the same everywhere, whatever fonts there are
    "text.hinting": "no_hinting",  # of no use at this resolution, and slow
}


def default_settings(changes: dict[str, Any] | None = None) -> AbstractContextManager[None]:
    """A context in which the user's matplotlibrc does not count: pictures are the same everywhere."""
    defaults: dict[Any, Any] = dict(matplotlib.rcParamsDefault)
    settings = {key: value for key, value in defaults.items() if not key.startswith("backend")}
    return matplotlib.rc_context(settings | SETTINGS | (changes or {}))


def save_figure(figure: Figure, path: Path) -> None:
    """Writes a figure as `.png`, `.svg` or `.pdf`, by the ending of the path.

    Raises:
        InputError: another ending.
        OSError: a place that cannot be written to.
    """
    ending = picture_ending(path)
    with default_settings({"pdf.fonttype": _pdf_font_type(figure)}):
        figure.savefig(path, format=ending[1:], metadata=METADATA[ending], **OPTIONS.get(ending, {}))


def picture_ending(path: Path) -> str:
    """The ending of a picture's path in lower case, `.png`, `.svg` or `.pdf`; any other is an InputError."""
    ending = path.suffix.lower()
    if ending not in METADATA:
        raise InputError.of(got(path.name, "expected a name ending in " + ", ".join(METADATA)), ["out"])
    return ending


def _pdf_font_type(figure: Figure) -> int:
    """TrueType (42), as publishers refuse Type 3; but many CJK fonts have outlines that it cannot hold."""
    texts: list[Any] = figure.findobj(Text)
    families = {family for text in texts for family in text.get_fontfamily()}
    return 42 if families <= {DEFAULT, "sans-serif"} else 3
