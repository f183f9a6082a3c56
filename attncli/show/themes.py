"""The settings of matplotlib for a look: its theme, with the user's style file on top."""

import logging
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import to_hex, to_rgb
from matplotlib.font_manager import FontProperties
from matplotlib.style import _STYLE_BLACKLIST  # type: ignore[attr-defined] # ignored by matplotlib, too

from attncli.config.looks import FEWEST_DPI, LARGEST, MOST_DPI, SMALLEST, Look
from attncli.config.opening import check_regular
from attncli.errors import InputError, did_you_mean, show
from attncli.show.looks import LabelLook, looks_of

Settings = dict[Any, Any]  # rcParams
DPI = 200
DOTS = ("savefig.dpi", "figure.dpi")
MOST_DOTS, MOST_ALONG = 100_000_000, 60_000  # limits of a picture: 2 GB, and matplotlib's own
POINTS = 9.0  # size of titles and labels; everything else grows with them
THICKER, THICKEST = 0.45, 3.0  # width added for each line above, and the largest factor
SHRINK, STEPS = 0.028, 12  # each marker is smaller than the previous one, for 12 steps
TITLES = ("font.size", "axes.titlesize", "axes.labelsize", "figure.titlesize", "figure.labelsize")
SMALL_TEXTS = ("xtick.labelsize", "ytick.labelsize", "legend.fontsize", "legend.title_fontsize")
STROKES = {
    **dict.fromkeys(("axes.linewidth", "grid.linewidth"), 0.6),
    **{f"{axis}tick.{which}.width": 0.6 for axis in "xy" for which in ("major", "minor")},
    **{f"{axis}tick.major.size": 3.0 for axis in "xy"},
    **{f"{axis}tick.minor.size": 2.0 for axis in "xy"},
    "lines.linewidth": 1.2,
    "lines.markersize": 5.4,
    "lines.markeredgewidth": 0.6,
    "hatch.linewidth": 0.5,
    "axes.titlepad": 4.0,
}
SHARED: Settings = {
    "legend.frameon": False,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "text.hinting": "no_hinting",  # of no use at this resolution, and slow
    "svg.fonttype": "none",  # text stays text
}
INKED = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
GROUNDS = ("axes.facecolor", "figure.facecolor")
DARKER = 1.5  # red + green + blue below this: the background is dark
EXPECTED = "expected a style file of matplotlib, with lines such as `axes.grid: False`"
# Style files cannot change these: they would change the size, turn texts into formulas, or vary the bytes.
OURS: Settings = {
    "savefig.bbox": None,
    "savefig.dpi": "figure",
    "svg.hashsalt": "attncli",
    "svg.id": None,
    "text.usetex": False,
    "text.parse_math": False,  # dollar signs are no formulas
    "axes.formatter.use_mathtext": False,
    "figure.autolayout": False,
    "figure.constrained_layout.use": False,
}


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
    """The page of a figure: the user's look, and the settings and colours derived from it.

    `theme` is the theme with colours that are visible on the background `ground`. `dpi` is the resolution of the file,
    `size` the requested size of the page in inches, if any. `cycle` has the colours of the style file, if any.
    """

    look: Look
    settings: Settings
    theme: str
    dpi: float
    ground: Any
    size: Sequence[float] | None
    cycle: Sequence[Any]

    @property
    def points(self) -> float:
        """The size of titles and labels in points."""
        return float(FontProperties(size=self.settings["axes.labelsize"]).get_size_in_points())

    @property
    def unit(self) -> float:
        """The ratio of `points` to the default size; everything grows with it."""
        return self.points / POINTS

    @property
    def em(self) -> float:
        """The size of titles and labels in inches."""
        return self.points / 72

    @property
    def diverging(self) -> str:
        """The name of the diverging colour map."""
        return THEMES[self.theme].diverging

    def ink(self, share: float = 1.0) -> str:
        """Return the text colour, or a mix of this share of it with the background."""
        return mixed(self.settings["text.color"], self.ground, share)

    def lines(self, labels: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the options of a line for each label. Lines below others are thicker, so they show on both sides."""
        looks, edge = looks_of(labels), {"markeredgecolor": self.ground}
        found = {}
        for index, (label, look) in enumerate(looks.items()):
            above = len(looks) - 1 - index
            found[label] = {
                "color": self.colour(look),
                "linewidth": self.settings["lines.linewidth"] * (1 + min(THICKER * above, THICKEST - 1)),
                "linestyle": look.dash if self.theme == "print" or look.is_dashed else self.settings["lines.linestyle"],
                "marker": look.marker,
                "markersize": self.settings["lines.markersize"] * (1 - SHRINK * (index % STEPS)),
                "markeredgewidth": self.settings["lines.markeredgewidth"],
                **edge,
            }
        return found

    def colour(self, look: LabelLook) -> Any:
        """Return the colour of a label, from the style file's cycle if it has one, else from the theme."""
        if self.cycle:
            return self.cycle[look.index % len(self.cycle)]
        return getattr(look, self.theme)


def sheet_of(look: Look) -> Sheet:
    """Return the sheet of a look: the settings of its theme, then its style file, then its own options.

    Raises:
        InputError: the style file cannot be read or has an unknown setting, or the size is out of bounds.
    """
    styled = {} if look.style is None else style_of(Path(look.style))
    theme, points = THEMES[look.theme], look.font_size or POINTS
    ink, grounds = styled.get("text.color", theme.ink), (*(styled.get(key) for key in GROUNDS), theme.ground)
    ground = next(each for each in grounds if each not in (None, "none"))
    # a style file may have changed the background from light to dark
    shown = look.theme if look.theme == "print" else "dark" if sum(to_rgb(ground)) < DARKER else "light"
    all_texts = dict.fromkeys((*TITLES, *SMALL_TEXTS), points)
    settings = {
        **{key: value for key, value in matplotlib.rcParamsDefault.items() if not key.startswith("backend")},
        **SHARED,
        **{key: size * points / POINTS for key, size in STROKES.items()},
        **all_texts,
        **dict.fromkeys(INKED, ink),
        **dict.fromkeys(GROUNDS, ground),
        "grid.color": mixed(ink, ground, 0.1),
        "image.cmap": THEMES[shown].colour_map,
        **styled,
        **(all_texts if look.font_size else {}),
        **OURS,
    }
    dpi = next(each for each in (look.dpi, *(styled.get(key) for key in DOTS), DPI) if isinstance(each, int | float))
    size = look.size or styled.get("figure.figsize")
    _check_size(look, size or (SMALLEST, SMALLEST), dpi)
    cycle = styled["axes.prop_cycle"].by_key().get("color", ()) if "axes.prop_cycle" in styled else ()
    return Sheet(look, settings, shown, dpi, ground, size, cycle)


def _check_size(look: Look, size: Sequence[float], dpi: float) -> None:
    """Raise InputError if a style file has a size or resolution out of bounds, or if the picture has too many dots."""
    width, height = size
    given = f"{width:g} x {height:g} inches at {dpi:g} dots per inch"
    if not (all(SMALLEST <= side <= LARGEST for side in size) and FEWEST_DPI <= dpi <= MOST_DPI):
        expected = f"expected sides of {SMALLEST:g} to {LARGEST:g} inches, and {FEWEST_DPI} to {MOST_DPI} dots per inch"
        raise InputError.of(f'got "{look.style}", which has {given}; {expected}', ["style"])
    if dpi > most_dpi(width, height):
        expected = f"expected at most {MOST_DOTS:,} dots, and {MOST_ALONG:,} along a side"
        raise InputError.of(f"got {given}; {expected}; make the size or dpi smaller", ["size"])


def most_dpi(width: float, height: float) -> float:
    """Return the highest resolution for a picture of this size in inches."""
    return min(math.sqrt(MOST_DOTS / (width * height)), MOST_ALONG / max(width, height))


def mixed(ink: Any, ground: Any, share: float) -> str:
    """Return the colour with this share of `ink` and the rest of `ground`."""
    red, green, blue = share * np.array(to_rgb(ink)) + (1 - share) * np.array(to_rgb(ground))
    return to_hex((red, green, blue))


def style_of(path: Path) -> Settings:
    """Return the settings in a style file of matplotlib, except settings unrelated to style, such as a backend.

    Raises:
        InputError: the file cannot be read, or has an unknown setting or an invalid value.
    """
    problems = list[str]()
    try:
        check_regular(path)
        with _collected_warnings(problems):
            found = matplotlib.rc_params_from_file(path, use_default_template=False)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise InputError.of(f'got "{path}", which cannot be read: {reason}; {EXPECTED}', ["style"]) from error
    if problems:
        raise InputError.of(f'got "{path}", {problems[0]}; {EXPECTED}', ["style"])
    return {key: value for key, value in found.items() if key not in _STYLE_BLACKLIST}


@contextmanager
def _collected_warnings(problems: list[str]) -> Iterator[None]:
    """Add the warnings that matplotlib would log about a style file to `problems`."""

    def collect(record: logging.LogRecord) -> bool:
        args: Any = record.args
        if isinstance(args, dict):
            near = did_you_mean(args["key"], matplotlib.rcParamsDefault)
            cure = f"; {near}" if near.startswith("did") else ""
            problems.append(f"line {args['line_no']}: unknown setting {show(args['key'])}{cure}")
        elif len(args or ()) > 2:
            reason = f": {args[-1]}" if isinstance(args[-1], Exception) else ""
            problems.append(f"line {args[1]}, {show(str(args[2]).strip())}{reason}")
        return False

    log = logging.getLogger(matplotlib.__name__)
    log.addFilter(collect)
    try:
        with warnings.catch_warnings(action="ignore"):  # about deprecated settings
            yield
    finally:
        log.removeFilter(collect)
