"""Models of transformers whose attention is a function of ours, and the textbook code of other attention."""

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

Passed = tuple[Tensor, dict[str, Tensor]]  # output, and gradients by parameter
Weights = Callable[[Tensor, Tensor, float, Tensor], Tensor]  # of queries, keys, scale and valid


def softmax_of(scores: Tensor, valid: Tensor) -> Tensor:
    """Return softmax over valid keys; 0 for a query without any."""
    empty = ~valid.any(-1, keepdim=True)
    return scores.masked_fill(~valid, -torch.inf).masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)


def softmax(queries: Tensor, keys: Tensor, scale: float, valid: Tensor) -> Tensor:
    return softmax_of(queries @ keys.mT * scale, valid)


def cosine(queries: Tensor, keys: Tensor, scale: float, valid: Tensor) -> Tensor:
    queries, keys = (each / each.norm(dim=-1, keepdim=True) for each in (queries, keys))
    return softmax_of(queries @ keys.mT, valid)


def uniform(queries: Tensor, keys: Tensor, scale: float, valid: Tensor) -> Tensor:
    return softmax_of(queries.new_zeros(*queries.shape[:-1], keys.shape[-2]), valid)


def softmax_plus_one(queries: Tensor, keys: Tensor, scale: float, valid: Tensor) -> Tensor:
    powers = (queries @ keys.mT * scale).masked_fill(~valid, -torch.inf).exp()
    return powers / (1 + powers.sum(-1, keepdim=True))


def sparsemax(queries: Tensor, keys: Tensor, scale: float, valid: Tensor) -> Tensor:
    """Return the projection on the simplex by its threshold, which a sort gives (Martins and Astudillo 2016)."""
    scores = (queries @ keys.mT * scale).masked_fill(~valid, -1e4)
    ordered = scores.sort(-1, descending=True).values
    counts = torch.arange(1, scores.shape[-1] + 1)
    support = (1 + counts * ordered > ordered.cumsum(-1)).sum(-1, keepdim=True)
    threshold = (ordered.cumsum(-1).gather(-1, support - 1) - 1) / support
    return (scores - threshold).clamp(min=0) * valid


def window(queries: Tensor, keys: Tensor, scale: float, valid: Tensor, first: int = 0) -> Tensor:
    """Return the weights of the keys less than 4 before or after a query, and of the first keys of its text."""
    place = torch.arange(valid.shape[-1])
    begin = valid.any(-2, keepdim=True).int().argmax(-1, keepdim=True)  # the first that any query sees
    near = (place[:, None] - place).abs() < 4
    return softmax(queries, keys, scale, valid & (near | (place >= begin) & (place < begin + first)))


TEXTBOOK: dict[str, Weights] = {  # by entry
    "model": softmax,
    "softmax": softmax,
    "cosine": cosine,
    "uniform": uniform,
    "sparsemax": sparsemax,
    "softmax_plus_one": softmax_plus_one,
    "scaled_dot:scale=model,window=4,label=window": window,
    "scaled_dot:scale=model,window=4,first_keys=2,label=first_keys": functools.partial(window, first=2),
}


def of_heads(heads: dict[int, Weights]) -> Weights:
    """Return weights that differ by head; the model's own for heads that are not among these."""

    def weights(queries: Tensor, keys: Tensor, scale: float, valid: Tensor) -> Tensor:
        per_head = [
            heads.get(head, softmax)(queries[:, head], keys[:, head], scale, valid[:, head])
            for head in range(queries.shape[1])
        ]
        return torch.stack(per_head, 1)

    return weights


@contextmanager
def attention(model: nn.Module, weights: Weights | dict[int, Weights]) -> Iterator[None]:
    """Let a model of transformers attend with these weights, in all layers or by the number of the layer."""

    def forward(
        module: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        scaling: float | None = None,
        **_: Any,
    ) -> tuple[Tensor, None]:
        groups = query.shape[1] // key.shape[1]
        key, value = (each.repeat_interleave(groups, 1) for each in (key, value))
        n, m = query.shape[-2], key.shape[-2]
        valid = torch.ones(n, m, dtype=torch.bool)
        if mask is not None:
            valid = mask[..., :m] if mask.dtype == torch.bool else mask[..., :m] > -1e4
        elif getattr(module, "is_causal", False):
            valid = valid.tril(m - n)
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        function = weights if not isinstance(weights, dict) else weights.get(module.layer_idx, softmax)
        return (function(query, key, scale, valid.expand(*query.shape[:-1], m)) @ value).transpose(1, 2), None

    before = model.config._attn_implementation  # type: ignore[union-attr]
    AttentionInterface.register("textbook", forward)
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    AttentionMaskInterface.register("textbook", sdpa_mask)
    model.set_attn_implementation("textbook")  # type: ignore[operator]
    try:
        yield
    finally:
        model.set_attn_implementation(before)  # type: ignore[operator]


def main_output(model: nn.Module, inputs: dict[str, Any]) -> Tensor:
    """Return logits or states, 0 at padding of the texts."""
    given = model(**inputs)
    main: Tensor = given.logits if hasattr(given, "logits") else given.last_hidden_state
    mask = inputs.get("attention_mask")
    is_padded = mask is not None and mask.shape == main.shape[:2]
    return main * mask[..., None] if is_padded and mask is not None else main


def passed(model: nn.Module, inputs: dict[str, Any], inside: AbstractContextManager[Any]) -> Passed:
    """Return the output inside of a context, and the gradient of each parameter."""
    model.zero_grad()
    with inside:
        output = main_output(model, inputs)
        output.tanh().sum().backward()  # type: ignore[no-untyped-call]
    zeros = {name: torch.zeros_like(each) for name, each in model.named_parameters()}
    return output.detach(), zeros | {
        name: each.grad for name, each in model.named_parameters() if each.grad is not None
    }


def assert_same(found: Passed, expected: Passed, share: float = 1e-4) -> None:
    """Compare outputs and gradients, each by its norm relative to the largest."""
    assert float((found[0] - expected[0]).norm()) <= 1e-5 * float(expected[0].norm())
    largest = max(float(each.norm()) for each in expected[1].values())
    for name, gradient in expected[1].items():
        limit = share * float(gradient.norm()) + 1e-5 * largest
        assert float((found[1][name] - gradient).norm()) <= limit, name
