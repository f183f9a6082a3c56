"""What the terminal shows of the study `attention`: every scorer's weights, what sums them up, and how they differ."""

from collections.abc import Iterator, Sequence
from itertools import islice, product
from math import isclose, prod

from rich.console import RenderableType
from rich.text import Text

from attncli.errors import printable
from attncli.show.numbers import several, significant
from attncli.show.tables import FAINT, heading, remark, titled
from attncli.show.tables import tables as record_tables
from attncli.show.weights import MASKED, MAXIMUM, Layout, output_table, weight_tables
from attncli.studies.attention.columns import COLUMNS, COMPARISONS
from attncli.studies.study import TIE, Record, Result, stage_of, tokens_of

LEGEND = f"{MAXIMUM} row maximum   {MASKED} masked"
NUMBER_WIDTH = 5  # 0.123, 2e-04; one more in float64, for 1e-120
LINES_PER_SCORER = 100  # about how long the tables of one scorer may become
FEWEST_TABLES, MOST_TABLES = 2, 8  # of one scorer, whatever their length


def tables(result: Result, *, width: int, full: bool = False, csv: str | None = None) -> Iterator[RenderableType]:
    """Everything to print, from top to bottom, on a console `width` cells wide.

    A row's maximum is marked where it stands out: equal maxima all, but none where all valid keys have the same weight.
    `full` shows every cell of every matrix; else long tables and long series of tables are shortened, with a line that
    says what is left out and that `--full` and the file `csv` have it.
    """
    weights = stage_of(result, "weights")
    layout = None
    if weights:
        first = next(iter(weights.values()))
        n, m = first.shape[-2:]
        layout = Layout(n, m, width, NUMBER_WIDTH + (first.element_size() > 4), tokens_of(result), full)
        yield Text(LEGEND, style=FAINT)
    for record in result.records:
        yield from [Text()] if layout else []
        yield from heading(record, result.settings["formulas"][record["label"]], list(_facts(result, record)))
        yield from _scorer_tables(record["label"], result, layout, csv) if layout else []
    scorer, label, normalizer, *figures = COLUMNS
    names = [label, scorer] if any(record["scorer"] != record["label"] for record in result.records) else [label]
    sums = [record["weight_sum"] for record in result.records]
    if all(total is None or isclose(total, 1.0, rel_tol=TIE) for total in sums):
        figures = [column for column in figures if column.key != "weight_sum"]
    names += [normalizer] * any(record["normalizer"] != "softmax" for record in result.records)
    yield from titled("Summary", record_tables(names, figures, result.records, width))
    if result.comparisons:
        pairs = record_tables(COMPARISONS[:2], COMPARISONS[2:], result.comparisons, width)
        yield from titled("Pairwise comparison", pairs)


def _facts(result: Result, record: Record) -> Iterator[str]:
    yield f"scale {significant(result.settings['scales'][record['label']])}"
    parameters = record["parameters"]
    yield several(parameters, "parameter") if parameters else "no parameters"
    if f"{record['label']}/dropped" in result.tensors:
        yield "weights before dropout, output after it"


def _scorer_tables(label: str, result: Result, layout: Layout, csv: str | None) -> Iterator[RenderableType]:
    weights, output = (result.tensors[f"{label}/{stage}"] for stage in ("weights", "output"))
    valid = result.inputs["valid"].expand(weights.shape)
    total = prod(weights.shape[:-2])
    most = max(FEWEST_TABLES, min(MOST_TABLES, LINES_PER_SCORER // layout.lines))
    shown = total if layout.full else min(total, most)
    for index in islice(product(*map(range, weights.shape[:-2])), shown):
        batch = index[0] if index else 0
        yield from weight_tables(weights[index], valid[index], layout, _title(index) if total > 1 else "", batch)
        table = output_table(output[index], layout, batch)
        yield from [table] if table else []
    gone = [(layout.n - len(layout.rows), layout.n, "queries"), (layout.keys_left_out, layout.m, "keys")]
    cells = " and ".join(f"{count} of {size} {name}" for count, size, name in gone if count)
    lines = [cells, f"{total - shown} of {total} tables" if shown < total else ""]
    left_out = "; ".join(f"{line} left out" for line in lines if line)
    if left_out:
        yield Text()
        yield from remark(f"{left_out}; see them with --full" + (f" or in {printable(csv)}" if csv else ""))


def _title(index: Sequence[int]) -> str:
    names = ["batch", "head"] if len(index) <= 2 else ["batch", *(f"axis {axis}:" for axis in range(1, len(index)))]
    return ", ".join(f"{name} {place}" for name, place in zip(names, index, strict=False))
