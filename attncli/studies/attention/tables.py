"""What the terminal shows of the study `attention`: every scorer's weights, what sums them up, and how they differ."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, product
from math import prod

from rich.console import RenderableType
from rich.text import Text
from torch import Tensor

from attncli.show.numbers import count, printable, significant
from attncli.show.tables import heading, remark, titled
from attncli.show.tables import tables as record_tables
from attncli.show.weights import FAINT, MASKED, MAXIMUM, Layout, names_of, output_table, weight_blocks
from attncli.studies.attention.columns import COLUMNS, COMPARISONS
from attncli.studies.study import Column, Record, Result, stage_of, tokens_of

LEGEND = f"{MAXIMUM} row maximum   {MASKED} masked"
NUMBER_WIDTH = 5  # 0.123, 2e-04
LINES_PER_SCORER = 100  # about how long the tables of one scorer may become
FEWEST_TABLES, MOST_TABLES = 2, 8  # of one scorer, whatever their length
NAMES = {"label", "scorer"}


def tables(result: Result, *, width: int, full: bool = False, csv: str | None = None) -> list[RenderableType]:
    """Everything to print, from top to bottom, on a console `width` cells wide.

    A row's maximum is marked where it stands out: equal maxima all, but none where all valid keys have the same weight.
    `full` shows every cell of every matrix; else long tables and long series of tables are shortened, with a line that
    says what is left out and that `--full` and the file `csv` have it.
    """
    parts: list[RenderableType] = []
    weights = stage_of(result, "weights")
    layout = _layout(result, list(weights.values()), width, full) if weights else None
    if layout is not None:
        parts.append(Text(LEGEND, style=FAINT))
    for record in result.records:
        parts += [Text()] if layout is not None else []
        parts += heading(record, result.settings["formulas"][record["label"]], list(_facts(result, record)))
        parts += _scorer_tables(record["label"], result, layout, csv) if layout is not None else []
    shown = [column for column in COLUMNS if column.key not in NAMES]
    parts += titled("Summary", record_tables(_names(result.records), shown, result.records, width))
    if result.comparisons:
        parts += titled(
            "Pairwise comparison", record_tables(COMPARISONS[:2], COMPARISONS[2:], result.comparisons, width)
        )
    return parts


def _names(records: Sequence[Record]) -> list[Column]:
    """The label, and the scorer where a label does not say it."""
    label, scorer = (next(column for column in COLUMNS if column.key == key) for key in ("label", "scorer"))
    return [label, *([scorer] if any(record["scorer"] != record["label"] for record in records) else [])]


def _layout(result: Result, weights: Sequence[Tensor], width: int, full: bool) -> Layout:
    n, m = weights[0].shape[-2:]
    layout = Layout(n, m, width, NUMBER_WIDTH, tokens_of(result), full)
    rows = list(layout.rows)
    minute = any(bool(_is_minute(each[..., rows, :]).any()) for each in weights if each.element_size() > 4)
    return replace(layout, number_width=NUMBER_WIDTH + 1) if minute else layout


def _is_minute(weights: Tensor) -> Tensor:
    """Which weights need a cell more, as 1e-120 does: float64 only."""
    return (weights > 0) & (weights < 1e-99)


def _facts(result: Result, record: Record) -> Iterator[str]:
    yield f"scale {significant(result.settings['scales'][record['label']])}"
    parameters = record["parameters"]
    yield f"{count(parameters) if parameters else 'no'} parameter{'' if parameters == 1 else 's'}"
    if f"{record['label']}/dropped" in result.tensors:
        yield "weights before dropout, output after it"


def _scorer_tables(label: str, result: Result, layout: Layout, csv: str | None) -> Iterator[RenderableType]:
    weights, output = (result.tensors[f"{label}/{stage}"] for stage in ("weights", "output"))
    valid = result.inputs["valid"].expand(weights.shape)
    total = prod(weights.shape[:-2])
    shown = _tables_shown(total, layout)
    for index in islice(product(*map(range, weights.shape[:-2])), shown):
        batch = index[0] if index else 0
        for block in weight_blocks(weights[index], valid[index], layout, _title(index) if total > 1 else "", batch):
            yield Text()
            yield block
        table = output_table(output[index], names_of(layout.tokens.queries, batch, layout.rows), layout)
        if table is not None:
            yield table
    left_out = _left_out(layout, total, shown)
    if left_out:
        yield Text()
        yield from remark(f"{left_out}; see them with --full" + (f" or in {printable(csv)}" if csv else ""))


def _title(index: Sequence[int]) -> str:
    names = ["batch", "head"] if len(index) <= 2 else ["batch", *(f"axis {axis}:" for axis in range(1, len(index)))]
    return ", ".join(f"{name} {place}" for name, place in zip(names, index, strict=False))


def _tables_shown(total: int, layout: Layout) -> int:
    if layout.full:
        return total
    return min(total, max(FEWEST_TABLES, min(MOST_TABLES, LINES_PER_SCORER // layout.lines)))


def _left_out(layout: Layout, total: int, shown: int) -> str:
    """What is not shown, as `4088 of 4096 queries and 4076 of 4096 keys left out; 756 of 768 tables left out`."""
    cells = [(layout.n - len(layout.rows), layout.n, "queries"), (layout.keys_left_out, layout.m, "keys")]
    parts = [" and ".join(f"{gone} of {size} {name}" for gone, size, name in cells if gone)]
    if shown < total:
        parts.append(f"{total - shown} of {total} tables")
    return "; ".join(f"{part} left out" for part in parts if part)
