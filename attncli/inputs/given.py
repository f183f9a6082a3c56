"""Keep tensors and arrays of a config in Python as they are: long nested lists would be slow."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attncli.config.tensors import GivenTensor
from attncli.inputs.build import ROLES


def given(key: Any, value: Any) -> Any:
    """Return the value of a config's key, such as `data` or `data.keys`, with a GivenTensor for each tensor of `data`.

    Only real numbers (..., rows, features) are kept, as a copy; the rest is validated as YAML.
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
