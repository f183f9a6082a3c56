"""A layer of attention to compute, with its inputs and scorers, and the source of layers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import torch
from torch import Tensor

from attncli.attention import EmptyRow
from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.models.inputs import Inputs, Scored, build_for_inputs
from attncli.results import Row
from attncli.sources.captured import Captured

Options = TypeVar("Options")


@dataclass(frozen=True)
class Layer:
    """The inputs of a run, or of one attention call of a model, with each scorer entry of a config.

    `name` and `number` are of the call in its model or file, None without a model. `padding` (b, m) is True at keys
    that are padding, and `repeated` at words that may be; None if there are none, or they are unknown.
    """

    inputs: Inputs
    name: str | None = None
    number: int | None = None
    padding: Tensor | None = None
    repeated: Tensor | None = None
    scored: Sequence[Scored] = ()

    @property
    def columns(self) -> Row:
        """The columns with the same value in all rows of this layer."""
        return {} if self.name is None else {"layer": self.name}


@dataclass(frozen=True)
class Source:
    """Layers on one device, and the captured file that they come from, if any."""

    layers: Sequence[Layer]
    device: torch.device
    captured: Captured | None = None

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each layer by name; empty without a model."""
        return {each.name: each.number for each in self.layers if each.name is not None and each.number is not None}

    def with_scorers(self, entries: Sequence[ScorerEntry], seed: int, empty_row: EmptyRow) -> "Source":
        """Return the source with the scorer and the rules of each entry in each layer.

        Raises:
            InputError: as in `build_for_inputs`.
        """
        layers = list[Layer]()
        for layer in self.layers:
            layers.append(replace(layer, scored=build_for_inputs(entries, layer.inputs, seed, empty_row)))
        return replace(self, layers=layers)


@dataclass(frozen=True)
class Prepared(Generic[Options]):
    """The checked input of the `run` of a study that looks at layers of attention."""

    options: Options
    source: Source

    @property
    def device(self) -> torch.device:
        """The device that the study computes on."""
        return self.source.device

    @property
    def layers(self) -> Sequence[Layer]:
        """The layers of the source."""
        return self.source.layers
