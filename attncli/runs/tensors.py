"""The tensor files of a run folder, written and read."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from attncli.errors import InputError, did_you_mean
from attncli.inputs.source import tensor_file
from attncli.studies.study import Matrices, Result, Tokens

STAGES = ("scores", "capped", "weights", "dropped")  # the stages that are (..., n, m)


def save_tensors(path: Path, result: Result) -> None:
    """The inputs and arrays of a result by name; labels in their order and tokens stand in the file's metadata."""
    about = {"labels": result.labels, "tokens": result.settings.get("tokens", {})}
    metadata = {"attncli": json.dumps(about)}  # one key, since the library keeps no order of several
    save_named(path, {**result.inputs, **result.tensors}, metadata)


def save_named(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Tensors by name, as a .safetensors file."""
    path.touch()
    mode = path.stat().st_mode  # as the user's umask wants it: the library makes files that only their owner may read
    try:
        save_file(_owned(tensors), path, metadata)
    except SafetensorError as error:  # its only word for a full disk
        raise OSError(str(error)) from error
    path.chmod(mode)


def _owned(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors contiguous and each in memory of its own, as the format wants it; copied only where they must be."""
    owned: dict[str, Tensor] = {}
    storages: set[int] = set()
    for name, tensor in tensors.items():
        storage = tensor.untyped_storage()
        whole = storage.nbytes() == tensor.nbytes and tensor.is_contiguous()
        keep = whole and storage.data_ptr() not in storages
        owned[name] = tensor if keep else tensor.clone(memory_format=torch.contiguous_format)
        storages.add(storage.data_ptr())
    return owned


def load_matrices(folder: Path, stage: str) -> Matrices:
    """One stage of all scorers of a run folder.

    Raises:
        InputError: a folder that is no run of the `attention` study, or without that stage.
    """
    try:
        path = tensor_file(folder)
    except InputError as error:
        raise InputError.of(error.problems[0].message, where="SOURCE") from error
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {}).get("attncli", "{}"))
            names = set(file.keys())
            labels = about.get("labels") or sorted(
                name.rpartition("/")[0] for name in names if name.endswith("/weights")
            )
            tensors = {label: file.get_tensor(f"{label}/{stage}") for label in labels if f"{label}/{stage}" in names}
            valid = file.get_tensor("valid") if "valid" in names else None
            tokens = Tokens(**about.get("tokens", {}))
            if valid is not None:
                valid = valid.bool()
                _ = [valid.expand(tensor.shape) for tensor in tensors.values()]
    except Exception as error:  # safetensors raises its own kinds for a broken file, and what it holds may be anything
        reason = " ".join(str(error).split())
        raise InputError.of(f'got "{path}", which is not what a run has written: {reason}', where="SOURCE") from error
    if not tensors:
        there = sorted({name.rpartition("/")[2] for name in names if "/" in name} & set(STAGES))
        if not there:
            message = f'got "{folder}", a run without weights and scores; run its config.yaml with --set weights=true'
            raise InputError.of(message, where="SOURCE")
        raise InputError.of(f'got "{stage}"; {folder} has no such stage; {did_you_mean(stage, there)}', where="--stage")
    with_dropout = [label for label in labels if f"{label}/dropped" in names]
    return Matrices(stage, tensors, valid, tokens, with_dropout)
