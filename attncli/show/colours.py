"""How the values of heatmaps become colours: where the colours end, and by which root or logarithm, if any."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.colors import FuncNorm, LogNorm, Normalize, SymLogNorm

from attncli.config.looks import Colours, HeatmapLook
from attncli.show.scales import ROUNDING, Numbers

Limits = tuple[float, float]  # the values at the two ends of the colours
PALE = 0.05  # of the end of linear colours: what is smaller cannot be told from 0
HIDDEN = 0.5  # of a panel's mass; where more is pale, linear colours hide it
BEYOND = 0.05  # of a panel's mass that may lie beyond the end of other colours
WEIGHTS = ("weights", "dropped")  # stages
STEEPEST = 8  # root
DECADES, DECADES_EACH = 6, 3  # of logarithmic colours: of values above 0, and on each side of 0
TICKS = 7
ROOTS = {2: "square root", 3: "cube root"}


@dataclass(frozen=True)
class Scaling:
    """How the panels of a picture are coloured, and where the colours of each end."""

    colours: Colours
    ends: Sequence[Limits]
    root: int = 1

    @property
    def words(self) -> str:
        """Such as `colours by the square root`; empty for linear colours."""
        if self.colours == "linear":
            return ""
        root = ROOTS.get(self.root, f"{self.root}th root")
        return f"colours by the {root if self.colours == 'root' else 'logarithm'}"

    @property
    def ticks(self) -> list[float] | None:
        """Round values at about the same distance on a bar for all panels; None where matplotlib's own are as good."""
        low, high = self.ends[0]
        if self.colours == "linear" or (self.colours == "log" and low > 0):
            return None
        values = self.norm(0).inverse(np.linspace(0, 1, TICKS)).tolist()
        rounded = {math.copysign(_round_up(abs(value) / 1.5), value) if value else 0.0 for value in values}
        return sorted({min(max(value, low), high) for value in rounded})

    def norm(self, panel: int) -> Normalize:
        """From values to 0..1. Negative values have the root or logarithm of their size."""
        low, high = self.ends[panel]
        if self.colours == "linear":
            return Normalize(low, high)
        if self.colours == "log":
            if low > 0:
                return LogNorm(low, high)
            smallest = max(-low, high) / 10**DECADES_EACH
            return SymLogNorm(smallest, vmin=low, vmax=high)
        power = 1 / self.root
        functions = (lambda x: np.sign(x) * np.abs(x) ** power, lambda y: np.sign(y) * np.abs(y) ** self.root)
        return FuncNorm(functions, low, high)


def scaling_of(numbers: Sequence[Numbers], look: HeatmapLook, stage: str = "") -> Scaling:
    """The colours of panels that show these numbers of a stage, which may be infinite.

    Colours are linear, unless the look says otherwise, or they would hide a panel of weights (or of differences of
    weights, by their size): more than half of its mass, the sum of what is drawn, in cells below 5% of the end. Then
    they follow a root: the one that puts the median of the mass of the palest panel closest to 1/e of the colours,
    where small values differ most; the square root at least and the 8th at most.

    Linear colours of weights before dropout end at 0 and 1. Other colours of weights end at the least of 1, 2 or 5
    times a power of ten beyond which less than 5% of any panel's mass lies, or of each panel's with `scale: panel`:
    the first row of a causal mask, whose only weight is 1, is less than that of 20 rows and more. Everything else ends
    at its smallest and largest value; differences at the same distance on both sides of 0. `look.scale` and `look.vmax`
    say otherwise; where all values are above `vmax`, colours begin at 0.

    Logarithmic colours of values from 0 begin six decades below the end at most; of values on both sides of 0, those
    up to a thousandth of the end are linear.
    """
    numbers = [each[np.isfinite(each)] for each in numbers]
    linear, is_weights = _ends(numbers, look, stage), stage in WEIGHTS
    colours = look.colours
    if colours is None:
        hides = is_weights and any(_is_hidden(each, end) for each, (_, end) in zip(numbers, linear, strict=True))
        colours = "root" if hides else "linear"
    if colours == "linear":
        return Scaling(colours, linear)
    ends = linear
    if is_weights and look.scale in (None, "panel") and look.vmax is None:
        own = [_round_up(_quantile(each, 1 - BEYOND)) if each.any() else 0.0 for each in numbers]
        highs = [(each if look.scale == "panel" else max(own)) or 1.0 for each in own]
        ends = [(-high if look.minus else 0.0, high) for high in highs]
    if colours == "log":
        shown = numbers if look.scale == "panel" else [np.concatenate(numbers)] * len(numbers)
        return Scaling(colours, [_from_above_0(each, end) for each, end in zip(shown, ends, strict=True)])
    ratios = [
        end / _quantile(each, 0.5) for each, (_, end) in zip(numbers, ends, strict=True) if each.any() and end > 0
    ]
    root = round(math.log(max(ratios, default=1.0)))
    return Scaling(colours, ends, min(max(root, 2), STEEPEST))


def _ends(numbers: Sequence[Numbers], look: HeatmapLook, stage: str) -> list[Limits]:
    """Where linear colours end, in each panel."""
    scale = look.scale or ("unit" if stage == "weights" and not look.minus else "shared")
    together = np.concatenate(numbers)
    if look.minus and look.vmax is not None:
        ends = [(-look.vmax, look.vmax)] * len(numbers)
    elif scale == "unit":
        ends = [(0.0, look.vmax or 1.0)] * len(numbers)
    else:
        shown = numbers if scale == "panel" else [together] * len(numbers)
        ends = [_limits(each, look.vmax) for each in shown]
    return [(-max(-low, high), max(-low, high)) if look.minus else (low, high) for low, high in ends]


def _limits(values: Numbers, vmax: float | None) -> Limits:
    """The range of values; equal ones have the colour in the middle."""
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    if vmax is not None:
        return (low if low < vmax else 0.0), vmax
    around = 0.0 if low < high else 0.5 * abs(low) or 0.5
    return low - around, high + around


def _is_hidden(values: Numbers, end: float) -> bool:
    sizes = np.abs(values)
    return bool(sizes[sizes < PALE * end].sum() > HIDDEN * sizes.sum())


def _quantile(values: Numbers, share: float) -> float:
    """The size up to which values make up this share of the mass; they are not all 0."""
    sizes = np.sort(np.abs(values), axis=None)
    mass = np.cumsum(sizes)
    return float(sizes[min(np.searchsorted(mass, share * mass[-1]), sizes.size - 1)])


def _round_up(value: float) -> float:
    """The least of 1, 2 and 5 times a power of ten that is not smaller."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step for factor in (1, 2, 5, 10) if (step := float(f"{factor * power:.1g}")) >= value * (1 - ROUNDING))


def _from_above_0(values: Numbers, ends: Limits) -> Limits:
    """The ends of logarithmic colours, which begin above 0 where no value is below it.

    Where there are zeros, which lie below the colours, the smallest value has a colour that can be told from theirs.
    """
    low, high = ends
    if low < 0 or (values < 0).any():
        return ends
    positive = values[values > 0]
    smallest = max(float(positive.min(initial=high)), high / 10**DECADES)
    if positive.size < values.size:
        smallest *= (smallest / high) ** 0.1
    return max(low, min(smallest, high / 10)), high
