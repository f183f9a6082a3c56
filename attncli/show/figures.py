"""Figures as files: the same figure gives the same bytes, in fonts that can draw its text."""

import io
import logging
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
from matplotlib.text import Text

from attncli.errors import InputError, got, printable

Note = Callable[[str], None]  # takes what the reader of a figure should know
DPI = 200
# What is left out of each kind of file: it must not depend on the day or on matplotlib's version.
METADATA: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Producer": None, "Creator": None},
}
OPTIONS: dict[str, Any] = {".png": {"pil_kwargs": {"compress_level": 1}}}  # flat colours: quick, and small all the same
SETTINGS: dict[str, Any] = {
    "svg.hashsalt": "attncli",
    "svg.fonttype": "path",  # looks the same everywhere, whatever fonts there are
    "text.hinting": "no_hinting",  # of no use at this resolution, and slow
    "text.parse_math": False,  # dollar signs are no formulas
}
DEFAULT_FONT = "DejaVu Sans"  # comes with matplotlib
CJK = ("Noto Sans CJK", "Source Han Sans", "PingFang", "Microsoft YaHei", "WenQuanYi", "Hiragino", "Malgun")
CURE = "one that can, such as Noto Sans CJK (Debian, Ubuntu: fonts-noto-cjk) or the Noto font of its script"
UNFIT = ("LastResort", "Last Resort", "Emoji Color", "Color Emoji")  # boxes for everything; bitmaps

# Some CJK fonts have only a medium weight, which is no reason to write to the user's terminal for each text size.
logging.getLogger("matplotlib.font_manager").addFilter(lambda record: "find font weight" not in str(record.msg))


class Picture(Figure):
    """A figure that shows itself in a notebook, whether pyplot is loaded there or not."""

    def _repr_png_(self) -> bytes:
        return as_png(self)


@contextmanager
def default_settings(changes: dict[str, Any] | None = None) -> Iterator[None]:
    """A context in which the user's matplotlibrc does not count: pictures are the same everywhere."""
    defaults: dict[Any, Any] = dict(matplotlib.rcParamsDefault)
    settings = {key: value for key, value in defaults.items() if not key.startswith("backend")}
    with matplotlib.rc_context(settings | SETTINGS | (changes or {})), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # which the note of `fonts_for` says already
        warnings.filterwarnings("ignore", message="The label")  # of a legend may begin with an underscore
        yield


@contextmanager
def drawing(texts: Iterable[str], note: Note, changes: dict[str, Any] | None = None) -> Iterator[None]:
    """For the making and saving of a figure with these texts; `note` is told what no font can draw."""
    families, lost = fonts_for(map(printable, texts))
    if lost:
        note(lost)
    with default_settings({"font.family": families, **(changes or {})}):
        yield


def save_figure(figure: Figure, path: Path) -> None:
    """Writes a figure as `.png`, `.svg` or `.pdf`, by the ending of the path.

    Raises:
        InputError: another ending.
        OSError: a place that cannot be written to.
    """
    ending = picture_ending(path)
    texts: list[Any] = figure.findobj(Text)
    families = {family for text in texts for family in text.get_fontfamily()}
    # TrueType (42), as publishers refuse Type 3; but many CJK fonts have outlines that it cannot hold.
    font_type = 42 if families <= {DEFAULT_FONT, "sans-serif"} else 3
    with default_settings({"pdf.fonttype": font_type}):
        figure.savefig(path, format=ending[1:], metadata=METADATA[ending], **OPTIONS.get(ending, {}))


def drawn_by(make: Callable[[], Figure]) -> Callable[[Path], None]:
    """What makes a figure and saves it in a file."""
    return lambda path: save_figure(make(), path)


def as_png(figure: Figure) -> bytes:
    """The figure as the bytes of a PNG."""
    file = io.BytesIO()
    with default_settings():
        figure.savefig(file, format="png", metadata=METADATA[".png"], **OPTIONS[".png"])
    return file.getvalue()


def picture_ending(path: Path) -> str:
    """The ending of a picture's path in lower case, `.png`, `.svg` or `.pdf`; any other is an InputError."""
    ending = path.suffix.lower()
    if ending not in METADATA:
        raise InputError.of(got(path.name, "expected a name ending in " + ", ".join(METADATA)), ["out"])
    return ending


def fonts_for(texts: Iterable[str]) -> tuple[list[str], str]:
    """The default font, joined by as few installed ones as are needed, and a note of what none of them can draw."""
    families = [DEFAULT_FONT]
    lacking = _lacking({char for text in texts for char in text if not char.isascii()}, DEFAULT_FONT)
    for name in _candidates(lacking) if lacking else ():
        rest = _lacking(lacking, name)
        if rest < lacking:
            families.append(name)
        lacking = rest
    if not lacking:
        return families, ""
    shown = " ".join(sorted(lacking)[:8]) + (" …" if len(lacking) > 8 else "")
    return families, f"no installed font can draw {shown} (drawn as boxes); install {CURE}"


def _lacking(chars: set[str], family: str) -> set[str]:
    """The characters without a glyph; joiners and variation selectors only shape their neighbours."""
    shaping = {char for char in chars if unicodedata.category(char) == "Cf" or "\ufe00" <= char <= "\ufe0f"}
    return {char for char in chars - shaping if not _font(family).get_char_index(ord(char))}


@lru_cache(maxsize=64)
def _font(family: str):  # type: ignore[no-untyped-def] # matplotlib.ft2font.FT2Font
    return get_font(findfont(FontProperties(family=[family])))


def _candidates(chars: set[str]) -> list[str]:
    """Installed families, those made for the script first."""
    scripts = " ".join(unicodedata.name(char, "") for char in chars)
    region = "JP" if "KATAKANA" in scripts or "HIRAGANA" in scripts else "KR" if "HANGUL" in scripts else "SC"
    names = {font.name for font in fontManager.ttflist if font.style == "normal"}
    fitting = (name for name in names if not any(unfit in name for unfit in UNFIT))
    return sorted(fitting, key=lambda name: (not name.startswith(CJK), not name.endswith(region), name))
