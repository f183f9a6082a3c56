"""The tensor files of a run folder."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from attncli.studies.study import Result


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
