"""Expectations as a table: claim, source, expected, measured, holds or not."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import RenderableType
from rich.text import Text

from attncli.results.verdicts import Verdict
from attncli.views.numbers import MISSING
from attncli.views.printable import printable
from attncli.views.record_tables import Column, stacked
from attncli.views.verdict_words import expected_words, got_words, one_line, subject
from attncli.views.weight_table import STRONG

Named = tuple[str, Sequence[Verdict]]  # an experiment's name and verdicts
HOLDS = {True: "yes", False: "NO", None: MISSING}


def verdict_tables(experiments: Sequence[Named], width: int) -> list[RenderableType]:
    """One table over all experiments, which are named where there are several, and how many expectations hold.

    Rows of one expectation that hold share a line; each that does not has its own.
    """
    groups = [(name, list(group)) for name, verdicts in experiments for group in _expectations(verdicts)]
    if not groups:
        return []
    lines = [(name, line, len(group)) for name, group in groups for line in _lines(group)]
    names = [Column("experiment", [printable(name) for name, _, _ in lines])] if len(experiments) > 1 else []
    names.append(Column("claim", [_claim(line, rows) for _, line, rows in lines]))
    if any(line[0].source for _, line, _ in lines):
        names.append(Column("source", [one_line(line[0].source or MISSING) for _, line, _ in lines]))
    columns = [
        Column("expected", [expected_words(line[0]) for _, line, _ in lines]),
        Column("measured", [_measured(line) for _, line, _ in lines]),
        Column("holds", [HOLDS[line[0].holds] for _, line, _ in lines]),
    ]
    good = sum(all(verdict.holds for verdict in group) for _, group in groups)
    unjudged = sum(any(verdict.holds is None for verdict in group) for _, group in groups)
    return [
        Text(),
        Text("Expectations", style=STRONG),
        *stacked(names, columns, width),
        Text(_summary(good, unjudged, len(groups))),
    ]


def _summary(good: int, unjudged: int, asked: int) -> str:
    if asked == 1:
        return f"The expectation {'holds' if good else 'could not be judged' if unjudged else 'does not hold'}"
    held = f"All {asked} expectations hold" if good == asked else f"{good} of {asked} expectations hold"
    return f"{held}, {unjudged} could not be judged" if unjudged else held


def _expectations(verdicts: Sequence[Verdict]) -> Iterator[list[Verdict]]:
    """The verdicts of each expectation."""
    for _, group in groupby(verdicts, key=lambda verdict: verdict.index):
        yield list(group)


def _lines(group: Sequence[Verdict]) -> Iterator[list[Verdict]]:
    """What shares a line of the table."""
    holding = [verdict for verdict in group if verdict.holds]
    if holding:
        yield holding
    yield from ([verdict] for verdict in group if not verdict.holds)


def _claim(line: Sequence[Verdict], rows: int) -> str:
    """The claim, and of several rows which; without a claim what is looked at."""
    first = line[0]
    if first.claim is None:
        return subject(line)
    return one_line(first.claim) + (f": {subject(line)}" if rows > 1 and len(line) < rows else "")


def _measured(line: Sequence[Verdict]) -> str:
    """The figure, or the smallest and the largest."""
    numbers = [verdict for verdict in line if verdict.limits is not None]
    if len(numbers) < len(line) or not numbers:
        return got_words(line[0])
    low, high = (pick(numbers, key=lambda verdict: float(verdict.got)) for pick in (min, max))
    return " to ".join(dict.fromkeys((got_words(low), got_words(high))))
