"""The study `swap` against formulas in torch, inserted by transformers' own registry of attention functions."""

import itertools
import math
from functools import partial
from typing import Any

import pytest
import scipy.stats
import torch
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

import attncli
from attncli.results import Row
from tests.models.families import of_transformers
from tests.models.swap.oracle import TEXTBOOK, Weights, attention, main_output, of_heads, softmax
from tests.reference import for_each_matrix, weights_of

pytestmark = pytest.mark.filterwarnings("ignore")
TEXTS = [
    "Attention weights are computed with a softmax.",
    "A softmax turns scores into attention weights.",
    "The dog barked at the postman, and nobody knew why.",
    "Rain.",
]


def by_loops(normalizer: str, queries: Tensor, keys: Tensor, scale: float, valid: Tensor) -> Tensor:
    weights = for_each_matrix(partial(weights_of, normalizer), queries @ keys.mT * scale, valid)
    return weights.to(queries.dtype)


FORMULAS: dict[str, Weights] = {
    **{entry.rpartition("label=")[2]: weights for entry, weights in TEXTBOOK.items()},
    "one_over_d": lambda queries, keys, scale, valid: softmax(queries, keys, 1 / queries.shape[-1], valid),
    "stick_breaking": partial(by_loops, "stick_breaking"),
    "sigmoid": partial(by_loops, "sigmoid"),
    "zero": lambda queries, keys, scale, valid: queries.new_zeros(valid.shape),
}
ENTRIES: list[Any] = [
    {"scorer": "scaled_dot", "scale": "1/d", "label": "one_over_d"},
    *(entry for entry in TEXTBOOK if entry not in ("model", "uniform")),
    *("stick_breaking", "sigmoid"),
]


def outputs(model: Any, inputs: Any, label: str, layers: set[int] | None = None, head: int | None = None) -> Tensor:
    """Return the main output of a model with a formula in some layers and in one head of them, without this package."""
    weights = FORMULAS[label] if head is None else of_heads({head: FORMULAS[label]})
    with torch.no_grad(), attention(model, weights if layers is None else dict.fromkeys(layers, weights)):
        return main_output(model, inputs).double()


def loss_of(logits: Tensor, tokens: Tensor, valid: Tensor) -> tuple[float, Tensor]:
    """Return the mean loss of the next token, and log probabilities, where neither token is padding."""
    counted = valid[:, 1:] & valid[:, :-1]
    logs = logits[:, :-1].log_softmax(-1)[counted]
    return float(-logs.gather(-1, tokens[:, 1:][counted][:, None]).mean()), logs


PLACES: list[tuple[str, set[int] | None, int | None]] = [("all", None, None), ("layer", {1}, None), ("head", {1}, 2)]


def model_and_texts(kind: str, folder: str = "") -> tuple[Any, dict[str, Any]]:
    """Return a small model, or the one in a folder, and four texts with padding on the right."""
    model: Any = AutoModel.from_pretrained(folder).eval() if kind == "minilm" else of_transformers(kind, "sdpa")[0]
    for index, layer in enumerate(model.encoder.layer if kind != "gqa" else ()):
        layer.attention.self.layer_idx = index
    if kind == "minilm":
        return model, dict(AutoTokenizer.from_pretrained(folder)(TEXTS, return_tensors="pt", padding=True))
    mask = (torch.arange(12) < torch.tensor([12, 9, 12, 5])[:, None]).long()
    return model, {"input_ids": torch.randint(5, 90, (4, 12)), "attention_mask": mask}


def assert_states(row: Row, own: Tensor, new: Tensor, valid: Tensor) -> None:
    cosines = torch.cosine_similarity(own[valid], new[valid], dim=-1)
    assert row["token_cosine"] == pytest.approx(float(cosines.mean()), abs=1e-4)
    pooled = tuple((each * valid[..., None]).sum(1) / valid.sum(1, keepdim=True) for each in (own, new))
    assert row["pooled_cosine"] == pytest.approx(float(torch.cosine_similarity(pooled[0], pooled[1]).mean()), abs=1e-4)
    similar = [torch.cosine_similarity(each[:, None], each[None], dim=-1) for each in pooled]
    above = torch.ones(4, 4, dtype=torch.bool).triu(1)
    ranks = float(scipy.stats.spearmanr(*(each[above] for each in similar)).statistic)
    assert row["rank_correlation"] == pytest.approx(ranks, abs=1e-6)


def assert_predictions(row: Row, own: Tensor, new: Tensor, tokens: Tensor, valid: Tensor) -> None:
    (loss, logs), (new_loss, new_logs) = (loss_of(each, tokens, valid) for each in (own, new))
    assert row["loss"] == pytest.approx(new_loss, abs=1e-5)
    assert row["loss_change"] == pytest.approx(new_loss - loss, abs=1e-5)
    assert row["perplexity"] == pytest.approx(math.exp(row["loss"]))
    kl = float((logs.exp() * (logs - new_logs)).sum(-1).mean())
    assert row["kl"] == pytest.approx(kl, abs=1e-5)
    same = (logs.argmax(-1) == new_logs.argmax(-1)).double().mean()
    assert row["top1_agreement"] == pytest.approx(float(same), abs=0.06)


@pytest.mark.parametrize("kind", ["gqa", "bert", pytest.param("minilm", marks=pytest.mark.slow)])
def test_every_column_at_every_place(kind: str, minilm: str) -> None:
    model, inputs = model_and_texts(kind, minilm)
    result = attncli.swap(model, scorers=ENTRIES, by=["all", "layer", "head"], heads=[2], **inputs)
    rows = {(row["label"], row["by"]): row for row in result.records if row["layer"] in (None, [*result.layers][1])}
    own, valid = outputs(model, inputs, "model"), inputs["attention_mask"].bool()
    assert rows["model", "all"]["relative_l2"] < 1e-5
    for label, (by, layers, head) in itertools.product(FORMULAS.keys() - {"model"}, PLACES):
        row, new = rows[label, by], outputs(model, inputs, label, layers, head)
        expected = float((new - own)[valid].norm() / own[valid].norm())
        assert row["relative_l2"] == pytest.approx(expected, rel=5e-3), (label, by)
        if kind == "gqa":
            assert_predictions(row, own, new, inputs["input_ids"], valid)
        else:
            assert_states(row, own, new, valid)


LIMITS = [(torch.float32, 1e-5), (torch.float64, 1e-9)]  # README states them


@pytest.mark.parametrize(("dtype", "limit"), LIMITS)
def test_losses_to_rounding(dtype: torch.dtype, limit: float) -> None:
    """Sparsemax in float64 alone: in float32 both sides are right and differ by more."""
    model, inputs = model_and_texts("gqa")
    result = attncli.swap(model.to(dtype), scorers=ENTRIES, by="all", **inputs)
    for row in result.records:
        if row["label"] != "sparsemax" or dtype == torch.float64:
            logits = outputs(model, inputs, row["label"])
            loss, _ = loss_of(logits, inputs["input_ids"], inputs["attention_mask"].bool())
            assert row["loss"] == pytest.approx(loss, abs=limit, rel=0), row["label"]
