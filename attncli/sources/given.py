"""Tensors and models given in Python. Tensors and arrays of a config stay tensors, as long lists would be slow."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attncli.config.tensors import GivenMask, GivenTensor
from attncli.errors import InputError, got
from attncli.sources.build import ROLES


def as_config_value(key: object, value: object) -> Any:
    """Return `value`, given for a key such as `data`, `data.keys` or `mask`, with tensors and arrays replaced.

    The replacements are `GivenTensor` and `GivenMask`, which hold copies. Only tensors of real numbers of shape
    (..., rows, features) and masks (..., keys) of any real dtype are replaced; other values stay as they are.
    """
    if key in ("data", "mask") and isinstance(value, Mapping):
        return {name: as_config_value(f"{key}.{name}", item) for name, item in value.items()}
    role, is_mask = str(key).removeprefix("data."), key in ("mask", "mask.file")
    if not is_mask and role not in (*ROLES, "bias"):
        return value
    if type(value) is np.ndarray and value.dtype.kind in ("biuf" if is_mask else "iuf"):
        wide = np.float64 if value.dtype.kind == "f" or not is_mask else np.int64
        value = torch.from_numpy(value.astype(bool if value.dtype.kind == "b" else wide))
    if not isinstance(value, Tensor) or value.layout != torch.strided or value.is_nested or value.is_quantized:
        return value
    if value.is_complex() or value.is_meta or value.ndim == 0 or value.numel() == 0:
        return value
    with torch.inference_mode(False):
        if is_mask:
            mask = GivenMask(numbers=value.detach().to("cpu", copy=True))
            return mask if key == "mask.file" else {"file": mask}
        if value.ndim < 2 or value.dtype == torch.bool:
            return value
        return GivenTensor(numbers=value.detach().to("cpu", torch.float64, copy=True))


def name_of_module(model: object, where: str) -> str:
    """Return the name of the class of a torch module. Raise InputError, located at `where`, if it is none."""
    if not isinstance(model, nn.Module):
        raise InputError.of(got(model, "expected a torch module"), where=where)
    return type(model).__name__


def given_batches(args: tuple[Any, ...], kwargs: Mapping[str, Any], where: str) -> list[Any]:
    """Return the batches that the arguments of `attncli.swap` or `attncli.fit` describe; `where` is the function.

    Raises:
        InputError: a list or loader has no batches.
    """
    if kwargs or len(args) != 1:
        return [{"args": args, **kwargs} if kwargs else args]
    (data,) = args
    if isinstance(data, Tensor | Mapping | tuple) or not isinstance(data, Iterable):
        return [data]
    batches = list(data)
    if not batches:
        raise InputError.of("got no batches; expected at least one", where=where)
    return batches
