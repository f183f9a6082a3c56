"""Words for the findings of the studies of scores against d: how a metric changes over sizes or heads."""

import math
from collections.abc import Sequence

import numpy as np

from attncli.core.numbers import number
from attncli.results import Result, Row
from attncli.studies.trends import trend

CHANCE = 1.5  # factor on 95 % margins: about three standard errors, since extremes are compared
LEVEL = 1.25  # a metric hardly depends on d if its largest value is at most this times its smallest
POWER_LAW = 0.1  # how far from the line, in natural logarithms, any point of a power law may lie


def change(
    result: Result, rows: Sequence[Row], key: str, margins: Sequence[float] | None = None
) -> tuple[str, list[Row]]:
    """Describe in words how the metric `key` changes over rows of a result; return the text and the rows in it.

    Examples: `rises from 1 (d = 1) to 31 (d = 32)` over sizes, `ranges from 2 (head 0) to 3 (head 4)` over heads, and
    `1.2 at d = 8` for a single row. `margins` are the half-widths of the 95 % intervals of the values, 0 by default.
    """
    if len(rows) == 1:
        where = f" ({place})" if (place := result.place(rows[0])) else ""
        return f"{number(rows[0][key])} at d = {rows[0]['d']}{where}", list(rows)
    values, is_over_sizes = [row[key] for row in rows], over_sizes(rows)
    margins = [0.0] * len(rows) if margins is None or not is_over_sizes else margins
    words, ends = trend(
        values,
        [f"d = {row['d']}" if is_over_sizes else result.place(row) for row in rows],
        lambda a, b: abs(values[a] - values[b]) > CHANCE * math.hypot(margins[a], margins[b]),
        ordered=is_over_sizes,
    )
    return words, [rows[index] for index in ends]


def finding_numbers(result: Result, rows: Sequence[Row], columns: Sequence[str]) -> Row:
    """Return the values of the rows in each of the columns, and the numbers of layers and heads if they have these."""
    numbers: Row = {column: [row[column] for row in rows] for column in columns}
    if "layer" in rows[0]:
        numbers["layer"] = [result.layers[row["layer"]] for row in rows]
    return numbers if rows[0]["head"] is None else numbers | {"head": [row["head"] for row in rows]}


def over_sizes(rows: Sequence[Row]) -> bool:
    """Whether the rows, sorted by d, are of several sizes d, and not of heads or layers."""
    return bool(rows[0]["d"] < rows[-1]["d"] and "layer" not in rows[0])


def power_law(rows: Sequence[Row], key: str) -> float | None:
    """Return the exponent a of the best fit c d^a to the metric `key`; None if it fits badly or hardly changes.

    There is no fit either for fewer than three rows, heads, or values that are not positive.
    """
    sizes, values = ([row[column] for row in rows] for column in ("d", key))
    if len(rows) < 3 or not over_sizes(rows) or not 0 < LEVEL * min(values) < max(values):
        return None
    x, y = np.log(sizes), np.log(values)
    slope, start = np.polyfit(x, y, 1)
    return float(slope) if np.abs(y - slope * x - start).max() <= POWER_LAW else None
