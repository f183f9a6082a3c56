"""Ticks and their labels: token names or true indices, as many as can be read."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from attncli.views.fonts import Typeface

TICK_POINTS = 8.0
LINE = 1.25 * TICK_POINTS / 72  # inches from one line of labels to the next
NUMBERS_APART = 0.36  # inches between numbered ticks, where they are not few: each cell's number would be noise
FEW = 4
WORDS_APART = 0.08


@dataclass(frozen=True)
class Ticks:
    """The labelled cells along one axis. `depth` is the room that the labels take beside it, in inches."""

    indices: tuple[int, ...]
    texts: tuple[str, ...]
    depth: float
    rotated: bool = False
    thinned: int = 1  # every how many tokens one is labelled


def key_ticks(names: Sequence[str] | None, count: int, length: float, face: Typeface) -> Ticks:
    """Labels below `count` columns over `length` inches; names that are too wide for their column stand upright."""
    pitch = length / count
    if names is None:
        indices = _numbered(count, pitch, face.width(str(count), TICK_POINTS) + WORDS_APART)
        return Ticks(indices, tuple(map(str, indices)), LINE)
    if pitch > WORDS_APART and _widest(names, face) + WORDS_APART <= pitch:
        return Ticks(tuple(range(count)), tuple(names), LINE)
    return _every(names, pitch, face, rotated=True)


def query_ticks(names: Sequence[str] | None, count: int, length: float, face: Typeface) -> Ticks:
    """Labels left of `count` rows over `length` inches."""
    pitch = length / count
    if names is not None:
        return _every(names, pitch, face, rotated=False)
    indices = _numbered(count, pitch, LINE)
    texts = tuple(map(str, indices))
    return Ticks(indices, texts, _widest(texts, face))


def _every(names: Sequence[str], pitch: float, face: Typeface, rotated: bool) -> Ticks:
    step = max(1, ceil(LINE / pitch - 0.05))  # panels are whole pixels, so that a line may be a little too high
    shown = tuple(names[::step])
    return Ticks(tuple(range(0, len(names), step)), shown, _widest(shown, face), rotated, step)


def _widest(texts: Sequence[str], face: Typeface) -> float:
    return max(face.width(text, TICK_POINTS) for text in texts)


def _numbered(count: int, pitch: float, apart: float) -> tuple[int, ...]:
    """Every cell, or every second, fifth, tenth, ... where ticks would come closer than `apart` inches."""
    if count > FEW:
        apart = max(apart, NUMBERS_APART)
    power = 10 ** max(0, floor(log10(apart / pitch)))
    step = next(step for step in (power, 2 * power, 5 * power, 10 * power) if step * pitch >= apart)
    return tuple(range(0, count, step))
