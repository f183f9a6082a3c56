"""The background of a weight in the terminal: pale to dark red over 0 to 1, as in the heatmaps."""

from functools import lru_cache

from rich.color import Color
from rich.style import Style

RAMP = ((255, 244, 238), (252, 186, 160), (247, 105, 75), (198, 26, 30), (100, 2, 14))  # at weights 0, 1/4, ... 1
STEPS = 50  # finer than the eye can tell, and few enough to be kept
BLACK, WHITE = Color.from_rgb(0, 0, 0), Color.from_rgb(255, 255, 255)


def shade(weight: float) -> Style:
    """Background for a weight, and black or white text, whichever stands out more; none for NaN."""
    if weight != weight:
        return Style.null()
    return _shade(round(min(max(weight, 0.0), 1.0) * STEPS))


@lru_cache(maxsize=STEPS + 1)
def _shade(step: int) -> Style:
    place = step / STEPS * (len(RAMP) - 1)
    index = min(int(place), len(RAMP) - 2)
    low, high = RAMP[index], RAMP[index + 1]
    rgb = [round(a + (b - a) * (place - index)) for a, b in zip(low, high, strict=True)]
    return Style(color=BLACK if _luminance(rgb) > 0.179 else WHITE, bgcolor=Color.from_rgb(*rgb))


def _luminance(rgb: list[int]) -> float:
    """Relative luminance (WCAG 2.2): above 0.179 black text has the higher contrast, below it white."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (part / 255 for part in rgb)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
