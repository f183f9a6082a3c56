"""Fonts for text that the default font lacks glyphs for."""

import logging
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font

DEFAULT = "DejaVu Sans"  # comes with matplotlib
MISSING_GLYPH = "□"
CJK = ("Noto Sans CJK", "Source Han Sans", "PingFang", "Microsoft YaHei", "WenQuanYi", "Hiragino", "Malgun")
CURE = "one that can, such as Noto Sans CJK (Debian, Ubuntu: fonts-noto-cjk) or the Noto font of its script"
UNFIT = ("LastResort", "Last Resort", "Emoji Color", "Color Emoji")  # boxes for everything; bitmaps

# Some CJK fonts have only a medium weight, which is no reason to write to the user's terminal for each text size.
logging.getLogger("matplotlib.font_manager").addFilter(lambda record: "find font weight" not in str(record.msg))


@dataclass(frozen=True)
class Typeface:
    """The families to draw with, in the order in which they are asked for a glyph, and what none of them has."""

    families: tuple[str, ...] = (DEFAULT,)
    missing: frozenset[str] = frozenset()

    def drawable(self, text: str) -> str:
        """The text with a box for every glyph that is missing: matplotlib would warn of each."""
        if not self.missing:
            return text
        return "".join("" if _shapes_only(char) else MISSING_GLYPH if char in self.missing else char for char in text)

    @property
    def note(self) -> str:
        """What is missing and which font to install; empty where nothing is."""
        lost = sorted(char for char in self.missing if not _shapes_only(char))
        if not lost:
            return ""
        shown = " ".join(lost[:8]) + (" …" if len(lost) > 8 else "")
        return f"no installed font can draw {shown} (drawn as {MISSING_GLYPH}); install {CURE}"


def typeface_for(texts: Iterable[str]) -> Typeface:
    """The default font, joined by as few installed ones as are needed to draw every character."""
    lacking = _lacking({char for text in texts if not text.isascii() for char in text}, DEFAULT)
    families = [DEFAULT]
    for name in _candidates(lacking) if lacking else ():
        if all(map(_shapes_only, lacking)):
            break
        still = _lacking(lacking, name)
        if len(still) < len(lacking):
            families.append(name)
        lacking = still
    return Typeface(tuple(families), frozenset(lacking))


def _lacking(chars: set[str], family: str) -> set[str]:
    return {char for char in chars if not _font(family).get_char_index(ord(char))}


@lru_cache(maxsize=64)
def _font(family: str):  # type: ignore[no-untyped-def] # matplotlib.ft2font.FT2Font
    return get_font(findfont(FontProperties(family=[family])))


def _candidates(chars: set[str]) -> list[str]:
    """Installed families, those made for the script first."""
    scripts = " ".join(unicodedata.name(char, "") for char in chars)
    region = "JP" if "KATAKANA" in scripts or "HIRAGANA" in scripts else "KR" if "HANGUL" in scripts else "SC"

    def fitness(name: str) -> tuple[bool, bool, str]:
        return not name.startswith(CJK), not name.endswith(region), name

    names = {font.name for font in fontManager.ttflist if font.style == "normal"}
    return sorted((name for name in names if not any(unfit in name for unfit in UNFIT)), key=fitness)


def _shapes_only(char: str) -> bool:
    """Whether this is a joiner, a variation selector or another mark that only shapes its neighbours."""
    return unicodedata.category(char) == "Cf" or "\ufe00" <= char <= "\ufe0f"
