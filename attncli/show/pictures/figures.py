"""Write figures to files: the same figure gives the same bytes, in fonts that have all its characters."""

import io
import logging
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font, ttfFontProperty
from matplotlib.text import Text

from attncli.config.looks import Look
from attncli.core.opening import check_regular
from attncli.errors import InputError, got, printable, shortened
from attncli.show.pictures.themes import Settings, Sheet, look_sheet, most_dpi

Note = Callable[[str], None]  # called with a sentence for the reader of a figure
# Options of each kind of file. Its metadata must not depend on the date or on matplotlib's version.
SAVED: dict[str, dict[str, Any]] = {
    "png": {"metadata": {"Software": None}, "pil_kwargs": {"compress_level": 1}},  # flat colours compress well even so
    "svg": {"metadata": {"Date": None, "Creator": None}},
    "pdf": {"metadata": {"CreationDate": None, "Producer": None, "Creator": None}},
}
DEFAULT_FONT = "DejaVu Sans"  # comes with matplotlib
FALLBACKS = (  # for characters that it lacks; the last comes with matplotlib, too
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "Source Han Sans SC", "PingFang SC", "Hiragino Sans"),
    *("Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Arial Unicode MS"),
    *("Noto Sans Devanagari", "Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Thai", "Noto Sans Symbols2"),
    *("Noto Emoji", "Segoe UI Symbol", "Segoe UI Emoji", "Apple Symbols", "STIXGeneral"),
)
CURE = "one that can, such as Noto Sans CJK (Debian, Ubuntu: fonts-noto-cjk) or the Noto font of its script"

# Some CJK fonts have only a medium weight; matplotlib would warn about it for each text size.
logging.getLogger("matplotlib.font_manager").addFilter(lambda record: "find font weight" not in str(record.msg))


class PlainText(Text):
    """A text that is broken into lines without reading dollar signs as formulas, which matplotlib does."""

    def _get_rendered_text_width(self, text: str) -> int:
        width: int = super()._get_rendered_text_width(text.replace("$", "S"))  # type: ignore[misc]
        return width


class Picture(Figure):
    """A matplotlib figure with the settings and size of a sheet. Notebooks display it without pyplot.

    `width` and `height` are the size in inches if the sheet has none. The resolution of files is limited by memory.
    `facts` are the phrases of the subtitle, `untranslated` all texts before the look's words replace them, and
    `translated` the artists with texts that are translated already. `entries` has the options of each line in the
    legend, and `rows_label` is the common name of the rows of heatmaps, if any.
    """

    title: Text
    subtitle: Text
    rows_label: Text | None = None
    shape = 1.25  # width to height of a panel of curves

    def __init__(self, sheet: Sheet, width: float, height: float, facts: Iterable[str] = (), **options: Any) -> None:
        self.sheet, self.facts, self.untranslated, self.translated = sheet, list(facts), set[str](), list[Text]()
        self.entries = dict[str, Mapping[str, Any]]()
        width, height = sheet.size or (width, height)
        super().__init__(figsize=(width, height), dpi=sheet.dpi, **options)
        FigureCanvasAgg(self)  # keeps a renderer to measure texts with; without it each text would make one

    def translation(self, text: str) -> str:
        """Return a text with the look's words, if it has any for the text or for a part of it between commas."""
        words, phrases = self.sheet.look.words, text.split(", ")
        self.untranslated |= {text, *phrases}
        return words[text] if text in words else ", ".join(words.get(word, word) for word in phrases)

    def draw(self, renderer: Any) -> None:
        """Draw the figure with its sheet's settings, since matplotlib creates ticks as it draws."""
        with applied(self.sheet.settings):
            super().draw(renderer)

    def savefig(self, fname: Any, **options: Any) -> None:
        """Save the figure to a path or an open file. The same figure gives the same bytes."""
        kind = options.get("format") or Path(str(fname)).suffix[1:].lower()
        dpi = min(self.sheet.dpi, most_dpi(*self.get_size_inches()))
        with applied(self.sheet.settings):
            super().savefig(fname, **{"dpi": dpi, **SAVED.get(kind, {}), **options})

    def _repr_png_(self) -> bytes:
        return as_png(self)


def ignore_note(text: str) -> None:
    """Ignore a note."""


@contextmanager
def applied(settings: Settings) -> Iterator[None]:
    """Apply settings of matplotlib in a context, and hide warnings that are given as notes instead."""
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        warnings.filterwarnings("ignore", message="constrained_layout not applied")
        warnings.filterwarnings("ignore", message="The label")  # labels in a legend may begin with an underscore
        yield


