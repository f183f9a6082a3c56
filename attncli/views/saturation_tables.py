"""The tables of the `saturation` study: how peaked the weights are, and what gets through the softmax's gradient."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from attncli.runs.records import SweepResult
from attncli.show.numbers import counted, entries, figure, short, sizes
from attncli.show.tables import Cells, stacked
from attncli.studies.study import Record
from attncli.views.sweep_tables import (
    Columns,
    by_label,
    columns,
    faint,
    formulas,
    heading,
    labels,
    same,
    shortened,
    stacked_parts,
)

LEGEND = (
    "entropy / ln m (1 for uniform weights), largest weight and effective keys are means over the rows; Jacobian is "
    "the Frobenius norm of the softmax Jacobian, diag(p) - p p^T, its median, quartiles and mean over the rows; query "
    "gradient is the median norm of the gradient that reaches the query from a pooled value that is standard normal "
    "per key"
)
FIGURES: Columns = (
    ("entropy", "entropy\n/ ln m", figure),
    ("max_weight", "largest\nweight", short),
    ("effective_keys", "effective\nkeys", short),
    ("jacobian_median", "Jacobian\nmedian", short),
    ("jacobian_q25", "\n25 %", short),
    ("jacobian_q75", "\n75 %", short),
    ("jacobian_mean", "\nmean", short),
    ("query_gradient_median", "query\ngradient", short),
)


def saturation_tables(result: SweepResult, width: int, full: bool) -> Iterator[RenderableType]:
    """One table a label, one row a d or head; one table for all where each has a single row."""
    yield Text(f"{entries(result.settings)}; {', '.join(_shared(result.records))}")
    yield Text(LEGEND)
    groups = by_label(result.records)
    if all(len(records) == 1 for records in groups.values()):
        yield Text()
        yield from _table(labels(result.records), result.records, width, full)
        yield Text()
        yield from formulas(result)
        return
    for label, records in groups.items():
        yield Text()
        yield from heading(result, label, records)
        yield from _table([], records, width, full)


def _table(names: Sequence[Cells], records: Sequence[Record], width: int, full: bool) -> Iterator[RenderableType]:
    shown, left_out = shortened(records, full)
    key = "head" if shown[0]["head"] is not None else "d"
    first = names or [Cells(key, [str(record[key]) for record in shown])]
    yield from stacked_parts(stacked(first, columns(_columns(records), shown), width))
    yield from faint(left_out)


def _columns(records: Sequence[Record]) -> Columns:
    """Keys and rows have columns of their own only where they change."""
    changing = [(key, key, counted) for key in ("keys", "rows") if not same(records, key)]
    return [*changing, *FIGURES]


def _shared(records: Sequence[Record]) -> list[str]:
    """The sizes that all records share."""
    return [*([f"d = {records[0]['d']}"] if same(records, "d") else []), *sizes(records)]
