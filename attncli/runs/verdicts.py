"""What has become of an expectation: a frozen record that tables, results.json and the exit code read."""

from dataclasses import dataclass
from typing import Any

from attncli.errors import InputError
from attncli.studies.study import Record


@dataclass(frozen=True)
class Limits:
    """The numbers that are accepted: from `low` to `high`, either None where there is no bound.

    `strict` leaves out the bounds themselves.
    """

    low: float | None = None
    high: float | None = None
    strict: bool = False

    def accept(self, number: float) -> bool:
        """Whether the number is one of them."""
        if self.strict and number in (self.low, self.high):
            return False
        return (self.low is None or number >= self.low) and (self.high is None or number <= self.high)


@dataclass(frozen=True)
class Verdict:
    """One expectation of one row.

    `index` is the expectation's place in `expect`; `where` what tells the row, one value a column; `expected` the keys
    of the YAML that say what is expected, with the other row's figure as `value` where there is one; `got` a number,
    text, true or false, for a whole stage nested lists. `holds` is None where the row or the figure is not there to be
    judged, which `problem` says; `reason` says in words why an expectation fails that numbers alone do not explain.
    """

    index: int
    claim: str | None
    source: str | None
    where: Record
    metric: str
    expected: Record
    got: Any
    holds: bool | None
    reason: str | None = None
    limits: Limits | None = None
    problem: InputError | None = None

    @property
    def record(self) -> Record:
        """The row of results.json."""
        keys = ("claim", "source", "where", "metric", "expected", "got", "holds", "reason")
        return {key: getattr(self, key) for key in keys}
