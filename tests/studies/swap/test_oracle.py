"""The study `swap` against formulas in torch, inserted by transformers' own registry of attention functions."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import scipy.stats
import torch
from torch import Tensor, nn

import attncli
from tests.studies.swap.models import of_transformers

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
    {"scorer": "cosine", "scale": 8.0, "label": "cosine"},
]


def sparsemax(scores: Tensor) -> Tensor:
    """Return the projection on the simplex by sorting (Martins and Astudillo 2016, algorithm 1)."""
    ordered, _ = scores.sort(-1, descending=True)
    sums, ranks = ordered.cumsum(-1), torch.arange(1, scores.shape[-1] + 1)
    size = (1 + ranks * ordered > sums).sum(-1, keepdim=True)
    threshold = (sums.gather(-1, size - 1) - 1) / size
    return (scores - threshold).clamp(min=0)


def formula(label: str, q: Tensor, k: Tensor, valid: Tensor, scaling: float) -> Tensor:
    """Return the weights (b, h, n, m) of a scorer and normaliser by their formulas."""
    scores = (q @ k.mT) * (1 / q.shape[-1] if label == "one_over_d" else scaling)
    if label == "cosine":
        scores = 8 * nn.functional.normalize(q, dim=-1) @ nn.functional.normalize(k, dim=-1).mT
    low = scores.masked_fill(~valid, -1e30)
    count = valid.sum(-1, keepdim=True)
    if label == "sparsemax":
        return sparsemax(low.double()).to(q.dtype)
    if label == "relu":
        return scores.clamp(min=0).masked_fill(~valid, 0) / count
    if label == "softmax_plus_one":
        powers = low.double().exp()
        return (powers / (1 + powers.sum(-1, keepdim=True))).to(q.dtype)
    if label == "uniform":
        return valid / count
    if label == "zero":
        return torch.zeros_like(scores)
    return low.softmax(-1)


def registered(label: str, layers: set[int] | None, heads: set[int] | None) -> Callable[..., tuple[Tensor, None]]:
    """Return an attention function for transformers' registry, with another formula in some layers and heads."""

    def attend(
        module: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        scaling: Any = None,
        **_: Any,
    ) -> tuple[Tensor, None]:
        groups = query.shape[1] // key.shape[1]
        key, value = (each.repeat_interleave(groups, 1) for each in (key, value))
        scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
        n, m = query.shape[-2], key.shape[-2]
        valid = torch.ones(n, m, dtype=torch.bool)
        if attention_mask is not None:
            valid = attention_mask if attention_mask.dtype == torch.bool else attention_mask > -1e4
        valid = valid.expand(query.shape[0], query.shape[1], n, m)
        own, new = (formula(each, query, key, valid, scaling) @ value for each in ("model", label))
        index = module.layer_idx if getattr(module, "layer_idx", None) is not None else module.number
        if layers is not None and index not in layers:
            new = own
        elif heads is not None:
            chosen = torch.tensor([head in heads for head in range(query.shape[1])])
            new = torch.where(chosen[:, None, None], new, own)
        return new.transpose(1, 2).contiguous(), None

    return attend


