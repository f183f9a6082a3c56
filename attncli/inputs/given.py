"""Keep tensors and arrays given in Python as tensors, since long nested lists would be slow."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attncli.config.tensors import GivenTensor
from attncli.inputs.build import ROLES


def given(key: Any, value: Any) -> Any:
    """Return the value of a key such as `data` or `data.keys`, with tensors and arrays replaced by GivenTensor objects.

    They hold copies. Only real numbers of shape (..., rows, features) are replaced; other values stay as they are.
    """
    if key == "data" and isinstance(value, Mapping):
        return {name: given(name, item) for name, item in value.items()}
    if str(key).removeprefix("data.") not in (*ROLES, "bias"):
        return value
    if type(value) is np.ndarray and value.dtype.kind in "iuf":
        value = torch.from_numpy(value.astype(np.float64))
    if not isinstance(value, Tensor) or value.layout != torch.strided or value.is_nested or value.is_quantized:
        return value
    if value.ndim < 2 or value.numel() == 0 or value.is_complex() or value.dtype == torch.bool or value.is_meta:
        return value
    with torch.inference_mode(False):
        return GivenTensor(numbers=value.detach().to("cpu", torch.float64, copy=True))
