"""Fonts for text that the default font lacks glyphs for, and how wide that text is."""

import logging
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from matplotlib.font_manager import FontProperties, findfont, findSystemFonts, fontManager, get_font
from matplotlib.ft2font import FT2Font, LoadFlags

DEFAULT = "DejaVu Sans"  # comes with matplotlib
MISSING_GLYPH = "□"
INVISIBLE = "Cf"  # the Unicode category of joiners and other marks that only shape their neighbours
VARIATION_SELECTORS = range(0xFE00, 0xFE10)
CJK = ("Noto Sans CJK SC", "Source Han Sans SC", "PingFang SC", "Microsoft YaHei", "WenQuanYi Zen Hei", "SimHei")
JAPANESE = ("Noto Sans CJK JP", "Source Han Sans", "Hiragino Sans", "Yu Gothic", "IPAexGothic", "TakaoGothic")
KOREAN = ("Noto Sans CJK KR", "Source Han Sans K", "Apple SD Gothic Neo", "Malgun Gothic", "NanumGothic")
UNFIT = ("LastResort", "Last Resort", "Emoji Color", "Color Emoji")  # boxes for everything; bitmaps
CJK_SCRIPTS = ("CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "FULLWIDTH")

# Some CJK fonts have only a medium weight, which is no reason to write to the user's terminal for each text size.
logging.getLogger("matplotlib.font_manager").addFilter(lambda record: "find font weight" not in str(record.msg))


@dataclass(frozen=True)
class Typeface:
    """The families to draw with, in the order in which they are asked for a glyph, and what none of them has."""

    families: tuple[str, ...] = (DEFAULT,)
    missing: frozenset[str] = frozenset()

    def drawable(self, text: str) -> str:
        """The text with a box for every glyph that is missing, so that matplotlib need not warn of each."""
        if not self.missing:
            return text
        return "".join("" if _shapes_only(char) else MISSING_GLYPH if char in self.missing else char for char in text)

    def width(self, text: str, points: float) -> float:
        """How wide the text is, in inches, kerning left aside."""
        return sum(_advance(char, self.families) for char in text) * points / 72

    @property
    def note(self) -> str:
        """What is missing and which font to install; empty where nothing is."""
        lost = sorted(char for char in self.missing if not _shapes_only(char))
        if not lost:
            return ""
        shown = " ".join(lost[:8]) + (" …" if len(lost) > 8 else "")
        fonts = " and ".join(sorted({_font_to_install(char) for char in lost}))
        return f"no installed font can draw {shown} (drawn as {MISSING_GLYPH}); install {fonts}"


def typeface_for(texts: Iterable[str]) -> Typeface:
    """The default font, joined by as few installed ones as are needed to draw every character."""
    exotic = {char for text in texts if not text.isascii() for char in text}
    lacking = _lacking(exotic, DEFAULT)
    families = [DEFAULT]
    for name in _candidates(lacking) if lacking else ():
        still = _lacking(lacking, name)
        if len(still) < len(lacking):
            families.append(name)
        lacking = still
        if not any(not _shapes_only(char) for char in lacking):
            break
    return Typeface(tuple(families), frozenset(lacking))


def _lacking(chars: set[str], family: str) -> set[str]:
    font = _font(family) if chars else None
    return {char for char in chars if font is None or not font.get_char_index(ord(char))}


def _candidates(chars: set[str]) -> Iterator[str]:
    """Installed families: those made for the script, then all others, then those that matplotlib has not seen yet."""
    names = {unicodedata.name(char, "") for char in chars}
    preferred: tuple[str, ...] = (*CJK, *JAPANESE, *KOREAN)
    if any("KATAKANA" in name or "HIRAGANA" in name for name in names):
        preferred = (*JAPANESE, *CJK, *KOREAN)
    elif any("HANGUL" in name for name in names):
        preferred = (*KOREAN, *CJK, *JAPANESE)
    known = _installed()
    yield from (name for name in preferred if name in known)
    yield from sorted(known - set(preferred))
    _notice_new_fonts()
    new = _installed() - known
    yield from (name for name in preferred if name in new)
    yield from sorted(new - set(preferred))


def _installed() -> set[str]:
    names = {font.name for font in fontManager.ttflist if font.style == "normal"}
    return {name for name in names if not any(unfit in name for unfit in UNFIT)}


def _notice_new_fonts() -> None:
    """The list of fonts that matplotlib keeps in a file does not know those installed since it was written."""
    known = {str(font.fname) for font in fontManager.ttflist}
    for path in sorted(set(findSystemFonts()) - known):
        try:
            fontManager.addfont(path)
        except (OSError, RuntimeError):
            continue  # a bitmap font, or a broken one


@lru_cache(maxsize=64)
def _font(family: str) -> FT2Font:
    return get_font(findfont(FontProperties(family=[family])))


@lru_cache(maxsize=4096)
def _advance(char: str, families: tuple[str, ...]) -> float:
    """The width of a glyph as a part of the font size."""
    for font in map(_font, families):
        if font.get_char_index(ord(char)):
            return font.load_char(ord(char), flags=LoadFlags.NO_SCALE).horiAdvance / font.units_per_EM
    return 1.0


def _shapes_only(char: str) -> bool:
    return unicodedata.category(char) == INVISIBLE or ord(char) in VARIATION_SELECTORS


def _font_to_install(char: str) -> str:
    script = unicodedata.name(char, "").split(" ")[0].split("-")[0]
    if script in CJK_SCRIPTS:
        return "Noto Sans CJK (Debian, Ubuntu: fonts-noto-cjk)"
    if unicodedata.category(char).startswith("L") and script:
        return f"Noto Sans {script.capitalize()}"
    return "Noto Emoji or Symbola" if ord(char) >= 0x1F000 else "Noto Sans Symbols"