def outputs(
    model: Any, inputs: Any, label: str, layers: set[int] | None = None, heads: set[int] | None = None
) -> Tensor:
    """Return the main output of a model with a formula inside, without this package."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    AttentionInterface.register("oracle", registered(label, layers, heads))
    AttentionMaskInterface.register("oracle", eager_mask)
    before = model.config._attn_implementation
    model.set_attn_implementation("oracle")
    try:
        with torch.no_grad():
            given = model(**inputs)
    finally:
        model.set_attn_implementation(before)
    main: Tensor = given.logits if "logits" in given else given.last_hidden_state
    return main.double()


def loss_of(logits: Tensor, tokens: Tensor, valid: Tensor) -> tuple[float, Tensor]:
    """Return the mean loss of the next token, and log probabilities, where neither token is padding."""
    counted = valid[:, 1:] & valid[:, :-1]
    logs = logits[:, :-1].log_softmax(-1)[counted]
    return float(-logs.gather(-1, tokens[:, 1:][counted][:, None]).mean()), logs


PLACES: list[tuple[str, set[int] | None, set[int] | None]] = [
    ("all", None, None),
    ("layer", {1}, None),
    ("head", {1}, {2}),
]


def row_of(result: attncli.Result, label: str, by: str) -> dict[str, Any]:
    (row,) = (
        row
        for row in result.records
        if (row["label"], row["by"]) == (label, by)
        and (by == "all" or result.layers[row["layer"]] == 1)
        and row["head"] in (None, 2)
    )
    return row


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_sentence_encoder(minilm: str) -> None:
    import transformers

    result = attncli.run(
        {"study": "swap", "model": minilm, "texts": TEXTS, "scorers": ENTRIES, "by": ["all", "layer", "head"],
         "layers": [1], "heads": [2], "batch_size": 3}
    )  # fmt: skip
    whole = attncli.run({"study": "swap", "model": minilm, "texts": TEXTS, "scorers": ENTRIES, "by": "all"})
    model: Any = transformers.AutoModel.from_pretrained(minilm).eval()
    for index, layer in enumerate(model.encoder.layer):
        layer.attention.self.number = index
    inputs = transformers.AutoTokenizer.from_pretrained(minilm)(TEXTS, return_tensors="pt", padding=True)
    valid = inputs["attention_mask"].bool()
    own = outputs(model, inputs, "model")
    for label in ("one_over_d", "sparsemax", "relu", "softmax_plus_one", "cosine", "uniform", "zero"):
        for by, layers, heads in PLACES:
            row = row_of(whole if by == "all" else result, label, by)
            new = outputs(model, inputs, label, layers, heads)
            expected = float((new - own)[valid].norm() / own[valid].norm())
            assert row["relative_l2"] == pytest.approx(expected, rel=5e-3), (label, by)
            cosines = torch.cosine_similarity(own[valid], new[valid], dim=-1)
            assert row["token_cosine"] == pytest.approx(float(cosines.mean()), abs=1e-4)
            if by == "all":
                pooled = [(each * valid[..., None]).sum(1) / valid.sum(1, keepdim=True) for each in (own, new)]
                assert row["pooled_cosine"] == pytest.approx(float(torch.cosine_similarity(*pooled).mean()), abs=1e-4)
                similar = [torch.cosine_similarity(each[:, None], each[None], dim=-1) for each in pooled]
                above = torch.ones(4, 4, dtype=torch.bool).triu(1)
                ranks = float(scipy.stats.spearmanr(*(each[above] for each in similar)).statistic)
                assert row["rank_correlation"] == pytest.approx(ranks, abs=1e-6)
    assert row_of(whole, "model", "all")["relative_l2"] < 1e-5


@pytest.mark.filterwarnings("ignore")
def test_a_language_model_with_groups_of_heads() -> None:
    model, inputs = of_transformers("gqa", "sdpa")
    inputs["attention_mask"] = inputs["attention_mask"].flip(-1)  # padding on the right
    by: list[Any] = ["all", "layer", "head"]
    result = attncli.swap(model, scorers=ENTRIES, by=by, heads=[2], **inputs)
    tokens, valid = inputs["input_ids"], inputs["attention_mask"].bool()
    own = outputs(model, inputs, "model")
    loss, logs = loss_of(own, tokens, valid)
    assert row_of(result, "model", "all")["loss"] == pytest.approx(loss, abs=1e-4)
    for label in ("one_over_d", "sparsemax", "relu", "softmax_plus_one", "cosine", "uniform", "zero"):
        for place, layers, heads in PLACES:
            row, new = row_of(result, label, place), outputs(model, inputs, label, layers, heads)
            expected = float((new - own)[valid].norm() / own[valid].norm())
            assert row["relative_l2"] == pytest.approx(expected, rel=5e-3), (label, place)
            new_loss, new_logs = loss_of(new, tokens, valid)
            assert row["loss"] == pytest.approx(new_loss, abs=1e-3)
            assert row["loss_change"] == pytest.approx(new_loss - loss, abs=1e-3)
            assert row["perplexity"] == pytest.approx(math.exp(row["loss"]))
            kl = float((logs.exp() * (logs - new_logs)).sum(-1).mean())
            assert row["kl"] == pytest.approx(kl, abs=1e-3)
            same = (logs.argmax(-1) == new_logs.argmax(-1)).double().mean()
            assert row["top1_agreement"] == pytest.approx(float(same), abs=0.06)
            sizes = [int(each[1:].logical_and(each[:-1]).sum()) for each in valid]
            totals = [
                (loss_of(new[[i]], tokens[[i]], valid[[i]])[0] - loss_of(own[[i]], tokens[[i]], valid[[i]])[0]) * size
                for i, size in enumerate(sizes)
            ]
            rests = [total - (new_loss - loss) * size for total, size in zip(totals, sizes, strict=True)]
            error = math.sqrt(2 * sum(rest**2 for rest in rests)) / sum(sizes)
            assert row["loss_change_se"] == pytest.approx(error, abs=1e-3)
