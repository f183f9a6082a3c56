"""What scorers of several seeds at once have in common: one more axis in front, and a norm for each seed."""

import torch
from torch import Tensor, nn


class Stacked(nn.Module):
    """Scores (s, n, m) of queries (s, n, q) and keys (s, m, k), where s counts the seeds."""

    def gradient_norms(self) -> list[Tensor]:
        """Of every parameter the norm of its gradient, one number a seed (s,)."""
        return [norms_by_seed(parameter) for parameter in self.parameters()]


def norms_by_seed(parameter: nn.Parameter) -> Tensor:
    """The norm of the gradient of a parameter (s, ...), one number a seed (s,)."""
    gradient = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
    return length(gradient.flatten(1).mT)


def length(vectors: Tensor) -> Tensor:
    """Of vectors (n,), or of the columns of a matrix (n, s)."""
    norms: Tensor = torch.linalg.vector_norm(vectors, dim=0)
    return norms
