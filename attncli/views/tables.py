"""What the terminal shows of an `attention` study: every scorer's weights, what sums them up, and how they differ."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, product
from math import prod
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from attncli.show import numbers
from attncli.show.numbers import printable
from attncli.views.layout import Layout
from attncli.views.output_table import output_table
from attncli.views.record_tables import comparison_tables, summary_tables
from attncli.views.weight_table import FAINT, MASKED, MAXIMUM, STRONG, names_of, weight_blocks

if TYPE_CHECKING:
    from torch import Tensor

    from attncli.runs.records import AttentionResult, ScorerRun

LEGEND = f"{MAXIMUM} row maximum   {MASKED} masked"
NUMBER_WIDTH = 5  # 0.123, 2e-04
LINES_PER_SCORER = 100  # about how long the tables of one scorer may become
FEWEST_TABLES, MOST_TABLES = 2, 8  # of one scorer, whatever their length


def attention_tables(
    result: "AttentionResult", *, width: int, full: bool = False, csv: str | None = None
) -> list[RenderableType]:
    """Everything to print, from top to bottom, on a console `width` cells wide.

    A row's maximum is marked where it stands out: equal maxima all, but none where all valid keys have the same weight.
    `full` shows every cell of every matrix; else long tables and long series of tables are shortened, with a line that
    says what is left out and that `--full` and the file `csv` have it.
    """
    parts: list[RenderableType] = []
    if all("weights" in run.stages for run in result.runs):
        layout = _layout(result, width, full)
        parts.append(Text(LEGEND, style=FAINT))
        for run in result.runs:
            parts += [Text(), *_scorer_tables(run, result, layout, csv)]
    else:
        parts += [line for run in result.runs for line in _heading(run)]
    parts += _titled("Summary", summary_tables(result.records, width))
    if result.comparisons:
        parts += _titled("Pairwise comparison", comparison_tables(result.comparisons, width))
    return parts


def _layout(result: "AttentionResult", width: int, full: bool) -> Layout:
    weights = [run.stages["weights"] for run in result.runs]
    n, m = weights[0].shape[-2:]
    layout = Layout(n, m, width, NUMBER_WIDTH, result.tokens, full)
    rows = list(layout.rows)
    minute = any(bool(_is_minute(each[..., rows, :]).any()) for each in weights if each.element_size() > 4)
    return replace(layout, number_width=NUMBER_WIDTH + 1) if minute else layout


def _is_minute(weights: "Tensor") -> "Tensor":
    """Which weights need a cell more, as 1e-120 does: float64 only."""
    return (weights > 0) & (weights < 1e-99)


def _scorer_tables(
    run: "ScorerRun", result: "AttentionResult", layout: Layout, csv: str | None
) -> Iterator[RenderableType]:
    weights = run.stages["weights"].detach()
    valid = result.inputs["valid"].expand(weights.shape)
    yield from _heading(run)
    count = prod(weights.shape[:-2])
    shown = _tables_shown(count, layout)
    for index in islice(product(*map(range, weights.shape[:-2])), shown):
        batch = index[0] if index else 0
        for block in weight_blocks(weights[index], valid[index], layout, _title(index) if count > 1 else "", batch):
            yield Text()
            yield block
        yield from _output(run, index, layout)
    left_out = _left_out(layout, count, shown)
    if left_out:
        yield Text()
        yield Text(f"{left_out}; {_cure(csv)}", style=FAINT)


def _output(run: "ScorerRun", index: tuple[int, ...], layout: Layout) -> Iterator[RenderableType]:
    if "output" not in run.stages:
        return
    names = names_of(layout.tokens.queries, index[0] if index else 0, layout.rows)
    table = output_table(run.stages["output"].detach()[index], names, layout)
    if table is not None:
        yield table


def _heading(run: "ScorerRun") -> Iterator[Text]:
    facts = [f"scale {numbers.significant(run.scale)}", _counted(run.parameters, "parameter")]
    if "dropped" in run.stages:
        facts.append("weights before dropout, output after it")
    scorer = "" if run.scorer == run.label else f" ({printable(run.scorer)})"
    yield Text.assemble((printable(run.label), STRONG), f"{scorer}: ", ", ".join(facts))
    yield Text(printable(run.formula))


def _title(index: Sequence[int]) -> str:
    names = ["batch", "head"] if len(index) <= 2 else ["batch", *(f"axis {axis}:" for axis in range(1, len(index)))]
    return ", ".join(f"{name} {place}" for name, place in zip(names, index, strict=False))


def _tables_shown(count: int, layout: Layout) -> int:
    if layout.full:
        return count
    return min(count, max(FEWEST_TABLES, min(MOST_TABLES, LINES_PER_SCORER // layout.lines)))


def _left_out(layout: Layout, tables: int, shown: int) -> str:
    """What is not shown, as `4088 of 4096 queries and 4076 of 4096 keys left out; 756 of 768 tables left out`."""
    cells = [(layout.queries_left_out, layout.n, "queries"), (layout.keys_left_out, layout.m, "keys")]
    parts = [" and ".join(f"{gone} of {size} {name}" for gone, size, name in cells if gone)]
    if shown < tables:
        parts.append(f"{tables - shown} of {tables} tables")
    return "; ".join(f"{part} left out" for part in parts if part)


def _cure(csv: str | None) -> str:
    return "see them with --full" + (f" or in {printable(csv)}" if csv else "")


def _titled(title: str, tables: Sequence[RenderableType]) -> Iterator[RenderableType]:
    yield Text()
    yield Text(title, style=STRONG)
    for index, table in enumerate(tables):
        if index:
            yield Text()
        yield table


def _counted(number: int, name: str) -> str:
    return f"{numbers.count(number) if number else 'no'} {name}{'' if number == 1 else 's'}"
