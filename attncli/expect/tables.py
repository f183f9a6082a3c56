"""Expectations as a table: claim, source, expected, measured, holds or not."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from attncli.expect.judging import Verdict
from attncli.expect.words import expected_words, got_words, one_line, subject
from attncli.show.numbers import MISSING, printable
from attncli.show.tables import STRONG, Cells, stacked

Named = tuple[str, Sequence[Verdict]]  # an experiment's name and verdicts
GAP = 2  # cells between columns
HOLDS = {True: "yes", False: "NO", None: MISSING}
READABLE = {"claim": 40, "source": 20}  # cells that text needs to be read well; other names stay whole


@dataclass(frozen=True)
class Line:
    """What shares a line, of an expectation that asks so many `rows`."""

    experiment: str
    verdicts: Sequence[Verdict]
    rows: int

    @property
    def claim(self) -> str:
        """The claim, and of several rows which; without a claim what is looked at."""
        first = self.verdicts[0]
        if first.claim is None:
            return subject(self.verdicts)
        which = f": {subject(self.verdicts)}" if self.rows > len(self.verdicts) else ""
        return one_line(first.claim) + which

    @property
    def source(self) -> str:
        """Who says so, if anyone."""
        source = self.verdicts[0].source
        return one_line(source) if source else ""

    @property
    def expected(self) -> str:
        """The bounds, the same for all."""
        return expected_words(self.verdicts[0])

    @property
    def measured(self) -> str:
        """The figure, or the smallest and the largest."""
        numbers = [verdict for verdict in self.verdicts if verdict.limits is not None]
        if len(numbers) < len(self.verdicts) or not numbers:
            return got_words(self.verdicts[0])
        low, high = (pick(numbers, key=lambda verdict: float(verdict.got)) for pick in (min, max))
        return " to ".join(dict.fromkeys((got_words(low), got_words(high))))

    @property
    def holds(self) -> str:
        """Whether it does."""
        return HOLDS[self.verdicts[0].holds]


def verdict_tables(experiments: Sequence[Named], width: int) -> list[RenderableType]:
    """One table over all experiments, which are named where there are several, and how many expectations hold.

    Rows of one expectation that hold share a line; each that does not has its own. Where claims would have to be folded
    into narrow columns, each is a few lines of text beside its verdict.
    """
    lines = [line for name, verdicts in experiments for line in lines_of(name, verdicts)]
    if not lines:
        return []
    groups = [group for _, verdicts in experiments for group in _by_expectation(verdicts)]
    named = len(experiments) > 1
    names = [Cells("experiment", [line.experiment for line in lines])] if named else []
    names.append(Cells("claim", [line.claim for line in lines]))
    if any(line.source for line in lines):
        names.append(Cells("source", [line.source or MISSING for line in lines]))
    columns = [
        Cells("expected", [line.expected for line in lines]),
        Cells("measured", [line.measured for line in lines]),
        Cells("holds", [line.holds for line in lines]),
    ]
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
            source = f"; {line.source}" if line.source else ""
            rest = Text(f"expected {line.expected}; measured {line.measured}{source}")
            table.add_row(Text(line.holds), Group(Text(line.claim), Padding(rest, (0, 0, 0, 2))))
    return table


def _summary(good: int, unjudged: int, asked: int) -> str:
    if asked == 1:
        return f"The expectation {'holds' if good else 'could not be judged' if unjudged else 'does not hold'}"
    held = f"All {asked} expectations hold" if good == asked else f"{good} of {asked} expectations hold"
    return f"{held}, {unjudged} could not be judged" if unjudged else held


def lines_of(name: str, verdicts: Sequence[Verdict]) -> list[Line]:
    """The lines of one experiment."""
    return [Line(printable(name), line, len(group)) for group in _by_expectation(verdicts) for line in _lines(group)]


def _by_expectation(verdicts: Sequence[Verdict]) -> list[list[Verdict]]:
    return [list(group) for _, group in groupby(verdicts, key=lambda verdict: verdict.index)]


def _lines(group: Sequence[Verdict]) -> Iterator[list[Verdict]]:
    """What shares a line of the table: rows that hold, of which the same is expected."""
    holding: dict[str, list[Verdict]] = {}  # by what is expected
    for verdict in group:
        if verdict.holds:
            holding.setdefault(str(verdict.expected), []).append(verdict)
    yield from holding.values()
    yield from ([verdict] for verdict in group if not verdict.holds)
