"""The sizes at which implementations are measured, and how much work and traffic they mean."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from attncli.config.scorer_entries import ScorerEntry
from attncli.studies.bench.options import HIDDEN

SOFTMAX = 5  # operations for each weight: largest score, difference, exponential, sum, quotient
BACKWARD = 3  # forward and backward together, as a multiple of forward: each product has two gradients


@dataclass(frozen=True)
class Case:
    """One combination of sizes; `heads` None where there is no such axis."""

    n: int
    m: int
    d: int
    batch: int = 1
    heads: int | None = None

    @property
    def leading(self) -> tuple[int, ...]:
        """The leading axes."""
        return (self.batch,) if self.heads is None else (self.batch, self.heads)

    @property
    def matrices(self) -> int:
        """How many n x m matrices of scores there are."""
        return self.batch * (self.heads or 1)

    @property
    def cells(self) -> int:
        """Pairs of a query and a key, in all matrices."""
        return self.matrices * self.n * self.m

    @property
    def numbers(self) -> int:
        """In queries, keys and values together."""
        return self.matrices * (self.n + 2 * self.m) * self.d

    def halved(self, times: int) -> "Case":
        """With fewer queries and keys."""
        return Case(max(self.n >> times, 1), max(self.m >> times, 1), self.d, self.batch, self.heads)


def cases_of(options: Any) -> Iterator[Case]:
    """All combinations, the fewest queries first, and of those the fewest keys."""
    for n in sorted(options.n):
        for m, d, batch, heads in product(sorted(options.m or [n]), options.d, options.batch, options.heads or [None]):
            yield Case(n, m, d, batch, heads)


def hidden_units(entry: ScorerEntry) -> int | None:
    """Of a scorer that has some."""
    hidden = entry.options.get(HIDDEN)
    return hidden if isinstance(hidden, int) else None


def operations(entry: ScorerEntry, case: Case, measure: str, backward: bool) -> int | None:
    """Additions, multiplications and so on of the textbook formula, a tanh, exponential or root as one.

    None for scorers of the user's own, whose formula is not known. Implementations that take a shorter way are counted
    alike, so that more operations per second mean less time. Forward and backward count as three times forward.
    """
    n, m, d, h = case.n, case.m, case.d, hidden_units(entry) or 0
    counted = {
        "additive": 2 * (n + m) * d * h + n * m * 4 * h,  # projections; for each pair sum, tanh, product and sum
        "scaled_dot": n * m * (2 * d + 1),
        "dot": n * m * 2 * d,
        "general": 2 * n * d * d + n * m * 2 * d,
        "cosine": (n + m) * (2 * d + 1) + n * m * (2 * d + 2),  # lengths; product, their product and quotient
        "gaussian": n * m * (3 * d + 1),
        "vector_sum": (n + m) * d + n * m,
    }
    if entry.scorer not in counted:
        return None
    pooling = n * m * (SOFTMAX + 2 * d) if measure != "scores" else 0
    return case.matrices * (counted[entry.scorer] + pooling) * (BACKWARD if backward else 1)


def traffic(case: Case, measure: str, backward: bool, itemsize: int) -> int:
    """Bytes of queries, keys, values where they are used, and results, each once, in the dtype of the config.

    Backward has the gradient of each of them once more. What an implementation keeps in between does not count.
    """
    n, m, d = case.n, case.m, case.d
    numbers = {
        "scores": (n + m) * d + n * m,
        "weights": (n + 2 * m) * d + n * m + n * d,
        "output": (n + 2 * m) * d + n * d,
    }[measure]
    return case.matrices * numbers * itemsize * (2 if backward else 1)
