"""What a study gives: plain frozen records that tables, pictures and files only read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

Record = dict[str, Any]
TIE = 1e-5  # weights that differ by less, relative to the larger, differ by rounding only
Names = Sequence[Sequence[str]]  # tokens, one list per batch element


@dataclass(frozen=True)
class Tokens:
    """Names of queries and keys, one list per batch element; None where there are none."""

    queries: Names | None = None
    keys: Names | None = None


@dataclass(frozen=True)
class Matrices:
    """One stage of several scorers as (b, n, m) or (b, heads, n, m) matrices by label: what heatmaps are drawn from."""

    stage: str
    tensors: "Mapping[str, Tensor]"
    valid: "Tensor | None" = None  # boolean, broadcastable to every tensor; True = may attend
    tokens: Tokens = field(default_factory=Tokens)
    with_dropout: Sequence[str] = ()  # labels whose weights went through dropout before they were used


@dataclass(frozen=True)
class ScorerRun:
    """What one scorer made of the inputs.

    `stages` holds, in the order of the work, `scores`, `capped` (with softcap), `weights` (before dropout), `dropped`
    (the weights after dropout, where it is active) and `output`; each (b, n, m) or (b, heads, n, m), `output` with v in
    place of m.
    """

    label: str
    scorer: str
    formula: str
    scale: float
    parameters: int
    stages: "Mapping[str, Tensor]"
    state: "Mapping[str, Tensor]"  # its state_dict
    record: Record


@dataclass(frozen=True)
class AttentionResult:
    """Several scorers on one set of inputs.

    `inputs` has `queries`, `keys`, `values` and `valid`, leading axes repeated, and `valid_lens` and `mask` where they
    came from files.
    """

    inputs: "Mapping[str, Tensor]"
    runs: Sequence[ScorerRun]
    comparisons: Sequence[Record]
    tokens: Tokens = field(default_factory=Tokens)
    study: str = "attention"

    @property
    def records(self) -> list[Record]:
        """One row per scorer."""
        return [run.record for run in self.runs]

    def matrices(self, stage: str) -> Matrices:
        """The runs that have this stage."""
        tensors = {run.label: run.stages[stage] for run in self.runs if stage in run.stages}
        with_dropout = [run.label for run in self.runs if "dropped" in run.stages]
        return Matrices(stage, tensors, self.inputs["valid"], self.tokens, with_dropout)
