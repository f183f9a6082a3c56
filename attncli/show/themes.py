"""What matplotlib's settings are in each theme, and with a style file of the user's upon it."""

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
from matplotlib.style import _STYLE_BLACKLIST  # type: ignore[attr-defined] # what matplotlib ignores in a style, too

from attncli.config.looks import FEWEST_DPI, LARGEST, MOST_DPI, SMALLEST, Look
from attncli.config.opening import check_regular
from attncli.errors import InputError, did_you_mean, show
from attncli.show.looks import LabelLook, looks_of

Settings = dict[Any, Any]  # of matplotlib, by its own names
DPI = 200
DOTS = ("savefig.dpi", "figure.dpi")
MOST_DOTS, MOST_ALONG = 100_000_000, 60_000  # of a picture, which is drawn within 2 GB; along a side, as of matplotlib
POINTS = 9.0  # of titles and labels; everything else grows with them
THICKER, THICKEST = 0.45, 3.0  # each line is so much thicker than the next, at most so many times as thick
SHRINK, STEPS = 0.028, 12  # markers: each is so much smaller than the one before, so many times
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
DARKER = 1.5  # the sum of red, green and blue from which a ground counts as light
EXPECTED = "expected a style file of matplotlib, with lines such as `axes.grid: False`"
# What no style file changes: files would be of another size, texts formulas, or the same picture other bytes.
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
    """The ground and the ink of a theme, and its colour maps: from small to large, and from below 0 to above it."""

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
    """What a figure is drawn on: the user's look, the settings of matplotlib that follow from it, and its colours.

    `theme` has the colours that can be seen on the ground. `dpi` is the file's, `size` the page's in inches,
    where it is given; `cycle` has the colours of the style file, if it has any.
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
        """The size of titles and labels."""
        return float(FontProperties(size=self.settings["axes.labelsize"]).get_size_in_points())

    @property
    def unit(self) -> float:
        """The ratio of that size to the usual one: everything grows with it."""
        return self.points / POINTS

    @property
    def em(self) -> float:
        """That size in inches."""
        return self.points / 72

    @property
    def diverging(self) -> str:
        """The name of a colour map from below 0 to above it."""
        return THEMES[self.theme].diverging

    def ink(self, share: float = 1.0) -> str:
        """The colour of text, or one with so much of it and the rest of the ground."""
        return mixed(self.settings["text.color"], self.ground, share)

    def lines(self, labels: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the options of a line for each label, thinner than the lines below it, which show on both sides."""
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
        """The colour of a label: of the style file's cycle, if it has one, else of the theme."""
        if self.cycle:
            return self.cycle[look.index % len(self.cycle)]
        return getattr(look, self.theme)


def sheet_of(look: Look) -> Sheet:
    """The settings of a look: its theme, its style file over that, and then what it says itself.

    Raises:
        InputError: a style file that cannot be read, or with what matplotlib does not know.
    """
    styled = {} if look.style is None else style_of(Path(look.style))
    theme, points = THEMES[look.theme], look.font_size or POINTS
    ink, grounds = styled.get("text.color", theme.ink), (*(styled.get(key) for key in GROUNDS), theme.ground)
    ground = next(each for each in grounds if each not in (None, "none"))
    # the theme whose colours can be seen on the ground, which a style file may have changed from light to dark
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
    """Refuse what a style file may have beyond the bounds of looks, and pictures that would not fit into memory."""
    width, height = size
    given = f"{width:g} x {height:g} inches at {dpi:g} dots per inch"
    if not (all(SMALLEST <= side <= LARGEST for side in size) and FEWEST_DPI <= dpi <= MOST_DPI):
        expected = f"expected sides of {SMALLEST:g} to {LARGEST:g} inches, and {FEWEST_DPI} to {MOST_DPI} dots per inch"
        raise InputError.of(f'got "{look.style}", which has {given}; {expected}', ["style"])
    if dpi > most_dpi(width, height):
        expected = f"expected at most {MOST_DOTS:,} dots, and {MOST_ALONG:,} along a side"
        raise InputError.of(f"got {given}; {expected}; make the size or dpi smaller", ["size"])


def most_dpi(width: float, height: float) -> float:
    """As many dots per inch as a picture of so many inches may have."""
    return min(math.sqrt(MOST_DOTS / (width * height)), MOST_ALONG / max(width, height))


def mixed(ink: Any, ground: Any, share: float) -> str:
    """A colour between the ground and the ink, with so much of the ink."""
    red, green, blue = share * np.array(to_rgb(ink)) + (1 - share) * np.array(to_rgb(ground))
    return to_hex((red, green, blue))


def style_of(path: Path) -> Settings:
    """The settings in a style file of matplotlib, without those that no picture has, such as a backend.

    Raises:
        InputError: it cannot be read, or has what matplotlib does not know.
    """
    problems = list[str]()
    try:
        check_regular(path)
        with _listening(problems):
            found = matplotlib.rc_params_from_file(path, use_default_template=False)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise InputError.of(f'got "{path}", which cannot be read: {reason}; {EXPECTED}', ["style"]) from error
    if problems:
        raise InputError.of(f'got "{path}", {problems[0]}; {EXPECTED}', ["style"])
    return {key: value for key, value in found.items() if key not in _STYLE_BLACKLIST}


@contextmanager
def _listening(problems: list[str]) -> Iterator[None]:
    """What matplotlib would say of a style file in its log goes to `problems`."""

    def hear(record: logging.LogRecord) -> bool:
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
    log.addFilter(hear)
    try:
        with warnings.catch_warnings(action="ignore"):  # of settings that matplotlib is about to give up
            yield
    finally:
        log.removeFilter(hear)
