"""What `attncli heatmap` can draw: a config, a run folder, a tensor file. Imported inside functions only."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from attncli.commands.experiments import load_experiment
from attncli.commands.progress import Shown
from attncli.config.builtin import builtin_path
from attncli.config.document import read_document
from attncli.config.overrides import Override
from attncli.errors import InputError, did_you_mean
from attncli.inputs.source import is_config, stored_tensors, tensor_file
from attncli.studies.study import STAGES, Matrices, Tokens, matrices_of


@dataclass(frozen=True)
class Source:
    """What is drawn, and a name for its file."""

    matrices: Matrices
    name: str


def load_source(
    source: Path | None, stage: str | None, overrides: Sequence[Override], tensors: Sequence[str], quiet: bool
) -> Source:
    """The matrices of a source; without one, those of the D2L example.

    Raises:
        InputError: a source that is not there or of no known kind, or options that it cannot use.
    """
    if source is None:
        source = builtin_path("d2l")
    try:
        source.exists()
    except OSError as error:
        raise InputError.of(f"cannot be read: {error.strerror}", where="SOURCE") from error
    from_config = is_config(source)
    if overrides and not from_config:
        raise InputError.of("only a config can be changed; expected a YAML file as SOURCE", where=overrides[0].text)
    if tensors and (from_config or source.is_dir()):
        raise InputError.of("only a tensor file has named tensors; leave it out", where=f"--tensor {tensors[0]}")
    if from_config:
        return _from_config(source, stage or "weights", overrides, quiet)
    if source.is_dir():
        return _from_run(source, stage or "weights")
    return Source(_from_file(source, stage, tensors), source.stem)


def _from_run(folder: Path, stage: str) -> Source:
    """One stage of all scorers of a run of the study `attention`, whose tensors may do without results.json."""
    study, name = "attention", folder.resolve().name
    with suppress(OSError, ValueError, LookupError, TypeError):
        said = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        study, name = str(said["study"]), str(said["name"])
    if study != "attention":
        message = f'got "{folder}", a run of the study {study}; only the study attention has weights to draw'
        raise InputError.of(message, where="SOURCE")
    return Source(load_matrices(folder, stage), Path(name).name or "run")


def load_matrices(folder: Path, stage: str) -> Matrices:
    """One stage of all scorers of a run folder.

    Raises:
        InputError: a folder that is no run of the `attention` study, or without that stage.
    """
    stored = _stored(folder)
    path = tensor_file(folder)
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads(file.metadata()["attncli"])
        labels, valid, tokens = about["labels"], stored.get("valid"), Tokens(**about["tokens"])
        tensors = {label: stored[f"{label}/{stage}"] for label in labels if f"{label}/{stage}" in stored}
        if valid is not None:
            _ = [valid.expand(tensor.shape) for tensor in tensors.values()]
    except Exception as error:  # the file may be of another program, and its metadata anything
        raise InputError.of(f'got "{path}", which is not what a run has written', where="SOURCE") from error
    if not tensors:
        there = sorted({name.rpartition("/")[2] for name in stored if "/" in name} & set(STAGES) - {"output"})
        if not there:
            message = f'got "{folder}", a run without weights and scores; run its config.yaml with --set weights=true'
            raise InputError.of(message, where="SOURCE")
        raise InputError.of(f'got "{stage}"; {folder} has no such stage; {did_you_mean(stage, there)}', where="--stage")
    return Matrices(stage, tensors, valid, tokens, [label for label in labels if f"{label}/dropped" in stored])


def _from_config(path: Path, stage: str, overrides: Sequence[Override], quiet: bool) -> Source:
    experiment = load_experiment(read_document(path, overrides))
    options = experiment.options
    with experiment.document.locating():
        if options.study != "attention":
            message = f'got "{options.study}"; only the study attention has weights to draw'
            raise InputError.of(message, ["study"])
        if not getattr(options, "weights", True):
            message = "got false; heatmaps are drawn from weights and scores; leave it out"
            raise InputError.of(message, ["weights"])
        with Shown(options.name, quiet).running() as progress:
            result = experiment.study.run(experiment.study.prepare(options, progress), progress)
    matrices = matrices_of(result, stage)
    if not matrices.tensors:
        there = sorted({name.rpartition("/")[2] for name in result.tensors} - {"output"})
        raise InputError.of(f'got "{stage}"; no scorer has this stage; {did_you_mean(stage, there)}', where="--stage")
    return Source(matrices, options.name)


def _stored(path: Path) -> dict[str, Tensor]:
    try:
        return stored_tensors(path)
    except InputError as error:
        raise InputError.of(error.problems[0].message, where="SOURCE") from error


def _from_file(path: Path, stage: str | None, names: Sequence[str]) -> Matrices:
    """Matrices from a tensor file; numbers outside of 0..1 are scores, unless the user says otherwise."""
    stored = _stored(path)
    chosen = {name: _matrix(name, stored, path) for name in names or _only(stored, path)}
    weights = all(bool(((tensor >= 0) & (tensor <= 1)).all()) for tensor in chosen.values())
    return Matrices(stage or ("weights" if weights else "scores"), chosen)


def _only(stored: dict[str, Tensor], path: Path) -> list[str]:
    names = [name for name, tensor in stored.items() if tensor.ndim >= 2 and tensor.dtype != torch.bool]
    if len(names) == 1:
        return names
    there = f"which has {len(names)} matrices: {', '.join(names)}" if names else "which has no matrix"
    cure = "choose with --tensor NAME, which may be repeated" if names else "expected a tensor (..., n, m)"
    raise InputError.of(f'got "{path}", {there}; {cure}', where="SOURCE")


def _matrix(name: str, stored: dict[str, Tensor], path: Path) -> Tensor:
    if name not in stored:
        raise InputError.of(f'got "{name}"; {path} has no such tensor; {did_you_mean(name, stored)}', where="--tensor")
    if stored[name].ndim < 2 or stored[name].numel() == 0:
        shape = list(stored[name].shape)
        raise InputError.of(f'got "{name}" of shape {shape}; expected a matrix (..., n, m)', where="--tensor")
    tensor = stored[name]
    return tensor if tensor.is_floating_point() else tensor.to(torch.float32)
