"""Experiments as Python data, validated by the same models as YAML, without a file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from attncli.catalogue.scorer_entries import CATALOGUE, ScorerEntry
from attncli.config.tensors import Data
from attncli.models.inputs import Inputs
from attncli.results import Result, Row
from attncli.runtime import Progress
from attncli.sources.build import build_inputs
from attncli.studies.attention import study as attention
from attncli.studies.attention.options import AttentionOptions

DOT = {"scorer": "dot"}
CPU = torch.device("cpu")


def entry_of(**keys: Any) -> ScorerEntry:
    """Return an entry of `scorers`."""
    return CATALOGUE.built_in[keys["scorer"]].model_validate(keys)


def options_of(folder: Path | None = None, /, **keys: Any) -> AttentionOptions:
    """Return the options of an experiment, with `folder` as the folder of its YAML; the default scorer is `dot`."""
    keys = {"name": "test", "device": "cpu", "scorers": [DOT], **keys}
    return AttentionOptions.model_validate(keys, context={"folder": folder})


def call_inputs(folder: Path | None = None, /, **keys: Any) -> Inputs:
    """Return the inputs of an experiment."""
    options = options_of(folder, **keys)
    dtype = getattr(torch, options.dtype)
    assert isinstance(options.data, Data), "not captured data"
    return build_inputs(options.data, options.mask, options.tokens, seed=options.seed, dtype=dtype, device=CPU)


def result_of(folder: Path | None = None, /, progress: Progress | None = None, **keys: Any) -> Result:
    """Run an experiment and return its result."""
    progress = progress or Progress()
    return attention.run(attention.prepare(options_of(folder, **keys), progress), progress)


@dataclass(frozen=True)
class Run:
    """The part of an attention study's result that belongs to one scorer."""

    label: str
    scorer: str
    formula: str
    scale: Any
    record: Row
    stages: Mapping[str, torch.Tensor]
    state: Mapping[str, torch.Tensor]


def runs_of(result: Result) -> list[Run]:
    """Return the tensors and facts of each scorer of a result."""
    runs = list[Run]()
    for row in result.records:
        label, start = row["label"], f"{row['label']}/"
        stages, state = (
            {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
            for tensors in (result.tensors, result.parameters)
        )
        facts = result.formulas[label], result.scales[label]
        runs.append(Run(label, row["scorer"], *facts, row, stages, state))
    return runs


class Notes(Progress):
    """Collects the notes of a study."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)
