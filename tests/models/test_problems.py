"""Operations that are no attention, or that cannot be followed, are reported and never captured."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import attncli
from attncli.errors import InputError
from tests.models.written import KEYS, QUERIES, VALUES, Computed, H, normal


def swallowed() -> Tensor:
    """Rounding by a very large bias must not hide wrong scores."""
    scores = (QUERIES @ KEYS.mT).square() - 1e9 + torch.full((1, 1, 1, KEYS.shape[-2]), 1e9)
    return scores.softmax(-1) @ VALUES


def fused(values: Tensor, scale: float | None = None) -> Tensor:
    return F.scaled_dot_product_attention(QUERIES, KEYS, values, scale=scale)


CASES: dict[str, tuple[Callable[[], Tensor], str]] = {
    "relu": (lambda: torch.relu(QUERIES @ KEYS.mT) @ VALUES, "relu in place of a softmax"),
    "additive": (
        lambda: torch.tanh(QUERIES[:, :, :, None] + KEYS[:, :, None]).sum(-1).softmax(-1) @ VALUES,
        "scores that are no matrix product of queries and keys",
    ),
    "another axis": (lambda: (QUERIES @ KEYS.mT).softmax(1) @ VALUES, "a softmax over axis 1"),
    "weights that are changed": (
        lambda: ((QUERIES @ KEYS.mT).softmax(-1) * torch.arange(H).view(H, 1, 1)) @ VALUES,
        "weights are changed after the softmax, by mul",
    ),
    "weights without values": (lambda: (QUERIES @ KEYS.mT).softmax(-1), "whose weights no product takes"),
    "scores that are multiplied by pair": (
        lambda: (QUERIES @ KEYS.mT * normal(QUERIES.shape[-2], KEYS.shape[-2]).exp()).softmax(-1) @ VALUES,
        "re-scored, its output differs",
    ),
    "a bias before the softcap": (
        lambda: torch.tanh(QUERIES @ KEYS.mT + normal(QUERIES.shape[-2], KEYS.shape[-2])).softmax(-1) @ VALUES,
        "the bias is added before the softcap; experiments add it after",
    ),
    "a bias before the softcap, and another after it": (
        lambda: (
            (
                torch.tanh(QUERIES @ KEYS.mT + normal(QUERIES.shape[-2], KEYS.shape[-2])) + normal(KEYS.shape[-2])
            ).softmax(-1)
            @ VALUES
        ),
        "re-scored, its output differs",
    ),
    "a large bias": (swallowed, "re-scored, its output differs"),
    "an output of NaN": (lambda: fused(VALUES * math.nan), "its output has no finite number to compare"),
    "an infinite scale": (lambda: fused(VALUES, math.inf), "its scale or its softcap is not finite"),
}


@pytest.mark.parametrize("name", CASES)
def test_attention_that_cannot_be_followed(name: str) -> None:
    written, reason = CASES[name]
    with pytest.raises(InputError, match=f"no attention could be captured; .*{reason}"):
        attncli.capture(written)
    with attncli.Capture() as seen:
        written()
        F.scaled_dot_product_attention(QUERIES, KEYS, VALUES)
    assert [record.problem for record in seen.records][-1] is None
    problems = [*(str(record.problem) for record in seen.records[:-1]), *(missed.problem for missed in seen.missed)]
    assert any(reason in problem for problem in problems)
    seen.check()  # something was captured


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_one_wrong_head_beside_a_large_one(dtype: torch.dtype) -> None:
    """Each row is judged relative to its own size, not to the largest output."""
    factors = torch.ones(H, QUERIES.shape[-2], KEYS.shape[-2])
    factors[1] = normal(*factors.shape[1:]).exp()
    values = torch.cat([1000 * VALUES[:, :1], VALUES[:, 1:]], 1)
    queries, keys, values, factors = (each.to(dtype) for each in (QUERIES, KEYS, values, factors))

    def attention() -> Tensor:
        weights: Tensor = (queries @ keys.mT * factors).softmax(-1)
        return weights @ values

    with pytest.raises(InputError, match=r"re-scored, its output differs by .*, a row of it by \d.* of its size"):
        attncli.capture(attention)


def test_no_attention() -> None:
    mlp = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3), nn.Softmax(-1), nn.Linear(3, 2))
    with pytest.raises(InputError, match=r"^no attention ran; expected a model with attention layers$"):
        attncli.capture(mlp, normal(2, 7, 5))


def test_what_belongs_to_attention_that_was_seen_is_no_attention_of_its_own() -> None:
    class AttentionModel(nn.Sequential):
        pass

    class SelfAttention(Computed):
        pass

    class AttentionOutput(nn.Linear):
        pass

    parts = {"inner": nn.MultiheadAttention(16, 4, batch_first=True), "output": AttentionOutput(16, 16)}
    model = SelfAttention(lambda module, x: module.output(module.inner(x, x, x)[0]), **parts)
    assert attncli.capture(AttentionModel(model), normal(2, 5, 16)).missed == []


@pytest.mark.parametrize("weights", [True, False])
def test_dropout(weights: bool) -> None:
    model = nn.MultiheadAttention(16, 4, dropout=0.5, batch_first=True)
    x = normal(2, 5, 16)
    with attncli.Capture() as seen:
        model(x, x, x, need_weights=weights)
        F.scaled_dot_product_attention(QUERIES, KEYS, VALUES, dropout_p=0.5)
    assert [call.problem for call in seen.records] == ["it ran with dropout; call model.eval() before"] * 2
    assert attncli.capture(model, x, x, x, need_weights=weights).records[0].problem is None
    assert model.training


def test_choices() -> None:
    def calls() -> None:
        for _ in range(3):
            F.scaled_dot_product_attention(QUERIES, KEYS, VALUES)

    with attncli.Capture(calls="first") as first:
        calls()
    with attncli.Capture(layers="1-2,4") as other:
        calls()
    assert len(first.records) == 1
    assert other.records == []
    with pytest.raises(InputError, match='layers: got "1-2,4"; expected 0, of 1 layer with attention'):
        other.check()
    choices: list[dict[str, Any]] = [{"heads": "x"}, {"calls": "some"}, {"layers": -1}, {"layers": []}]
    for choice in choices:
        with pytest.raises(InputError, match="expected"):
            attncli.Capture(**choice)
