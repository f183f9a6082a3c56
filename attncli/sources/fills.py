"""Generate the tensors that a config describes by `fill`, in float64, so random numbers do not depend on the dtype."""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Generator, Tensor

from attncli.config.tensors import ConstantFill, CorrelatedFill, Fill, NormalFill, PlainFill, StudentTFill, UniformFill


def fill(source: Fill, generator: Generator, others: Mapping[str, Tensor]) -> Tensor:
    """Return the float64 tensor that `source` describes; `others` has the tensors to which `correlated` refers."""
    match source:
        case NormalFill():
            return _normal(source.shape, generator).mul_(source.std).add_(source.mean)
        case UniformFill():
            return _uniform(source.shape, generator).mul_(source.high - source.low).add_(source.low)
        case ConstantFill():
            return torch.full(source.shape, source.value, dtype=torch.float64)
        case StudentTFill():
            return student_t(source.shape, source.df, generator)
        case CorrelatedFill():
            other = others[source.source]
            noise = _normal(source.shape or list(other.shape), generator).mul_(math.sqrt(1.0 - source.rho**2))
            return noise.add_(other.to(torch.float64), alpha=source.rho)
        case PlainFill(fill="eye", shape=shape):
            return torch.eye(shape[-2], shape[-1], dtype=torch.float64).expand(shape).clone()
        case PlainFill(fill="arange", shape=shape):
            return torch.arange(math.prod(shape), dtype=torch.float64).reshape(shape)
        case PlainFill(fill="rademacher", shape=shape):
            return (_uniform(shape, generator) < 0.5).to(torch.float64) * 2.0 - 1.0
        case PlainFill(fill=kind, shape=shape):
            return torch.full(shape, 1.0 if kind == "ones" else 0.0, dtype=torch.float64)


def _normal(shape: list[int], generator: Generator) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def _uniform(shape: list[int], generator: Generator) -> Tensor:
    return torch.rand(shape, generator=generator, dtype=torch.float64)


def student_t(shape: Sequence[int], df: float, generator: Generator) -> Tensor:
    """Draw from Student's t, exactly for every df > 0, with the method of Bailey 1994.

    It is computed in float64: the smallest uniform numbers of float32 are too large for the fourth moment of the tail.
    """
    uniform = torch.empty(*shape, dtype=torch.float64).uniform_(generator=generator).neg_().add_(1.0)  # in (0, 1]
    angle = torch.empty(*shape, dtype=torch.float64).uniform_(0.0, 2.0 * math.pi, generator=generator)
    lengths = uniform.log_().mul_(-2.0 / df).expm1_().mul_(df).sqrt_()
    return lengths.mul_(angle.cos_())
