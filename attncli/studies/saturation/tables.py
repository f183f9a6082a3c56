"""The tables of the study `saturation`: how peaked the weights are, and what gets through the softmax's gradient."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from attncli.show.numbers import entries, sizes
from attncli.show.tables import formulas, heading, pick, remark
from attncli.show.tables import tables as blocks
from attncli.studies.saturation.study import COLUMNS
from attncli.studies.study import Record, Result, by_label

LEGEND = (
    "entropy, largest weight and effective keys are means over the rows; Jacobian is the Frobenius norm of the softmax "
    "Jacobian diag(p) - p p^T; query gradient is the median norm of the gradient that reaches the query from a pooled "
    "standard normal value"
)
CORRELATED = "all keys of a row are correlated with the query alike: this is not one matching key among others"
FIGURES = (
    "entropy", "max_weight", "effective_keys",
    "jacobian_median", "jacobian_q25", "jacobian_q75", "jacobian_mean", "query_gradient_median",
)  # fmt: skip


def tables(result: Result, *, width: int, full: bool, csv: str | None) -> Iterator[RenderableType]:
    """One table a label, one row a d or head; one table for all where each has a single row."""
    records = result.records
    shared = [f"d = {records[0]['d']}"] if _same(records, "d") else []
    yield Text(f"{entries(result.settings)}; {', '.join([*shared, *sizes(records)])}; {LEGEND}")
    yield from remark(CORRELATED if result.settings.get("rho") else "")
    groups = by_label(records)
    if all(len(rows) == 1 for rows in groups.values()):
        yield Text()
        yield from _table("label", records, width, full)
        yield Text()
        yield from formulas(records, result.settings)
        return
    for label, rows in groups.items():
        yield Text()
        yield from heading(rows[0], result.settings["formulas"][label])
        yield from _table("d" if rows[0]["head"] is None else "head", rows, width, full)


def _table(first: str, records: Sequence[Record], width: int, full: bool) -> Iterator[RenderableType]:
    """Keys and rows have columns of their own only where they change."""
    figures = [*(key for key in ("keys", "rows") if not _same(records, key)), *FIGURES]
    yield from blocks(pick(COLUMNS, [first]), pick(COLUMNS, figures), records, width, full)


def _same(records: Sequence[Record], key: str) -> bool:
    return len({record[key] for record in records}) == 1
