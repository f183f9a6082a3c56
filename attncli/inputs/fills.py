"""Generate the tensors that a config describes by `fill`, in float64, so random numbers do not depend on the dtype."""

import math
from collections.abc import Mapping

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
            return _student_t(source.shape, source.df, generator)
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


def _student_t(shape: list[int], df: float, generator: Generator) -> Tensor:
    """Return samples of Student's t: normal samples divided by sqrt(c / df), with independent chi-squared samples c."""
    with torch.random.fork_rng(devices=[]):  # torch.distributions draws from the global generator only
        torch.default_generator.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        squares = torch.distributions.Chi2(torch.tensor(df, dtype=torch.float64)).sample(torch.Size(shape))
    return squares.div_(df).rsqrt_().mul_(_normal(shape, generator))
