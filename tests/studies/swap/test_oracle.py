"""The study `swap` against formulas in torch, inserted by transformers' own registry of attention functions."""

import itertools
import math
from typing import Any

import pytest
import scipy.stats
import torch
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer

import attncli
from tests.models.families import of_transformers
from tests.models.swap.oracle import TEXTBOOK, Weights, attention, softmax, softmax_plus_one, sparsemax

TEXTS = [
    "Attention weights are computed with a softmax.",
    "A softmax turns scores into attention weights.",
    "The dog barked at the postman, and nobody knew why.",
    "Rain.",
]
ENTRIES: list[Any] = [
    {"scorer": "scaled_dot", "scale": "1/d", "label": "one_over_d"},
    "sparsemax",
    "relu",
    "softmax_plus_one",
    "softpick",
    "stick_breaking",
    {"scorer": "cosine", "scale": 8.0, "label": "cosine"},
]


def one_over_d(queries: Tensor, keys: Tensor, scale: float, valid: Tensor) -> Tensor:
    return softmax(queries, keys, 1 / queries.shape[-1], valid)


def relu(queries: Tensor, keys: Tensor, scale: float, valid: Tensor) -> Tensor:
    return (queries @ keys.mT * scale).clamp(min=0) * valid / valid.sum(-1, keepdim=True).clamp(min=1)


def softpick(queries: Tensor, keys: Tensor, scale: float, valid: Tensor) -> Tensor:
    grown = (queries @ keys.mT * scale).exp() - 1
    return grown.clamp(min=0) * valid / (1e-8 + (grown.abs() * valid).sum(-1, keepdim=True))


def stick_breaking(queries: Tensor, keys: Tensor, scale: float, valid: Tensor) -> Tensor:
    """Return the weights key by key, from the last one on."""
    shares = (queries @ keys.mT * scale).sigmoid() * valid
    left, weights = torch.ones_like(shares[..., 0]), []
    for share in reversed(shares.unbind(-1)):
        weights.append(share * left)
        left = left * (1 - share)
    return torch.stack(weights[::-1], -1)


def cosine(queries: Tensor, keys: Tensor, scale: float, valid: Tensor) -> Tensor:
    queries, keys = (nn.functional.normalize(each, dim=-1) for each in (queries, keys))
    return softmax(queries, keys, 8.0, valid)


def zero(queries: Tensor, keys: Tensor, scale: float, valid: Tensor) -> Tensor:
    return torch.zeros(valid.shape)


def sigmoid(queries: Tensor, keys: Tensor, scale: float, valid: Tensor) -> Tensor:
    counts = valid.sum(-1, keepdim=True).clamp(min=1)
    return (queries @ keys.mT * scale - counts.to(queries.dtype).log()).sigmoid() * valid


def window(first: int) -> Weights:
    """Return the weights of a window of 4 keys, and of the first ones."""

    def weights(queries: Tensor, keys: Tensor, scale: float, valid: Tensor) -> Tensor:
        place = torch.arange(valid.shape[-1])
        return softmax(queries, keys, scale, valid & ((place[:, None] - place < 4) | (place < first)))

    return weights


FORMULAS = {**TEXTBOOK, "one_over_d": one_over_d, "relu": relu, "cosine": cosine, "zero": zero}
FORMULAS |= {"softpick": softpick, "stick_breaking": stick_breaking}
LABELS = FORMULAS.keys() - {"model"}


def outputs(model: Any, inputs: Any, label: str, layers: set[int] | None = None, head: int | None = None) -> Tensor:
    """Return the main output of a model with a formula in some layers and in one head of them, without this package."""

    def in_head(queries: Tensor, keys: Tensor, scale: float, valid: Tensor) -> Tensor:
        chosen = torch.arange(queries.shape[1]).eq(head or 0)[:, None, None]
        new, own = (FORMULAS[name](queries, keys, scale, valid) for name in (label, "model"))
        return torch.where(chosen, new, own)

    weights = FORMULAS[label] if head is None else in_head
    with torch.no_grad(), attention(model, weights if layers is None else dict.fromkeys(layers, weights)):
        given = model(**inputs)
    main: Tensor = given.logits if "logits" in given else given.last_hidden_state
    return main.double()


def loss_of(logits: Tensor, tokens: Tensor, valid: Tensor) -> tuple[float, Tensor]:
    """Return the mean loss of the next token, and log probabilities, where neither token is padding."""
    counted = valid[:, 1:] & valid[:, :-1]
    logs = logits[:, :-1].log_softmax(-1)[counted]
    return float(-logs.gather(-1, tokens[:, 1:][counted][:, None]).mean()), logs


PLACES: list[tuple[str, set[int] | None, int | None]] = [("all", None, None), ("layer", {1}, None), ("head", {1}, 2)]


def row_of(result: attncli.Result, label: str, by: str) -> dict[str, Any]:
    (row,) = (
        row
        for row in result.records
        if (row["label"], row["by"]) == (label, by)
        and (by == "all" or result.layers[row["layer"]] == 1)
        and row["head"] in (None, 2)
    )
    return row


