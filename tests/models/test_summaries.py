"""The summary of each layer has the facts of its model's config, and `other` where no word is right."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import attncli
from attncli.models.summaries import call_summary
from tests.models.families import of_transformers

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers
N = 16
PLAIN = {"mask": "causal", "scale": 8**-0.5, "groups": 1, "softcap": None, "sinks": False}  # heads of 8 features
WINDOW, GROUPS = {"mask": "window 4"}, {"groups": 2}
ENCODER: dict[str, Any] = {"mask": "full", "scale": 1.0}
FIRST_CALLS: dict[str, list[dict[str, Any]]] = {  # of each layer with weights: where it differs from PLAIN
    "bert": [{"mask": "full"}] * 2,
    "gpt2": [{}] * 2,
    "gpt2 with scales": [{}, {"scale": 8**-0.5 / 2}],
    "gemma2": [{"mask": mask, "scale": 5**-0.5, "softcap": 0.5, **GROUPS} for mask in ("window 4", "causal")],
    "gemma3": [{"scale": 1 / 16, **WINDOW, **GROUPS}] * 2,
    "gpt_oss": [{**mask, "sinks": True, **GROUPS} for mask in (WINDOW, {})],
    "mistral": [{**WINDOW, **GROUPS}] * 2,
    "llama4": [{**mask, **GROUPS} for mask in ({"mask": "documents"}, {})],
    "falcon": [{"groups": 4}] * 2,
    "qwen3_next": [GROUPS],
    "t5": [ENCODER, ENCODER, *[{"scale": 1.0, "padding": None}, ENCODER] * 2],  # of a decoder its own and across
    "diffllama": [GROUPS] * 2,
}


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", FIRST_CALLS)
def test_each_line_equals_the_config(family: str, side: str) -> None:
    model, inputs = of_transformers(family)
    if side == "right":
        inputs["attention_mask"] = inputs["attention_mask"].flip(-1)
    seen = attncli.capture(model, **inputs)
    summaries = [call_summary(call) for call in seen.records if not call.call]
    for summary, line in zip(summaries, FIRST_CALLS[family], strict=True):
        expected = PLAIN | {"padding": f"{side} 4"} | line
        assert {key: summary[key] for key in expected} == pytest.approx(expected)
    assert seen.without_weights == (["layers.0"] if family == "qwen3_next" else [])


def rule(allowed: Callable[[Any, Any], Any], n: int = N, m: int = N) -> Tensor:
    mask: Tensor = allowed(torch.arange(n)[:, None] + m - n, torch.arange(m))
    return mask.expand(n, m)


DOCUMENTS = torch.tensor([0] * 5 + [1] * 8 + [2] * 3)
MASKS: dict[str, tuple[Tensor, str, str | None]] = {
    "causal of a window that no query reaches": (rule(lambda i, j: (j <= i) & (j > i - N)), "causal", None),
    "window": (rule(lambda i, j: (j <= i) & (j > i - N + 1)), f"window {N - 1}", None),
    "window of a cache": (rule(lambda i, j: (j <= i) & (j > i - 4), 5), "window 4", None),
    "causal with a cache": (rule(lambda i, j: j <= i, 5), "causal", None),
    "room in a cache": (rule(lambda i, j: j <= i - 8, 5), "causal", None),
    "one query, all keys": (rule(lambda i, j: j <= i, 1), "full", None),
    "one query, some keys": (rule(lambda i, j: j > i - 4, 1), "other", None),
    "packed": (DOCUMENTS[:, None] == DOCUMENTS, "documents", None),
    "packed and causal": ((DOCUMENTS[:, None] == DOCUMENTS) & rule(lambda i, j: j <= i), "documents", None),
    "prefix": (rule(lambda i, j: (j <= i) | (j < 5)), "prefix 5", None),
    "padded prefix": (rule(lambda i, j: ((j <= i) | (j < 7)) & (j > 1) & (i > 1)), "prefix 5", "left 2"),
    "padded at both sides": (rule(lambda i, j: (j > 1) & (j < N - 3)), "full", "left 2, right 3"),
    "a window to both sides": (rule(lambda i, j: (i - j).abs() < 4), "other", None),
    "a hole": (rule(lambda i, j: (j <= i) & ((j != 3) | (i < 9))), "other", None),
    "first keys beside a window": (rule(lambda i, j: (j <= i) & ((j > i - 4) | (j < 2))), "other", None),
    "one query without a key": (rule(lambda i, j: (j <= i) & (i != 7)), "other", None),
    "causal off by one": (rule(lambda i, j: j <= i + 1), "other", None),
    "no key at all": (rule(lambda i, j: j > N), "other", None),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_in_words(name: str) -> None:
    mask, words, padding = MASKS[name]
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, size, 8) for size in (len(mask), N, N))
    (call,) = attncli.capture(lambda: scaled_dot_product_attention(q, k, v, mask)).records
    assert (call_summary(call)["mask"], call_summary(call)["padding"]) == (words, padding)
    recorded = call_summary(call, None, (torch.arange(N) < 2)[None])["padding"]
    assert recorded == ("left 2" if len(mask) == N else padding)
    both = torch.stack([mask, torch.ones_like(mask)])[None]  # another in each head
    (call,) = attncli.capture(lambda: scaled_dot_product_attention(q, k, v, both)).records
    assert call_summary(call)["mask"] == ("full" if bool(mask.all()) else "other")


def test_products_and_the_strongest_key_by_hand() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, N, 8) for _ in range(3))
    q[1, :, :6], k[1, :, :6] = 1e4, 1e4  # at padding
    k[1, :, 0] = 2e4
    mask = torch.ones(2, 1, N, N, dtype=torch.bool).tril()
    mask[1, ..., :6], mask[1, :, :6] = False, True  # queries at padding see all keys, as in some models
    (call,) = attncli.capture(lambda: scaled_dot_product_attention(q / 4, k, v, mask)).records
    totals, largest = dict[tuple[int, int], float](), 0.0
    for b in range(2):
        for i in range(6 * b, N):
            for h in range(4):
                keys = range(6 * b, i + 1)
                products = [sum(float(x) * float(y) for x, y in zip(q[b, h, i], k[b, h, j], strict=True)) for j in keys]
                largest = max(largest, *map(abs, products))
                weights = torch.tensor(products).double().mul(8**-0.5 / 4).softmax(0).tolist()
                for j, weight in zip(keys, weights, strict=True):
                    totals[b, j] = totals.get((b, j), 0.0) + weight / (N - 6 * b)
    text, key = max(totals, key=lambda place: totals[place])
    names = [[f"{b} {j}" for j in range(N)] for b in range(2)]
    padding = torch.zeros(2, N, dtype=torch.bool)
    padding[1, :6] = True
    summary = call_summary(call, names, padding)
    assert (summary["mask"], summary["padding"]) == ("causal", "left 6")
    assert summary["strongest_key"] == f"{text} {key}"
    assert summary["largest_product"] == pytest.approx(largest, rel=1e-5)
    assert summary["scale"] == pytest.approx(8**-0.5 / 4)
