"""How numbers are written: in cells, where there is room for them, and beside colour bars."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from attncli.views.fonts import Typeface
from attncli.views.heatmap.colours import Cells, valid_values
from attncli.views.heatmap.frames import Frame

Annotate = Literal["auto", "yes", "no"]
POINTS = 7.0
LEAST_POINTS = {"auto": 6.0, "yes": 3.5}
MOST = {"auto": 400, "yes": 5000}  # in a picture: each takes a millisecond to draw


@dataclass(frozen=True)
class Numbers:
    """How the numbers in the cells are written: a format, and the size of the font."""

    spec: str
    points: float


def numbers_for(annotate: Annotate, frames: Sequence[Frame], shown: Sequence[Cells], face: Typeface) -> Numbers | None:
    """How the numbers are written, the same in all panels; None where none are wanted or there is no room for them."""
    count = sum(cells.count() for cells in shown)
    if annotate == "no" or not 0 < count <= MOST[annotate]:
        return None
    if any(cells.shape != frame.panel.values.shape for frame, cells in zip(frames, shown, strict=True)):
        return None
    values = valid_values(shown)
    spec = cell_format(values)
    widest = max((face.width(number_text(float(value), spec), 1.0) for value in values), default=0.1)
    points = POINTS
    for frame in frames:
        n, m = frame.panel.values.shape
        points = min(points, frame.box.width / m / widest / 1.15, frame.box.height / n * 72 / 1.4)
    return Numbers(spec, points) if points >= LEAST_POINTS[annotate] else None


def number_texts(values: Sequence[float]) -> list[str]:
    """Numbers with as few digits as tell them apart, the same for all."""
    apart = min(np.diff(sorted(values)), default=0.0) / 20
    kind = "f" if 1e-3 <= max(map(abs, values)) < 1e5 else "e"
    for digits in range(17):
        spec = f"z.{digits}{kind}"
        if all(abs(float(f"{value:{spec}}") - value) <= apart for value in values):
            break
    return [number_text(value, spec) for value in values]


def number_text(value: float, spec: str) -> str:
    """A number as Python formats it, but with a true minus and a short exponent."""
    text = f"{value:{spec}}".replace("inf", "∞").replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    return text.replace("-", "−")


def cell_format(values: np.ndarray[Any, Any]) -> str:
    """One format for the numbers in all cells, at most five characters or so."""
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    if largest < 0.005 or largest >= 1e4:
        return "z.0e" if largest else "z.2f"
    return "z.2f" if largest < 10 else "z.1f" if largest < 100 else "z.0f"
