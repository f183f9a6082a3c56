"""Describe a curve in words by its first value, its last value, and its extremum."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from attncli.core.numbers import number

FLAT = 1.05  # a curve with a largest/smallest value up to this stays in its range


def trend(
    values: Sequence[float],
    names: Sequence[str],
    differ: Callable[[int, int], bool] = lambda a, b: True,
    *,
    ordered: bool = True,
) -> tuple[str, list[int]]:
    """Return a phrase about the values at these places, and the indices of the values in the phrase.

    The phrase has a form such as `rises from 0.148 (d = 1) to 0.332 (d = 16), then falls to 2.8e-04 (d = 1024)`,
    `stays between 0.124 and 0.129 (d = 1 to d = 1024)`, or `ranges from 0.5 (d = 4) to 3 (d = 16)`, the only form for
    places that are not `ordered` and for curves that turn more than once.

    Two values differ if their rounded texts differ, and `differ(a, b)` of their indices is true: chance does not
    explain the difference. A step back that chance explains is no turn.
    """
    texts = [number(value, digits=3) for value in values]
    places = [f"{text} ({name})" for text, name in zip(texts, names, strict=True)]
    last, ends = len(values) - 1, f"({names[0]} to {names[-1]})"
    low, high = (pick(range(len(values)), key=values.__getitem__) for pick in (min, max))

    def apart(a: int, b: int) -> bool:
        return texts[a] != texts[b] and differ(a, b)

    def is_monotone(start: int, end: int) -> bool:
        """Whether no step from one value to another goes back, beyond chance, and the two differ."""
        sign, furthest = (1 if values[end] > values[start] else -1), start
        for index in range(start, end + 1):
            step = sign * (values[index] - values[furthest])
            furthest = index if step > 0 else furthest
            if step < 0 and apart(furthest, index):
                return False
        return apart(start, end)

    if last == 0:
        return f"is {places[0]}", [0]
    if texts[low] == texts[high]:
        return f"stays at {texts[low]} {ends}", [0, last]
    turns = [index for index in (low, high) if apart(index, 0) and apart(index, last)]
    path = [0, *turns, last]
    is_simple = ordered and len(turns) <= 1 and all(is_monotone(*step) for step in pairwise(path))
    is_flat = ordered and 0 < values[high] <= FLAT * values[low]
    if is_flat or not apart(low, high):
        return f"{'stays' if is_flat else 'lies'} between {texts[low]} and {texts[high]} {ends}", [0, last]
    if not is_simple:
        return f"ranges from {places[low]} to {places[high]}", [low, high]
    first, second = ("rises", "falls") if values[path[1]] > values[0] else ("falls", "rises")
    text = f"{first} from {places[0]} to {places[path[1]]}"
    return f"{text}, then {second} to {places[last]}" if turns else text, path
