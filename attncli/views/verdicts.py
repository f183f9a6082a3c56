"""Expectations as a table: claim, source, expected, measured, holds or not."""

from collections.abc import Sequence
from itertools import groupby

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from attncli.runs.verdicts import Verdict
from attncli.show.numbers import MISSING
from attncli.show.tables import Cells, stacked
from attncli.show.weights import STRONG
from attncli.views.verdict_lines import Line, by_expectation, lines_of

Named = tuple[str, Sequence[Verdict]]  # an experiment's name and verdicts
GAP = 2  # cells between columns
READABLE = {"claim": 40, "source": 20}  # cells that text needs to be read well; other names stay whole


def verdict_tables(experiments: Sequence[Named], width: int) -> list[RenderableType]:
    """One table over all experiments, which are named where there are several, and how many expectations hold.

    Rows of one expectation that hold share a line; each that does not has its own. Where claims would have to be folded
    into narrow columns, each is a few lines of text beside its verdict.
    """
    lines = [line for name, verdicts in experiments for line in lines_of(name, verdicts)]
    if not lines:
        return []
    groups = [group for _, verdicts in experiments for group in by_expectation(verdicts)]
    named = len(experiments) > 1
    names, columns = _names(lines, named), _columns(lines)
    room = width - sum(column.width + GAP for column in columns) - GAP * (len(names) - 1)
    wide = room >= sum(min(name.width, READABLE.get(name.heading, name.width)) for name in names)
    good = sum(all(verdict.holds for verdict in group) for group in groups)
    unjudged = sum(any(verdict.holds is None for verdict in group) for group in groups)
    return [
        Text(),
        Text("Expectations", style=STRONG),
        *(stacked(names, columns, width) if wide else [_entries(lines, named, width)]),
        Text(_summary(good, unjudged, len(groups))),
    ]


def _names(lines: Sequence[Line], named: bool) -> list[Cells]:
    """The columns of text, which may be folded."""
    names = [Cells("experiment", [line.experiment for line in lines])] if named else []
    names.append(Cells("claim", [line.claim for line in lines]))
    if any(line.source for line in lines):
        names.append(Cells("source", [line.source or MISSING for line in lines]))
    return names


def _columns(lines: Sequence[Line]) -> list[Cells]:
    return [
        Cells("expected", [line.expected for line in lines]),
        Cells("measured", [line.measured for line in lines]),
        Cells("holds", [line.holds for line in lines]),
    ]


def _entries(lines: Sequence[Line], named: bool, width: int) -> Table:
    """A verdict, and beside it in words what it is about; experiments are headings."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(Text("holds"))
    table.add_column(
        Text("claim, expected, measured, source"), width=max(width - len("holds") - GAP, 1), overflow="fold"
    )
    for experiment, group in groupby(lines, key=lambda line: line.experiment):
        if named:
            table.add_row(Text(), Text(f"{experiment}:", style=STRONG))
        for line in group:
            table.add_row(Text(line.holds), Group(Text(line.claim), Padding(Text(line.rest), (0, 0, 0, 2))))
    return table


def _summary(good: int, unjudged: int, asked: int) -> str:
    if asked == 1:
        return f"The expectation {'holds' if good else 'could not be judged' if unjudged else 'does not hold'}"
    held = f"All {asked} expectations hold" if good == asked else f"{good} of {asked} expectations hold"
    return f"{held}, {unjudged} could not be judged" if unjudged else held
