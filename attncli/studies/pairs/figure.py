"""What the pictures of the studies against d share: points at sizes or heads, their bars, and what cannot be shown."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from attncli.show.numbers import printable
from attncli.show.panels import look_of, sizes_axis
from attncli.studies.pairs.result import Curve

Numbers = NDArray[np.float64]
DODGE = 0.5  # the part of a head's place, or of the only size, that the labels share out among them
MARGIN = 1.6  # between a size and the edge of its place, as a factor


class Places:
    """Where the points of every label stand: at their d, or of real tensors at their head, side by side."""

    def __init__(self, curves: Mapping[str, Curve], real: bool) -> None:
        self.curves, self.real = curves, real
        self._sizes = sorted({int(d) for curve in curves.values() for d in curve["d"]})

    def set_up(self, axes: Axes) -> None:
        """The axis below a panel."""
        if not self.real:
            sizes_axis(axes, self._sizes)
            axes.set_xlabel("d")
        elif any("head" in curve for curve in self.curves.values()):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.set_xlabel("head")
        else:
            axes.set_xlim(-0.5, 0.5)
            axes.set_xticks([0], ["all pairs"])

    def of(self, index: int) -> Numbers:
        """The places of the label with this index."""
        curve = list(self.curves.values())[index]
        aside = DODGE * ((index + 0.5) / len(self.curves) - 0.5)
        if self.real:
            return np.asarray(curve.get("head", np.zeros(1)) + aside)
        return np.asarray(curve["d"] * MARGIN ** (aside if len(self._sizes) == 1 else 0.0))

    def draw(self, axes: Axes, index: int, values: Numbers, low: Numbers, high: Numbers, **look: Any) -> None:
        """The points of a label with a bar from `low` to `high` each; NaN is left out."""
        axes.vlines(self.of(index), low, high, colors=look_of(index)["color"], linewidth=1.2, zorder=2.5)
        axes.plot(self.of(index), values, **look_of(index) | look, zorder=3)

    def tell_lost(self, shown: Mapping[str, Sequence[bool]], figure: str, note: Callable[[str], None]) -> None:
        """Note the points that a panel cannot show."""
        lost = {label: self._names(label, [not each for each in drawn]) for label, drawn in shown.items()}
        places = [f"{printable(label)} ({', '.join(names)})" for label, names in lost.items() if names]
        if places:
            note(f"not drawn, as not a positive number: {figure} of {', '.join(places)}")

    def _names(self, label: str, chosen: Sequence[bool]) -> list[str]:
        curve, key = self.curves[label], "head" if self.real else "d"
        if key not in curve:
            return ["all pairs"] if any(chosen) else []
        return [f"{key} {'= ' if key == 'd' else ''}{int(place)}" for place in curve[key][np.asarray(chosen)]]
