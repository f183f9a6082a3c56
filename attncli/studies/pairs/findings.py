"""How a figure changes with d or from head to head, in words."""

from collections.abc import Sequence

import numpy as np

from attncli.show.numbers import significant, span
from attncli.studies.study import Record

LEVEL = 1.25  # a figure whose largest value is at most this times the smallest hardly depends on d
POWER_LAW = 0.1  # how far from the line, in natural logarithms, any point of a power law may lie


def change(rows: Sequence[Record], key: str, columns: Sequence[str]) -> tuple[str, Record]:
    """The figure `key` in words, and the `columns` at both ends: of the sizes, or of heads where it is least and most.

    Each column is a list of two, also where both ends are alike or there is one row only; `head` is one where there are
    heads.

    `1 at d = 1 to 31 at d = 32, like d^1.00`, `0.954 to 1.06 from d = 1 to 32`, `2 (head 0) to 3 (head 4)`.
    """
    rows = sorted(rows, key=lambda row: row["d"])
    first, last, power = rows[0], rows[-1], None
    if first["d"] < last["d"]:
        words, power = _over_sizes([row["d"] for row in rows], [row[key] for row in rows])
    elif len(rows) > 1:
        first, last = (pick(rows, key=lambda row: float(row[key])) for pick in (min, max))
        words = " to ".join(f"{significant(row[key])} (head {row['head']})" for row in (first, last))
    else:
        words = f"{significant(first[key])} at d = {first['d']}"
    places = [*columns, *(["head"] if first["head"] is not None else [])]
    numbers: Record = {column: [first[column], last[column]] for column in places}
    return words, numbers | ({} if power is None else {"power": power})


def _over_sizes(sizes: Sequence[int], values: Sequence[float]) -> tuple[str, float | None]:
    """With the exponent, where a power law describes the points; on the way, a value far beyond both ends."""
    ends = values[0], values[-1]
    if max(values) <= LEVEL * min(values):
        return f"{span(values)} from d = {sizes[0]} to {sizes[-1]}", None
    places = [f"{significant(value)} at d = {size}" for size, value in zip(sizes, values, strict=True)]
    turns = [value for value in (max(values), min(values)) if value > LEVEL * max(ends) or LEVEL * value < min(ends)]
    over = f" over {places[values.index(turns[0])]}" if turns else ""
    power = _power(sizes, values)
    like = "" if power is None else f", like d^{power:.2f}"
    return f"{places[0]}{over} to {places[-1]}{like}", power


def _power(sizes: Sequence[int], values: Sequence[float]) -> float | None:
    """The exponent a of the best fit c d^a."""
    if min(values) <= 0:
        return None
    x, y = np.log(sizes), np.log(values)
    slope, start = np.polyfit(x, y, 1)
    return float(slope) if np.abs(y - slope * x - start).max() <= POWER_LAW else None
