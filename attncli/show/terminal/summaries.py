"""Summaries of the layers of a model: a line a layer, and one for neighbours that do the same."""

from collections.abc import Iterator, Mapping
from itertools import groupby

from rich.console import RenderableType

from attncli.core.numbers import number
from attncli.errors import listed, number_ranges, printable
from attncli.results import Row
from attncli.show.terminal.tables import Cells, blocks, ends, left_out, titled

MOST_LINES, MOST_KEYS = 20, 2
SELDOM = {"padding": None, "softcap": None, "sinks": False, "groups": 1}  # without a column if all layers have these
WORDS, NUMBERS = ("mask", "padding"), ("scale", "softcap", "groups", "sinks")


def summary_lines(
    summaries: Mapping[str, Row], layers: Mapping[str, int], width: int, most: int | None
) -> Iterator[RenderableType]:
    """Yield a table with the summary of each layer's first call, given the number of each layer; all if `most` is None.

    Neighbours that agree but for their largest product and strongest key share a line, unless `most` is None.
    """
    first = [{**row, "layer": layers[name]} for name, row in summaries.items() if "#" not in name]
    if not first:
        return
    facts = [key for key in (*WORDS, *NUMBERS) if any(row[key] != SELDOM.get(key, row) for row in first)]
    own = ["layer"] if most is None else []
    lines = [[*line] for _, line in groupby(first, lambda row: [row[key] for key in (*facts, *own)])]
    chosen = ends(lines, None if most is None else min(most, MOST_LINES))

    def column(key: str) -> Cells:
        return Cells(key, [number(line[0][key]) for line in chosen])

    numbers = [", ".join(number_ranges([row["layer"] for row in line])).replace(" to ", "-") for line in chosen]
    strongest = [
        listed(list(dict.fromkeys(printable(row["strongest_key"]) for row in line)), MOST_KEYS) for line in chosen
    ]
    names = [
        Cells("layer", numbers),
        *(column(key) for key in WORDS if key in facts),
        Cells("strongest key", strongest),
    ]
    products = [[row["largest_product"] for row in line] for line in chosen]
    largest = [number(None if None in line else max(line), 3) for line in products]
    figures = [*(column(key) for key in NUMBERS if key in facts), Cells("largest\nproduct", largest)]
    yield from titled("What each layer does", blocks(names, figures, width))
    yield from left_out(len(lines) - len(chosen), len(lines), "lines")