@contextmanager
def drawing(
    texts: Iterable[str], note: Note, look: Look, about: str | None = None, scorers: Mapping[str, str] | None = None
) -> Iterator[Sheet]:
    """Apply the settings of a look in a context, with fonts for `texts`, and yield the sheet with these settings.

    The user's matplotlibrc is ignored, so pictures are the same everywhere. `note` is called about characters and
    fonts that are not available. `about` is the question of the experiment, and `scorers` has the scorer of each label.

    Raises:
        InputError: the picture would have too many dots, or its font cannot be read.
    """
    sheet, first = look_sheet(look, about or "", scorers), [] if look.font is None else [font_name(Path(look.font))]
    own_texts = [about or "", look.title or "", look.subtitle or "", *look.words.values()]
    with applied(sheet.settings):
        families, lost = fonts_for(map(printable, filter(None, [*texts, *own_texts])), first)
    if lost:
        note(lost)
    sheet.settings["font.family"] = families
    # TrueType (42), as publishers refuse Type 3; but many CJK fonts have outlines that it cannot hold.
    is_true_type = families == [*first, DEFAULT_FONT] and (look.font or ".ttf").lower().endswith(".ttf")
    sheet.settings["pdf.fonttype"] = 42 if is_true_type else 3
    with applied(sheet.settings):
        yield sheet


def save_figure(figure: Picture, path: Path) -> None:
    """Save a figure as `.png`, `.svg` or `.pdf`, by the ending of the path.

    Raises:
        InputError: the path has another ending.
        OSError: the file cannot be written.
    """
    figure.savefig(path, format=picture_ending(path)[1:])


def as_png(figure: Picture) -> bytes:
    """Return the figure as the bytes of a PNG."""
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def picture_ending(path: Path) -> str:
    """Return the ending `.png`, `.svg` or `.pdf` of a path in lower case; raise InputError for any other."""
    ending = path.suffix.lower()
    if ending[1:] not in SAVED:
        raise InputError.of(got(path.name, f"expected a name ending in .{', .'.join(SAVED)}"), ["out"])
    return ending


def font_name(path: Path) -> str:
    """Return a name of the font in a file, under which matplotlib then finds it.

    Raises:
        InputError: the file cannot be read, or has no font.
    """
    try:
        check_regular(path)
        font = get_font(path)
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "it has no font"
        message = f"which cannot be read: {reason}; expected a font file, such as .ttf, .otf or .ttc"
        raise InputError.of(f'got "{path}", {message}', ["font"]) from error
    names = (font.family_name, f"{font.family_name} {font.style_name}", f"{font.family_name} ({path})")
    for name in names:
        fonts = [entry for entry in fontManager.ttflist if entry.name == name]
        if not fonts:  # of any style, so that matplotlib takes it for all texts
            plain: dict[str, Any] = {"style": "normal", "variant": "normal", "weight": "normal", "stretch": "normal"}
            fontManager.ttflist.append(replace(ttfFontProperty(font), name=name, **plain))
        if not fonts or Path(findfont(FontProperties(family=[name]))).samefile(path):
            break
    return name


def fonts_for(texts: Iterable[str], first: Sequence[str] = ()) -> tuple[list[str], str]:
    """Return the fonts `first`, the default font and the fallbacks for other characters, and a note on missing ones."""
    families, installed = [*first, DEFAULT_FONT], {font.name for font in fontManager.ttflist}
    lacking = {char for text in texts for char in text if not char.isascii() and not _is_shaping(char)}
    for name in (*families, *(name for name in FALLBACKS if name in installed)):
        rest = {char for char in lacking if not _font(name).get_char_index(ord(char))}
        if rest < lacking and name not in families:
            families.append(name)
        lacking = rest
    if not lacking:
        return families, ""
    examples = " ".join(sorted(lacking)[:8]) + (" …" if len(lacking) > 8 else "")
    return families, f"warning: no installed font can draw {examples} (drawn as boxes); install {CURE}"


def _is_shaping(char: str) -> bool:
    """Whether a character is a joiner or a variation selector, which need no glyph."""
    return unicodedata.category(char) == "Cf" or "\ufe00" <= char <= "\ufe0f"


@lru_cache(maxsize=64)
def _font(family: str):  # type: ignore[no-untyped-def] # matplotlib.ft2font.FT2Font
    return get_font(findfont(FontProperties(family=[family])))


def unknown_words(look: Look, figures: Iterable[Picture]) -> list[str]:
    """Return a note on the words of a look that none of the figures has, with their texts; none if all are there."""
    texts = {text for figure in figures for text in figure.untranslated}
    unknown = ", ".join(f'"{word}"' for word in look.words if word not in texts)
    quoted = ", ".join(f'"{shortened(text)}"' for text in sorted(texts) if any(map(str.isalpha, text)))
    return [f"no text of the picture is {unknown}; its texts: {quoted}"] if unknown else []
