"""Experiments as Python data: what the YAML says, through the same models, without a file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from attncli.common.progress import Progress
from attncli.common.study import Record, Result
from attncli.config.tensors import Data
from attncli.inputs.build import Inputs, build_inputs
from attncli.studies.attention import study as attention
from attncli.studies.attention.options import AttentionOptions

DOT = {"scorer": "dot"}
CPU = torch.device("cpu")


def options_of(folder: Path | None = None, /, **keys: Any) -> AttentionOptions:
    """The options of an experiment whose YAML stands in `folder`; a dot product where no scorers are given."""
    keys = {"name": "test", "device": "cpu", "scorers": [DOT], **keys}
    return AttentionOptions.model_validate(keys, context={"folder": folder})


def inputs_of(folder: Path | None = None, /, **keys: Any) -> Inputs:
    """The inputs of an experiment."""
    options = options_of(folder, **keys)
    dtype = getattr(torch, options.dtype)
    assert isinstance(options.data, Data), "and not what a model's attention saw"
    return build_inputs(options.data, options.mask, options.tokens, seed=options.seed, dtype=dtype, device=CPU)


def result_of(folder: Path | None = None, /, progress: Progress | None = None, **keys: Any) -> Result:
    """The result of an experiment."""
    progress = progress or Progress()
    return attention.run(attention.prepare(options_of(folder, **keys), progress), progress)


@dataclass(frozen=True)
class Run:
    """What one scorer made of the inputs, as the result of an attention study has it."""

    label: str
    scorer: str
    formula: str
    scale: float
    record: Record
    stages: Mapping[str, torch.Tensor]
    state: Mapping[str, torch.Tensor]


def runs_of(result: Result) -> list[Run]:
    """The parts of a result, scorer by scorer."""

    def of(label: str, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name.removeprefix(f"{label}/"): each for name, each in tensors.items() if name.startswith(f"{label}/")}

    return [
        Run(
            label := row["label"],
            row["scorer"],
            result.settings["formulas"][label],
            result.settings["scales"][label],
            row,
            of(label, result.tensors),
            of(label, result.parameters),
        )
        for row in result.records
    ]


class Notes(Progress):
    """Keeps the notes of a study."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)
