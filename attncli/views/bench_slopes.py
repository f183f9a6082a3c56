"""By which power of a size a time or a number of bytes grows."""

import math
from collections.abc import Sequence

import numpy as np

Point = tuple[float, float]


def slope(points: Sequence[Point]) -> float | None:
    """The exponent a of the best fit c x^a over the larger half of the sizes, at least two; None for a single one.

    At small sizes the time of a call is what it takes to start it, which does not depend on the size.
    """
    known = sorted((x, y) for x, y in points if y > 0 and math.isfinite(y))
    sizes = sorted({x for x, _ in known})
    if len(sizes) < 2:
        return None
    larger = set(sizes[-max(2, math.ceil(len(sizes) / 2)) :])
    x, y = (np.log([point[i] for point in known if point[0] in larger]) for i in (0, 1))
    return float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())
