"""Verdicts line by line: rows of one expectation that hold share a line; each that does not has its own."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from attncli.runs.verdicts import Verdict
from attncli.show.numbers import MISSING, printable
from attncli.views.verdict_words import expected_words, got_words, one_line, subject

HOLDS = {True: "yes", False: "NO", None: MISSING}


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

    @property
    def rest(self) -> str:
        """What there is beside the claim, as text."""
        return f"expected {self.expected}; measured {self.measured}" + (f"; {self.source}" if self.source else "")


def lines_of(name: str, verdicts: Sequence[Verdict]) -> list[Line]:
    """The lines of one experiment."""
    return [Line(printable(name), line, len(group)) for group in by_expectation(verdicts) for line in _lines(group)]


def by_expectation(verdicts: Sequence[Verdict]) -> Iterator[list[Verdict]]:
    """The verdicts of each expectation."""
    for _, group in groupby(verdicts, key=lambda verdict: verdict.index):
        yield list(group)


def _lines(group: Sequence[Verdict]) -> Iterator[list[Verdict]]:
    """What shares a line of the table: rows that hold, of which the same is expected."""
    holding: dict[str, list[Verdict]] = {}  # by what is expected
    for verdict in group:
        if verdict.holds:
            holding.setdefault(str(verdict.expected), []).append(verdict)
    yield from holding.values()
    yield from ([verdict] for verdict in group if not verdict.holds)
