"""What `attncli heatmap` can draw: a config, a run folder, a tensor file. Imported inside functions only."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from attncli.api import load_experiment
from attncli.commands.progress import running
from attncli.config.builtin import builtin_path, experiment_path
from attncli.config.document import read_document
from attncli.config.overrides import Override
from attncli.errors import InputError, did_you_mean
from attncli.inputs.source import is_config, stored_tensors, tensor_file
from attncli.studies.study import STAGES, Matrices, Tokens, matrices_of


def load_source(
    source: Path | None, stage: str | None, overrides: Sequence[Override], tensors: Sequence[str], quiet: bool
) -> tuple[Matrices, str]:
    """The matrices of a source, and a name for their picture; without a source, those of the D2L example.

    Raises:
        InputError: a source that is not there or of no known kind, or options that it cannot use.
    """
    source = builtin_path("d2l") if source is None else experiment_path(source)
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
    try:
        if source.is_dir():
            return load_matrices(source, stage or "weights"), _name_of_run(source)
        return _from_file(source, stage, tensors), source.stem
    except InputError as error:
        if error.problems[0].where:
            raise
        raise InputError.of(error.problems[0].message, where="SOURCE") from error


def _name_of_run(folder: Path) -> str:
    """The name of a run of the study `attention`, whose tensors may do without results.json."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        content = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        return Path(str(content["name"])).name or "run"
    return folder.resolve().name or "run"


def load_matrices(folder: Path, stage: str) -> Matrices:
    """One stage of all scorers of a run folder; nothing else is read.

    Raises:
        InputError: a folder that is no run of the `attention` study, or without that stage.
    """
    path = tensor_file(folder)
    try:
        with safe_open(path, framework="pt") as file:
            about, names = json.loads(file.metadata()["attncli"]), list(file.keys())
            labels = [label for label in about["labels"] if f"{label}/{stage}" in names]
            tensors = {label: file.get_tensor(f"{label}/{stage}") for label in labels}
            valid = file.get_tensor("valid") if "valid" in names else None
        tokens = Tokens(**about["tokens"])
        dropped = [label for label in about["labels"] if f"{label}/dropped" in names]
        if valid is not None:
            _ = [valid.expand(tensor.shape) for tensor in tensors.values()]
    except Exception as error:  # the file may be of another program, and its metadata anything
        raise InputError.of(f'got "{path}", which is not what a run has written') from error
    if not tensors:
        there = sorted({name.rpartition("/")[2] for name in names if "/" in name} & set(STAGES) - {"output"})
        if not there:
            message = f'got "{folder}", a run without weights and scores'
            raise InputError.of(f"{message}; expected one of the study attention, and without weights: false")
        raise InputError.of(f'got "{stage}"; {folder} has no such stage; {did_you_mean(stage, there)}', where="--stage")
    return Matrices(stage, tensors, valid, tokens, dropped)


def _from_config(path: Path, stage: str, overrides: Sequence[Override], quiet: bool) -> tuple[Matrices, str]:
    experiment = load_experiment(read_document(path, overrides))
    options = experiment.options
    with experiment.document.locating():
        if options.study != "attention":
            message = f'got "{options.study}"; only the study attention has weights to draw'
            raise InputError.of(message, ["study"])
        if not getattr(options, "weights", True):
            message = "got false; heatmaps are drawn from weights and scores; leave it out"
            raise InputError.of(message, ["weights"])
        with running(options.name, quiet) as progress:
            result = experiment.study.run(experiment.study.prepare(options, progress), progress)
    matrices = matrices_of(result, stage)
    if not matrices.tensors:
        there = sorted({name.rpartition("/")[2] for name in result.tensors} - {"output"})
        raise InputError.of(f'got "{stage}"; no scorer has this stage; {did_you_mean(stage, there)}', where="--stage")
    return matrices, options.name


def _from_file(path: Path, stage: str | None, names: Sequence[str]) -> Matrices:
    """Matrices from a tensor file; numbers outside of 0..1 are scores, unless the user says otherwise."""
    stored = stored_tensors(path)
    if not names:
        names = [name for name, tensor in stored.items() if tensor.ndim >= 2 and tensor.dtype != torch.bool]
        if len(names) != 1:
            there = f"which has {len(names)} matrices: {', '.join(names)}" if names else "which has no matrix"
            cure = "choose with --tensor NAME, which may be repeated" if names else "expected numbers (..., n, m)"
            raise InputError.of(f'got "{path}", {there}; {cure}')
    chosen = {name: _matrix(name, stored, path) for name in names}
    weights = all(bool(((tensor >= 0) & (tensor <= 1)).all()) for tensor in chosen.values())
    return Matrices(stage or ("weights" if weights else "scores"), chosen)


def _matrix(name: str, stored: dict[str, Tensor], path: Path) -> Tensor:
    if name not in stored:
        raise InputError.of(f'got "{name}"; {path} has no such tensor; {did_you_mean(name, stored)}', where="--tensor")
    tensor = stored[name]
    if tensor.ndim < 2 or tensor.numel() == 0:
        message = f'got "{name}" of shape {list(tensor.shape)}; expected a matrix (..., n, m)'
        raise InputError.of(message, where="--tensor")
    return tensor if tensor.is_floating_point() else tensor.to(torch.float32)
