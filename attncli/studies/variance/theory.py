"""Mean and variance of a score in closed form, as the scorer states them, for random queries and keys."""

from dataclasses import dataclass

from attncli.catalogue.guarding import calling
from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.scorers import Scorer
from attncli.studies.pairs.entries import Entries


@dataclass(frozen=True)
class Theory:
    """Mean and variance of a score over random queries and keys, with the scorer's parameters held fixed.

    Both are None if no closed form is known. If `limit`, the variance is exact only in the limit of large sizes.
    """

    mean: float | None = None
    variance: float | None = None
    limit: bool = False

    @property
    def kind(self) -> str | None:
        """Return `exact`, `limit`, or None if no variance is known."""
        return None if self.variance is None else "limit" if self.limit else "exact"


def score_theory(entry: ScorerEntry, scorer: Scorer, entries: Entries, d: int) -> Theory:
    """Return the theory of an entry's scores, from the method `theory` of the scorer.

    The theory is empty if the scorer states none, the entry sets `softcap`, `qk_norm` or `dtype` (or `rope` and entries
    are not round), or the method returns a limit for random parameters but the scorer's are read from a file.

    Raises:
        InputError: the method of a user's scorer fails, or returns anything but two numbers.
    """
    changed = any(getattr(entry, key) is not None for key in ("softcap", "qk_norm", "dtype"))
    is_round = entries.distribution == "normal" and not (entries.query_mean or entries.key_mean or entries.rho)
    changed |= entry.rope is not None and not is_round
    if changed or (scorer.theory_is_limit and entry.parameters is not None):
        return Theory()
    with calling("the method theory of the scorer"):
        mean, variance = scorer.theory(entries.moments(d))
        return Theory(
            None if mean is None else float(mean), None if variance is None else float(variance), scorer.theory_is_limit
        )
