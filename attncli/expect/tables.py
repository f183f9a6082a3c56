"""Show verdicts on expectations in words, and as a table of claim, source, expected, measured, holds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from attncli.config.values import sizes_of
from attncli.errors import plain, printable, show
from attncli.expect.asking import described
from attncli.expect.judging import Verdict
from attncli.numbers import MISSING, number
from attncli.show.tables import STRONG

HOLDS = {True: "yes", False: "NO", None: MISSING}
DIGITS = (4, 6, 9, 18)  # the first that distinguish a number from its limit
MOST_VALUES = 4  # of a column in a subject


def failure(verdict: Verdict) -> str:
    """Return a sentence about a failed expectation: claim, expected, got."""
    why = verdict.reason if verdict.reason and verdict.got is not None else f"got {got_words(verdict)}"
    sentence = f"{subject([verdict])}: expected {expected_words(verdict)}; {why}"
    claim, source = verdict.expectation.claim, verdict.expectation.source
    if claim is None:
        return sentence
    return f'"{_one_line(claim)}"{f" ({_one_line(source)})" if source else ""} does not hold; {sentence}'


def _one_line(text: str) -> str:
    """Return a claim or a source on one line."""
    return printable(" ".join(text.split()))


def subject(verdicts: Sequence[Verdict]) -> str:
    """Return metric and rows: `variance (scorer = dot, d = 512)`."""
    where = dict[str, str]()
    for column in verdicts[0].where:
        values = list(dict.fromkeys(plain(verdict.where[column]) for verdict in verdicts))
        where[column] = ", ".join(values) if len(values) <= MOST_VALUES else f"{values[0]} ... {values[-1]}"
    return printable(verdicts[0].expectation.metric + (f" ({described(where)})" if where else ""))


def expected_words(verdict: Verdict) -> str:
    """Return the bounds of a metric: `0.95 to 1.05`, `1 ± 5 %`, `at least 0.8312 + 0.1`."""
    expected, kind = verdict.expected, verdict.expectation.kind
    bound, by = expected[kind], expected.get("by")
    if kind == "equal":
        return f"{'x'.join(map(str, sizes_of(bound)))} numbers" if isinstance(bound, list) else printable(show(bound))
    if kind == "about":
        return f"{_as_written(bound)} ± {_as_written(expected['within'])}"
    if kind == "between":
        low, high = bound
        if low is None or high is None:
            return f"at most {_as_written(high)}" if low is None else f"at least {_as_written(low)}"
        return f"{_as_written(low)} to {_as_written(high)}"
    limit = _as_written(bound)
    if isinstance(bound, dict):
        value, row = expected.get("value"), printable(described(bound))
        limit = f"the value of {row}" if value is None else f"{number(value, _digits(verdict))} ({row})"
    if by is None:
        return f"{kind} {limit}"
    edge, sign = ("at least", "+") if kind == "above" else ("at most", "-")
    if not isinstance(by, str):
        return f"{edge} {limit} {sign} {_as_written(by)}"
    factor = by.rstrip("x× ")
    return f"{edge} {factor} x {limit}" if kind == "above" else f"{edge} {limit} / {factor}"


def _as_written(value: Any) -> str:
    """Return a number or text as in the YAML."""
    return f"{value:.12g}" if isinstance(value, int | float) else str(value)


def got_words(verdict: Verdict) -> str:
    """Return the measured value, with enough digits to distinguish it from the expected one."""
    got = verdict.got
    if got is None:
        return "no figure" if verdict.holds is not None else MISSING
    if isinstance(got, list):
        return "the same" if verdict.holds else "others"
    return printable(show(got)) if isinstance(got, str | bool) else number(got, _digits(verdict))


def _digits(verdict: Verdict) -> int:
    """Return how many digits show whether the measured value is within its limits, and differs from the expected."""
    got, limits = verdict.got, verdict.limits
    other = verdict.expected.get("value", verdict.expected.get("equal"))
    for digits in DIGITS:
        text = number(got, digits)
        is_distinct = isinstance(other, str | None) or other == got or text != number(other, digits)
        if is_distinct and (limits is None or limits.accept(float(text.replace(",", ""))) == limits.accept(got)):
            return digits
    return DIGITS[-1]


@dataclass(frozen=True)
class Line:
    """A line of the table: rows of one expectation."""

    claim: str  # and its rows if there are several; without a claim metric and rows
    source: str
    expected: str
    measured: str  # the value, or the smallest and the largest
    holds: str


def lines_of(verdicts: Sequence[Verdict]) -> list[Line]:
    """Return the lines of an experiment: rows that hold share a line if their bounds are the same, others do not."""
    lines = list[Line]()
    for group in _by_expectation(verdicts):
        for shared in _sharing(group):
            first, asks = shared[0], shared[0].expectation
            claim = subject(shared)
            if asks.claim is not None:
                claim = _one_line(asks.claim) + (f": {claim}" if len(group) > len(shared) else "")
            measured = got_words(first)
            if all(verdict.limits is not None for verdict in shared):
                ends = (pick(shared, key=lambda verdict: float(verdict.got)) for pick in (min, max))
                measured = " to ".join(dict.fromkeys(map(got_words, ends)))
            source = _one_line(asks.source or "") if asks.source else ""
            lines.append(Line(claim, source, expected_words(first), measured, HOLDS[first.holds]))
    return lines


def _by_expectation(verdicts: Sequence[Verdict]) -> list[list[Verdict]]:
    return [list(group) for _, group in groupby(verdicts, key=lambda verdict: verdict.index)]


def _sharing(group: Sequence[Verdict]) -> Iterator[list[Verdict]]:
    holding: dict[str, list[Verdict]] = {}  # by bounds
    for verdict in group:
        if verdict.holds:
            holding.setdefault(str(verdict.expected), []).append(verdict)
    yield from holding.values()
    yield from ([verdict] for verdict in group if not verdict.holds)


def verdict_tables(experiments: Sequence[tuple[str, Sequence[Verdict]]]) -> list[RenderableType]:
    """Return a table of the verdicts of all experiments, and the number of expectations that hold.

    Several experiments have headings with their names.
    """
    groups = [group for _, verdicts in experiments for group in _by_expectation(verdicts)]
    if not groups:
        return []
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(Text("holds"))
    table.add_column(Text("claim, expected, measured, source"), overflow="fold", ratio=1)
    for name, verdicts in experiments:
        if verdicts and len(experiments) > 1:
            table.add_row(Text(), Text(f"{printable(name)}:", style=STRONG))
        for line in lines_of(verdicts):
            source = f"; {line.source}" if line.source else ""
            rest = Text(f"expected {line.expected}; measured {line.measured}{source}")
            table.add_row(Text(line.holds), Group(Text(line.claim), Padding(rest, (0, 0, 0, 2))))
    good = sum(all(verdict.holds for verdict in group) for group in groups)
    unjudged = sum(any(verdict.holds is None for verdict in group) for group in groups)
    summary = f"{good} of {len(groups)} expectations hold"
    if len(groups) == 1:
        summary = f"The expectation {'holds' if good else 'could not be judged' if unjudged else 'does not hold'}"
    elif good == len(groups):
        summary = f"All {good} expectations hold"
    elif unjudged:
        summary += f", {unjudged} could not be judged"
    return [Text(), Text("Expectations", style=STRONG), table, Text(summary)]
