"""Describe a curve in words: it rises, falls, turns once, or stays in a range."""

import math
from collections.abc import Callable, Sequence
from functools import partial

from attncli.numbers import number

CHANCE = 1.5  # factor on 95 % margins: about three standard errors, since extremes are compared
FLAT = 1.05  # a curve with a largest/smallest value up to this stays in its range


_written = partial(number, digits=3)


def trend(
    values: Sequence[float],
    names: Sequence[str],
    margins: Sequence[float] | None = None,
) -> tuple[str, list[int]]:
    """Return a phrase about the values at these places, and the indices of the values in the phrase.

    The phrase has a form such as `rises from 0.148 (d = 1) to 0.332 (d = 16), then falls to 2.8e-04 (d = 1024)`,
    `stays between 0.124 and 0.129 (d = 1 to d = 1024)`, or `is lowest, 0.5 (d = 4), and highest, 3 (d = 16)`.

    Two values differ if their rounded texts differ, and if they are further apart than chance explains: `margins` are
    the half-widths of their 95 % intervals, 0 by default.
    """
    margins = [0.0] * len(values) if margins is None else margins
    named = [f"{_written(value)} ({name})" for value, name in zip(values, names, strict=True)]

    def differ(a: int, b: int) -> bool:
        margin = CHANCE * math.hypot(margins[a], margins[b])
        return _written(values[a]) != _written(values[b]) and abs(values[a] - values[b]) > margin

    path = course(values, differ)
    low, high = (pick(range(len(values)), key=values.__getitem__) for pick in (min, max))
    is_flat = 0 < values[high] <= FLAT * values[low]
    if len(values) == 1:
        return f"is {named[0]}", [0]
    if _written(values[low]) == _written(values[high]):
        return f"stays at {_written(values[low])} ({names[0]} to {names[-1]})", [0, len(values) - 1]
    if is_flat if len(path) > 2 else not differ(*path):
        between = f"{'stays' if is_flat else 'lies'} between {_written(values[low])} and {_written(values[high])}"
        return f"{between} ({names[0]} to {names[-1]})", [0, len(values) - 1]
    if len(path) > 3:
        return f"is lowest, {named[low]}, and highest, {named[high]}", [low, high]
    rises = values[path[0]] < values[path[1]]
    text = f"{'rises' if rises else 'falls'} from {named[path[0]]} to {named[path[1]]}"
    return text + "".join(f", then {'falls' if rises else 'rises'} to {named[index]}" for index in path[2:]), path


def course(values: Sequence[float], differ: Callable[[int, int], bool]) -> list[int]:
    """Return the indices of the first value, of turning points, and of the last value.

    `differ(a, b)` is whether the values at two indices differ. A step back that does not differ is no turning point.
    """
    path = [0, *_turns(values, differ), len(values) - 1]
    while len(path) > 2 and not differ(path[-2], path[-1]):
        del path[-2]
    while len(path) > 2 and not differ(path[0], path[1]):
        del path[1]
    return path


def _turns(values: Sequence[float], differ: Callable[[int, int], bool]) -> list[int]:
    """Return the indices of turning points; `differ(a, b)` is whether the values at two indices differ."""
    turns, low, high, sign = list[int](), 0, 0, 0  # +1 while they rise, -1 while they fall
    for index, value in enumerate(values):
        low, high = (index if value < values[low] else low), (index if value > values[high] else high)
        if sign >= 0 and differ(index, high) and value < values[high]:
            if sign:
                turns.append(high)
            sign, low, high = -1, index, index
        elif sign <= 0 and differ(index, low) and value > values[low]:
            if sign:
                turns.append(low)
            sign, low, high = 1, index, index
    return turns
