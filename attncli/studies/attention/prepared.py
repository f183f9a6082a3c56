"""The checked input of the study `attention`: inputs with scorers and rules, for a run or for each layer of a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from attncli.attention import Rules
from attncli.models.inputs import Inputs
from attncli.results import Row
from attncli.scorers import Scorer
from attncli.sources.captured import Captured
from attncli.studies.attention.options import AttentionOptions


@dataclass(frozen=True)
class ScoredInputs:
    """The inputs of a run, or of one `layer` of a captured model, with the scorer and the rules of each scorer entry.

    `rules` turn the scores of an entry into weights.
    """

    inputs: Inputs
    tokens: Mapping[str, Sequence[Any]]
    scorers: Sequence[Scorer]
    rules: Sequence[Rules]
    layer: str | None

    @property
    def shared(self) -> Row:
        """Return the columns with the same value in all rows of these inputs."""
        return {} if self.layer is None else {"layer": self.layer}


@dataclass(frozen=True)
class PreparedAttention:
    """The validated input of `run`: of its inputs, or of each layer of a captured model."""

    options: AttentionOptions
    scored: Sequence[ScoredInputs]
    device: torch.device
    captured: Captured | None = None

    @property
    def layers(self) -> dict[str, int]:
        """Return the number in the captured file of each layer, by name; empty for a run without layers."""
        names = [scored.layer for scored in self.scored if scored.layer is not None]
        return {} if self.captured is None else {name: self.captured.numbers[name] for name in names}
