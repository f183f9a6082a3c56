"""Expectations and what became of them, in words."""

import math
from collections.abc import Sequence
from typing import Any

from attncli.errors import plain, show
from attncli.expect.judging import Limits, Verdict
from attncli.show.numbers import MISSING, printable, significant
from attncli.studies.study import Record

DIGITS = (4, 6, 9, 17)  # the first that tell a number from its limit
MOST_VALUES = 4  # of one column that are named


def failure(verdict: Verdict) -> str:
    """A sentence that says what does not hold: claim, expected, got."""
    expected, got = expected_words(verdict), got_words(verdict)
    said = f"{subject([verdict])}: expected {expected}; got {got}"
    if verdict.reason and verdict.got is not None:
        said = f"{subject([verdict])}: expected {expected}; {verdict.reason}"
    if verdict.claim is None:
        return said
    source = f" ({one_line(verdict.source)})" if verdict.source else ""
    return f'"{one_line(verdict.claim)}"{source} does not hold; {said}'


def one_line(text: str) -> str:
    """A claim or a source, which YAML may have on several lines."""
    return printable(" ".join(text.split()))


def subject(verdicts: Sequence[Verdict]) -> str:
    """What is looked at: `variance (scorer = dot, d = 512)`, of several rows with all their values."""
    where = [f"{column} = {_values(verdicts, column)}" for column in verdicts[0].where]
    return printable(verdicts[0].metric + (f" ({', '.join(where)})" if where else ""))


def _values(verdicts: Sequence[Verdict], column: str) -> str:
    values = list(dict.fromkeys(plain(verdict.where[column]) for verdict in verdicts))
    return ", ".join(values) if len(values) <= MOST_VALUES else f"{values[0]} ... {values[-1]}"


def expected_words(verdict: Verdict) -> str:
    """The bounds of a metric: `0.95 to 1.05`, `1 ± 5 %`, `at least 0.8312 + 0.1`."""
    expected = verdict.expected
    if "between" in expected:
        return _range(*expected["between"])
    if "about" in expected:
        return f"{_short(expected['about'])} ± {_short(expected['within'])}"
    if "equal" in expected:
        numbers = isinstance(expected["equal"], list)
        return f"{_counted(expected['equal'])} numbers" if numbers else printable(show(expected["equal"]))
    return _beyond(verdict)


def _range(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return f"at most {_short(high)}" if low is None else f"at least {_short(low)}"
    return f"{_short(low)} to {_short(high)}"


def _beyond(verdict: Verdict) -> str:
    """`above 3`, or of another row with its figure."""
    expected = verdict.expected
    upwards = "above" in expected
    bound = expected["above" if upwards else "below"]
    number = _of_row(bound, expected, verdict) if isinstance(bound, dict) else _short(bound)
    by = expected.get("by")
    if by is None:
        return f"{'above' if upwards else 'below'} {number}"
    edge = "at least" if upwards else "at most"
    if not isinstance(by, str):
        return f"{edge} {number} {'+' if upwards else '-'} {_short(by)}"
    factor = by.rstrip("x× ")
    return f"{edge} {factor} x {number}" if upwards else f"{edge} {number} / {factor}"


def _of_row(row: Record, expected: Record, verdict: Verdict) -> str:
    """`0.2626 (label = dot, d = 4)`: the figure, of which row."""
    described, value = ", ".join(f"{column} = {plain(value)}" for column, value in row.items()), expected.get("value")
    figure = "that of" if value is None else significant(value, _digits(verdict))
    return printable(f"{figure} ({described})" if value is not None else f"{figure} {described}")


def got_words(verdict: Verdict) -> str:
    """What was measured; with as many digits as tell it from what was expected."""
    got = verdict.got
    if got is None:
        return "no figure" if verdict.holds is not None else MISSING
    if isinstance(got, list):
        return "the same" if verdict.holds else "others"
    if isinstance(got, str | bool) or verdict.limits is None:
        return printable(show(got)) if isinstance(got, str | bool) else significant(got, 17 if not verdict.holds else 6)
    return significant(got, _digits(verdict))


def _digits(verdict: Verdict) -> int:
    """How many digits say where between the limits a figure lies, or on which side, and tell it from another row's."""
    got, other, limits = verdict.got, verdict.expected.get("value"), verdict.limits
    if limits is None:
        return DIGITS[0]
    for digits in DIGITS:
        text = f"{got:.{digits}g}"
        apart = other is None or other == got or text != f"{other:.{digits}g}"
        close = not limits.accept(got) or abs(float(text) - got) <= _resolution(limits)
        if apart and close and limits.accept(float(text)) == limits.accept(got):
            return digits
    return DIGITS[-1]


def _resolution(limits: Limits) -> float:
    """What rounding may cost: a twentieth of the range between two limits."""
    if limits.low is None or limits.high is None or limits.low == limits.high:
        return math.inf
    return (limits.high - limits.low) / 20


def _short(value: Any) -> str:
    """A number or text as the user wrote it."""
    return value if isinstance(value, str) else f"{value:.12g}"


def _counted(numbers: Any) -> str:
    """`2x10`, the sizes of nested lists."""
    sizes = []
    while isinstance(numbers, list):
        sizes.append(str(len(numbers)))
        numbers = numbers[0]
    return "x".join(sizes)
