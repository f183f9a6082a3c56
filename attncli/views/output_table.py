"""The output of one matrix of weights, where it is small enough to be read: what the weights were for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from attncli.show import numbers
from attncli.views.layout import Layout
from attncli.views.weight_table import FAINT

if TYPE_CHECKING:
    from torch import Tensor

WIDEST = 8  # features; longer outputs are left to tensors.safetensors
TITLE = "output"


def output_table(output: "Tensor", queries: Sequence[str], layout: Layout) -> Table | None:
    """Rows of `output` (n, v) for the queries shown, or None where they would not fit: one query needs no names."""
    if output.shape[-1] > WIDEST:
        return None
    written = numbers.significant if output.shape[-2] == 1 else numbers.statistic  # columns want equal decimals
    rows = [[written(value) for value in row] for row in output[list(layout.rows)].tolist()]
    names = [TITLE] if len(rows) == 1 else list(queries)
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    if max(map(cell_len, [TITLE, *names])) + sum(width + 2 for width in widths) > layout.width:
        return None
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=len(rows) > 1)
    table.add_column(Text(TITLE, style=FAINT), justify="right")
    for feature in range(output.shape[-1]):
        table.add_column(Text(str(feature), style=FAINT), justify="right")
    for name, row in zip(names, rows, strict=True):
        table.add_row(Text(name, style=FAINT if len(rows) == 1 else ""), *row)
    return table