def model_and_texts(kind: str, folder: str = "") -> tuple[Any, dict[str, Any]]:
    """Return a small model, or the one in a folder, and four texts with padding on the right."""
    model: Any = AutoModel.from_pretrained(folder).eval() if kind == "minilm" else of_transformers(kind, "sdpa")[0]
    for index, layer in enumerate(model.encoder.layer if kind != "gqa" else ()):
        layer.attention.self.layer_idx = index
    if kind == "minilm":
        return model, dict(AutoTokenizer.from_pretrained(folder)(TEXTS, return_tensors="pt", padding=True))
    mask = (torch.arange(12) < torch.tensor([12, 9, 12, 5])[:, None]).long()
    return model, {"input_ids": torch.randint(5, 90, (4, 12)), "attention_mask": mask}


@pytest.mark.parametrize("kind", ["bert", pytest.param("minilm", marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore")
def test_a_sentence_encoder(kind: str, minilm: str) -> None:
    model, inputs = model_and_texts(kind, minilm)
    result = attncli.swap(model, scorers=ENTRIES, by=["all", "layer", "head"], heads=[2], **inputs)
    own, valid = outputs(model, inputs, "model"), inputs["attention_mask"].bool()
    assert row_of(result, "model", "all")["relative_l2"] < 1e-5
    for label, (by, layers, head) in itertools.product(LABELS, PLACES):
        row, new = row_of(result, label, by), outputs(model, inputs, label, layers, head)
        expected = float((new - own)[valid].norm() / own[valid].norm())
        assert row["relative_l2"] == pytest.approx(expected, rel=5e-3), (label, by)
        cosines = torch.cosine_similarity(own[valid], new[valid], dim=-1)
        assert row["token_cosine"] == pytest.approx(float(cosines.mean()), abs=1e-4)
        pooled = [(each * valid[..., None]).sum(1) / valid.sum(1, keepdim=True) for each in (own, new)]
        assert row["pooled_cosine"] == pytest.approx(float(torch.cosine_similarity(*pooled).mean()), abs=1e-4)
        similar = [torch.cosine_similarity(each[:, None], each[None], dim=-1) for each in pooled]
        above = torch.ones(4, 4, dtype=torch.bool).triu(1)
        ranks = float(scipy.stats.spearmanr(*(each[above] for each in similar)).statistic)
        assert row["rank_correlation"] == pytest.approx(ranks, abs=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_a_language_model_with_groups_of_heads() -> None:
    model, inputs = model_and_texts("gqa")
    result = attncli.swap(model, scorers=ENTRIES, by=["all", "layer", "head"], heads=[2], **inputs)
    tokens, valid = inputs["input_ids"], inputs["attention_mask"].bool()
    own = outputs(model, inputs, "model")
    loss, logs = loss_of(own, tokens, valid)
    assert row_of(result, "model", "all")["loss"] == pytest.approx(loss, abs=1e-4)
    for label, (by, layers, head) in itertools.product(LABELS, PLACES):
        row, new = row_of(result, label, by), outputs(model, inputs, label, layers, head)
        expected = float((new - own)[valid].norm() / own[valid].norm())
        assert row["relative_l2"] == pytest.approx(expected, rel=5e-3), (label, by)
        new_loss, new_logs = loss_of(new, tokens, valid)
        assert row["loss"] == pytest.approx(new_loss, abs=1e-3)
        assert row["loss_change"] == pytest.approx(new_loss - loss, abs=1e-3)
        assert row["perplexity"] == pytest.approx(math.exp(row["loss"]))
        kl = float((logs.exp() * (logs - new_logs)).sum(-1).mean())
        assert row["kl"] == pytest.approx(kl, abs=1e-3)
        same = (logs.argmax(-1) == new_logs.argmax(-1)).double().mean()
        assert row["top1_agreement"] == pytest.approx(float(same), abs=0.06)


CHECKED: dict[str, tuple[Any, Weights]] = {
    "cosine": (ENTRIES[-1], cosine),
    "softmax_plus_one": ("softmax_plus_one", softmax_plus_one),
    "sigmoid": ("sigmoid", sigmoid),
    "window": ({"scorer": "scaled_dot", "scale": "model", "window": 4, "label": "window"}, window(0)),
    "first_keys": (
        {"scorer": "scaled_dot", "scale": "model", "window": 4, "first_keys": 2, "label": "first_keys"},
        window(2),
    ),
    "sparsemax": ("sparsemax", sparsemax),
}


LIMITS = [(torch.float32, 1e-5), (torch.float64, 1e-9)]  # README states them


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("dtype", "limit"), LIMITS)
def test_losses_by_the_attention_function_of_transformers(dtype: torch.dtype, limit: float) -> None:
    """The loss itself, to rounding. Sparsemax in float64 alone: in float32 both sides are right and differ by more."""
    model, inputs = model_and_texts("gqa")
    model.to(dtype)
    checked = {label: each for label, each in CHECKED.items() if label != "sparsemax" or dtype == torch.float64}
    result = attncli.swap(model, scorers=[entry for entry, _ in checked.values()], by="all", **inputs)
    for label, (_, weights) in checked.items():
        with torch.no_grad(), attention(model, weights):
            logits = model(**inputs).logits
        loss, _ = loss_of(logits, inputs["input_ids"], inputs["attention_mask"].bool())
        assert row_of(result, label, "all")["loss"] == pytest.approx(loss, abs=limit, rel=0), label
