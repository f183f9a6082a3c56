"""Scorers of the user inside a model: functions, classes and modules see the queries and keys of `Capture`."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

import attncli
from attncli.engine.runs.captured import save_captured
from tests.models.written import Computed


class Scaled(nn.Module):
    """Causal attention that multiplies its queries, and maybe its keys, before the product."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.qkv = way, nn.Linear(16, 48)

    def heads(self, x: Tensor) -> list[Tensor]:
        q, k, v = (each.view(*x.shape[:2], 4, 4).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        return [q * 0.3, k * 0.7 if self.way == "both" else k, v]

    def forward(self, x: Tensor) -> Tensor:
        if self.way == "kernel":
            q, k, v = self.heads(x)
            return scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0)
        return output_of(product, self, x)


def product(queries: Tensor, keys: Tensor) -> Tensor:
    return queries @ keys.mT


def output_of(scorer: Any, model: Scaled, x: Tensor) -> Tensor:
    """Return the output by the textbook, for the queries and keys as the model has them."""
    q, k, v = model.heads(x)
    hidden = torch.ones(x.shape[1], x.shape[1]).triu(1) > 0
    output: Tensor = scorer(q, k).masked_fill(hidden, -torch.inf).softmax(-1) @ v
    return output


@pytest.mark.parametrize("way", ["kernel", "queries", "both"])
@pytest.mark.parametrize("kind", ["function", "module", "entry", "plan"])
def test_a_scorer_sees_the_queries_and_keys_of_capture(way: str, kind: str) -> None:
    torch.manual_seed(0)
    model, x = Scaled(way), torch.randn(2, 6, 16)
    form = Computed(lambda module, q, k: module.form(q) @ k.mT, form=nn.Linear(4, 4))
    scorer = form if kind == "module" else product
    entries: dict[str, Any] = {"entry": {"scorer": product}, "plan": {0: product}}
    swap, parameters = attncli.Swap(entries.get(kind, scorer)), [*model.parameters(), *form.parameters()]
    assert kind != "module" or {*swap.parameters()} == {*form.parameters()}
    expected = output_of(scorer, model, x)
    with swap:
        found = model(x)
    assert_close(found, expected)
    gradients = [torch.autograd.grad(each.tanh().sum(), parameters, allow_unused=True) for each in (found, expected)]
    for mine, theirs in zip(*gradients, strict=True):
        assert (mine is None) == (theirs is None)
        assert mine is None or torch.allclose(mine, theirs, rtol=1e-4, atol=1e-5)
    (call,) = attncli.capture(model, x).records
    queries, keys, _ = model.heads(x)
    assert_close((call.queries, call.keys), (queries, keys))


def test_built_in_scorers_see_queries_without_the_factor() -> None:
    model, x = Scaled("kernel"), torch.randn(2, 6, 16)
    with torch.no_grad(), attncli.Swap("dot"):
        found = model(x)
    assert_close(found, output_of(lambda q, k: q / 0.3 @ k.mT, model, x))


def test_a_run_on_a_captured_file_agrees(tmp_path: Path) -> None:
    model, x = Scaled("queries"), torch.randn(2, 6, 16)
    seen = attncli.capture(model, x)
    save_captured(tmp_path / "a.safetensors", seen, {})
    captured = {"data": {"capture": str(tmp_path / "a.safetensors")}}
    result = attncli.run({**captured, "scorers": [{"scorer": product, "label": "own"}], "save": ["output"]})
    (output,) = [tensor for name, tensor in result.tensors.items() if name.endswith("output")]
    assert_close(output, output_of(product, model, x).detach())
