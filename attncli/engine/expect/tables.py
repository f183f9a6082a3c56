"""Format verdicts on expectations: sentences, and a table of claims, sources, expected and measured values."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from attncli.config.values import array_sizes
from attncli.core.numbers import MISSING, number
from attncli.engine.expect.judging import Limits, Verdict
from attncli.engine.expect.selecting import described
from attncli.errors import plain, printable, show
from attncli.show.terminal.tables import STRONG, line_count

HOLDS = {True: "yes", False: "NO", None: MISSING}
DIGITS = (4, 6, 9, 18)  # tried in turn
MOST_VALUES = 4  # of a column, listed in full


def failure(verdict: Verdict) -> str:
    """Return a sentence about a failed expectation: the claim, the expected bounds, and the measured value."""
    why = verdict.reason if verdict.reason and verdict.got is not None else f"got {got_words(verdict)}"
    sentence = f"{subject([verdict])}: expected {expected_words(verdict)}; {why}"
    claim, source = verdict.expectation.claim, verdict.expectation.source
    if claim is None:
        return sentence
    return f'"{_one_line(claim)}"{f" ({_one_line(source)})" if source else ""} does not hold; {sentence}'


def _one_line(text: str) -> str:
    """Return text on one line, with control characters escaped."""
    return printable(" ".join(text.split()))


def subject(verdicts: Sequence[Verdict]) -> str:
    """Return the metric and rows of verdicts as text: `variance (scorer = dot, d = 512)`."""
    where = dict[str, str]()
    for column in verdicts[0].where:
        values = list(dict.fromkeys(plain(verdict.where[column]) for verdict in verdicts))
        where[column] = ", ".join(values) if len(values) <= MOST_VALUES else f"{values[0]} ... {values[-1]}"
    return printable(verdicts[0].expectation.metric + (f" ({described(where)})" if where else ""))


def expected_words(verdict: Verdict) -> str:
    """Return the bounds as text: `0.95 to 1.05`, `1 ± 5 %`, `at least 0.8312 + 0.1`."""
    expected, kind = verdict.expected, verdict.expectation.kind
    bound, by = expected[kind], expected.get("by")
    if kind == "equal":
        return (
            f"{'x'.join(map(str, array_sizes(bound)))} numbers" if isinstance(bound, list) else printable(show(bound))
        )
    if kind == "about":
        return f"{_as_written(bound)} ± {_as_written(expected['within'])}"
    if kind == "between":
        return " to ".join(map(_as_written, bound))
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


def _as_written(value: object) -> str:
    """Return a number or text as in the YAML, with at most 12 digits."""
    return f"{value:.12g}" if isinstance(value, int | float) else str(value)


def got_words(verdict: Verdict) -> str:
    """Return the measured value as text, with enough digits to distinguish it from the expected value."""
    got = verdict.got
    if got is None:
        return "no value" if verdict.holds is not None else MISSING
    if isinstance(got, list):
        return "the same" if verdict.holds else "others"
    return printable(show(got)) if isinstance(got, str | bool) else number(got, _digits(verdict))


def _digits(verdict: Verdict) -> int:
    """Return how many digits of the measured value are needed to see whether it is within its limits."""
    limits = verdict.limits or Limits()
    texts = {digits: number(verdict.got, digits).replace(",", "") for digits in DIGITS}
    enough = (digits for digits, text in texts.items() if limits.accept(float(text)) == limits.accept(verdict.got))
    return next(enough, DIGITS[-1])


class Line(NamedTuple):
    """A line of the table, for one or several rows of one expectation."""

    claim: str  # followed by the rows if the claim takes several lines; metric and rows if there is no claim
    source: str
    expected: str
    measured: str  # the value, or the smallest and the largest of several
    holds: str


def verdict_lines(verdicts: Sequence[Verdict]) -> list[Line]:
    """Return the lines for one experiment. Verdicts that hold share a line if expectation and bounds are the same."""
    shared: dict[tuple[int, Any], list[Verdict]] = {}
    for position, verdict in enumerate(verdicts):
        shared.setdefault((verdict.index, str(verdict.expected) if verdict.holds else position), []).append(verdict)
    lines = list[Line]()
    for (index, _), group in shared.items():
        first, claim = group[0], group[0].expectation.claim
        text, is_alone = subject(group), sum(verdict.index == index for verdict in verdicts) == len(group)
        if claim is not None:
            text = _one_line(claim) + ("" if is_alone else f": {text}")
        measured = got_words(first)
        if all(verdict.limits is not None for verdict in group):
            ends = (pick(group, key=lambda verdict: float(verdict.got)) for pick in (min, max))
            measured = " to ".join(dict.fromkeys(map(got_words, ends)))
        source = _one_line(first.expectation.source) if first.expectation.source else ""
        lines.append(Line(text, source, expected_words(first), measured, HOLDS[first.holds]))
    return lines


def verdict_tables(
    experiments: Sequence[tuple[str, Sequence[Verdict]]], width: int, lines: int | None
) -> list[RenderableType]:
    """Return a table of all verdicts and the number of expectations that hold, or an empty list without verdicts.

    `experiments` has name and verdicts of each experiment. With several, their names are headings in the table. If the
    table has more than `lines` lines, expectations that hold are left out.
    """
    holding = dict[tuple[int, int], list[bool | None]]()  # `holds` of each row, by experiment and expectation
    for experiment, (_, verdicts) in enumerate(experiments):
        for verdict in verdicts:
            holding.setdefault((experiment, verdict.index), []).append(verdict.holds)
    if not holding:
        return []
    good, unjudged = sum(map(all, holding.values())), sum(None in of_rows for of_rows in holding.values())
    summary = f"{good} of {len(holding)} expectations hold"
    if len(holding) == 1:
        summary = f"The expectation {'holds' if good else 'could not be judged' if unjudged else 'does not hold'}"
    elif good == len(holding):
        summary = f"All {good} expectations hold"
    elif unjudged:
        summary += f", {unjudged} could not be judged"
    whole: list[RenderableType] = [Text(), Text("Expectations", style=STRONG), _table(experiments), Text(summary)]
    if lines is None or line_count(whole, width) <= lines:
        return whole
    others = [(name, [verdict for verdict in verdicts if not verdict.holds]) for name, verdicts in experiments]
    good_alone = Text(f"{summary}; see them with --full")
    title = Text("Expectations that do not hold", style=STRONG)
    failing: list[RenderableType] = [Text(), title, _table(others), good_alone]
    return failing if good < len(holding) and line_count(failing, width) <= lines else [good_alone]


def _table(experiments: Sequence[tuple[str, Sequence[Verdict]]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(Text("holds"))
    table.add_column(Text("claim, expected, measured, source"), overflow="fold", ratio=1)
    for name, verdicts in experiments:
        if verdicts and len(experiments) > 1:
            table.add_row(Text(), Text(f"{printable(name)}:", style=STRONG))
        for line in verdict_lines(verdicts):
            source = f"; {line.source}" if line.source else ""
            rest = Text(f"expected {line.expected}; measured {line.measured}{source}")
            table.add_row(Text(line.holds), Group(Text(line.claim), Padding(rest, (0, 0, 0, 2))))
    return table
