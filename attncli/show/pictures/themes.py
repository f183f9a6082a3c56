"""The settings of matplotlib for a look: its theme, and sizes that follow from the size of the text."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import to_hex, to_rgb

from attncli.config.looks import Look
from attncli.errors import InputError
from attncli.show.pictures.looks import label_looks

Settings = dict[Any, Any]  # rcParams
DPI = 200
MOST_DOTS, MOST_ALONG = 100_000_000, 60_000  # limits of a picture: 2 GB, and matplotlib's own
POINTS, PAGE = 9.0, 7.0  # size of all text on a page up to this width in inches; in proportion beyond
LINE, THIN = 1.75, 1.5  # points; width of lines and of references, at any size of the text
MARKERS = 1.15, 0.9  # relative sizes of the first and the last label's marker
TEXTS = (
    *("font.size", "axes.titlesize", "axes.labelsize", "figure.titlesize", "figure.labelsize"),
    *("xtick.labelsize", "ytick.labelsize", "legend.fontsize", "legend.title_fontsize"),
)
STROKES = {
    **dict.fromkeys(("axes.linewidth", "grid.linewidth"), 0.6),
    **{f"{axis}tick.{which}.width": 0.6 for axis in "xy" for which in ("major", "minor")},
    **{f"{axis}tick.major.size": 3.0 for axis in "xy"},
    **{f"{axis}tick.minor.size": 2.0 for axis in "xy"},
    "lines.markersize": 5.4,
    "lines.markeredgewidth": 0.6,
    "hatch.linewidth": 0.5,
    "axes.titlepad": 4.0,
}
SHARED: Settings = {
    "legend.frameon": False,
    "legend.labelspacing": 0.3,
    "legend.columnspacing": 1.5,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "lines.linewidth": LINE,
    "text.hinting": "no_hinting",  # of no use at this resolution, and slow
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "attncli",  # or the bytes would vary
    "text.parse_math": False,  # dollar signs are no formulas
}
INKED = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
GROUNDS = ("axes.facecolor", "figure.facecolor")


@dataclass(frozen=True)
class Theme:
    """The background and text colour of a theme, and its sequential and diverging colour maps."""

    ground: str
    ink: str
    colour_map: str
    diverging: str


THEMES = {
    "light": Theme("#ffffff", "#000000", "Reds", "RdBu_r"),
    "dark": Theme("#161618", "#ececea", "inferno", "berlin"),
    "print": Theme("#ffffff", "#000000", "Greys", "RdGy_r"),
}


@dataclass(frozen=True)
class Sheet:
    """The page of a figure: the user's look, and the settings that follow from it.

    `settings` are matplotlib's, `points` is the size of all text, `theme` the name of the theme and `ground` the colour
    of its background. `dpi` is the resolution of the file, and `size` the requested size in inches, if any. `about` is
    the question of the experiment, if it has one, and `scorers` has the scorer of each label.
    """

    look: Look
    settings: Settings
    points: float
    theme: str
    ground: str
    dpi: float
    size: Sequence[float] | None
    about: str = ""
    scorers: Mapping[str, str] = field(default_factory=dict)

    @property
    def unit(self) -> float:
        """The ratio of `points` to the default size; everything grows with it."""
        return self.points / POINTS

    @property
    def em(self) -> float:
        """The size of titles and labels in inches."""
        return self.points / 72

    def ink(self, share: float = 1.0) -> str:
        """Return the text colour, or a mix of this share of it with the background."""
        return mixed(self.settings["text.color"], self.ground, share)

    def lines(self, labels: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the options of a line for each label. Later markers are smaller, so that they do not hide others."""
        looks = label_looks(labels, self.scorers)
        return {
            label: {
                "label": label,
                "color": getattr(look, self.theme),
                "linewidth": LINE,
                "linestyle": look.grey_dash if self.theme == "print" else look.dash,
                "marker": look.marker,
                "markersize": self.settings["lines.markersize"] * size,
                "markeredgewidth": self.settings["lines.markeredgewidth"],
                "markeredgecolor": self.ground,
            }
            for (label, look), size in zip(looks.items(), np.geomspace(*MARKERS, len(looks)), strict=True)
        }


def look_sheet(look: Look, about: str = "", scorers: Mapping[str, str] | None = None) -> Sheet:
    """Return the sheet of a look: the settings of its theme, with its own options.

    Raises:
        InputError: the picture would have too many dots.
    """
    theme, (width, _) = THEMES[look.theme], look.size or (PAGE, PAGE)
    points, dpi = look.font_size or POINTS * max(1.0, width / PAGE), look.dpi or DPI
    if look.size and dpi > most_dpi(*look.size):
        size = f"{' x '.join(f'{side:g}' for side in look.size)} inches at {dpi:g} dots per inch"
        expected = f"expected at most {MOST_DOTS:,} dots, and {MOST_ALONG:,} along a side"
        raise InputError.of(f"got {size}; {expected}; make the size or dpi smaller", ["size"])
    settings = {
        **{key: value for key, value in matplotlib.rcParamsDefault.items() if not key.startswith("backend")},
        **SHARED,
        **{key: size * points / POINTS for key, size in STROKES.items()},
        **dict.fromkeys(TEXTS, points),
        **dict.fromkeys(INKED, theme.ink),
        **dict.fromkeys(GROUNDS, theme.ground),
        "grid.color": mixed(theme.ink, theme.ground, 0.1),
    }
    return Sheet(look, settings, points, look.theme, theme.ground, dpi, look.size, about, scorers or {})


def most_dpi(width: float, height: float) -> float:
    """Return the highest resolution for a picture of this size in inches."""
    return min(math.sqrt(MOST_DOTS / (width * height)), MOST_ALONG / max(width, height))


def mixed(ink: Any, ground: Any, share: float) -> str:
    """Return the colour with this share of `ink` and the rest of `ground`."""
    red, green, blue = share * np.array(to_rgb(ink)) + (1 - share) * np.array(to_rgb(ground))
    return to_hex((red, green, blue))
