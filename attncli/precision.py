"""In which precision scores and weights are computed."""

import torch
from torch import Tensor


def computing_dtype(dtype: torch.dtype) -> torch.dtype:
    """float64 stays float64; everything else is computed in float32, whatever it is stored in."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def at_least_float32(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors in one common dtype, float32 or float64; tensors that have it already are not copied."""
    dtype = torch.float64 if any(tensor.dtype == torch.float64 for tensor in tensors) else torch.float32
    return tuple(tensor.to(dtype) for tensor in tensors)
