"""Small models with random weights, written by hand."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention


class Written(nn.Module):
    """Attention in einsum and softmax, with a causal mask and a learnt bias."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.bias = nn.Parameter(torch.randn(4, 1, 64))

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, 4, -1).unbind(2)
        scores = torch.einsum("bnhd,bmhd->bhnm", q, k) * (d // 4) ** -0.5
        scores, mask = scores + self.bias[..., :n], torch.ones(n, n, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(mask, -torch.inf).softmax(-1)
        out: Tensor = self.out(torch.einsum("bhnm,bmhd->bnhd", weights, v).reshape(b, n, d))
        return out


class Strides(nn.Module):
    """Applies `view` to the output of the kernel in a way that only its strides allow."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def heads(self, x: Tensor) -> list[Tensor]:
        return [each.view(*x.shape[:2], 4, 8).transpose(1, 2) for each in self.qkv(x).chunk(3, -1)]

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        out: Tensor = self.out(scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).view(x.shape))
        return out


class Other(Strides):
    """Attention by a function of queries, keys and values."""

    def __init__(self, attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.attend = attend

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.out(self.attend(*self.heads(x)).transpose(1, 2).reshape(x.shape))
        return result


class Relu(nn.Module):
    """Attention without a softmax, which cannot be replaced."""

    def forward(self, x: Tensor) -> Tensor:
        return (x @ x.mT).relu() / x.shape[1] @ x


class Tower(nn.Module):
    """Two layers of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Written(), Strides()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.first(x)
        result: Tensor = x + self.second(x)
        return result


def tower() -> tuple[nn.Module, Tensor]:
    """Return a small model and its input, for `module:function`."""
    generator = torch.Generator().manual_seed(0)
    model = Tower()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return model.eval(), torch.randn(2, 7, 32, generator=generator)


def broken() -> tuple[nn.Module, Tensor]:
    """Return a model without attention that can be replaced."""
    return Relu(), torch.randn(1, 3, 4)


def nothing() -> int:
    """Return no model."""
    return 3
