"""One of the configurations that are trained."""

from dataclasses import dataclass

from attncli.config.scorer_entries import ScorerEntry


@dataclass(frozen=True)
class Job:
    """One configuration, an entry at one size, with so many parameters for each seed; `width` of them for each pair of
    query and key, such as hidden units.
    """

    entry: ScorerEntry
    d: int
    parameters: int
    width: int

    @property
    def name(self) -> str:
        """In messages."""
        return f"{self.entry.label}, d = {self.d}"
