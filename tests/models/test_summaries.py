"""The summary of each layer says what the config of its model says, and `other` where no word is right."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import attncli
from attncli.models.call import AttentionCall
from attncli.models.summaries import call_summary

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers
Lines = list[dict[str, Any]]
N = 16


def base(draw: random.Random) -> dict[str, Any]:
    """Return the sizes of a small model, drawn at random; heads have 8 features, and queries share heads of keys."""
    heads = draw.choice([2, 4])
    sizes = {"vocab_size": 100, "hidden_size": 8 * heads, "num_attention_heads": heads, "intermediate_size": 32}
    return {**sizes, "num_hidden_layers": draw.choice([2, 4]), "max_position_embeddings": 64}


def lines(masks: list[str], scale: float, groups: int = 1, softcap: float | None = None, sinks: bool = False) -> Lines:
    return [{"mask": mask, "scale": scale, "groups": groups, "softcap": softcap, "sinks": sinks} for mask in masks]


def of_types(config: Any, words: str) -> list[str]:
    """Return the mask of each layer by the `layer_types` of a config; `words` are those of the special layers."""
    return ["causal" if kind == "full_attention" else words for kind in config.layer_types if "linear" not in kind]


def language(t: Any, name: str, draw: random.Random) -> tuple[Any, Lines]:
    """Return a model that reads tokens, and its summaries by the config."""
    sizes, window = base(draw), draw.choice([3, 5, 8])
    heads, count = sizes["num_attention_heads"], sizes["num_hidden_layers"]
    groups = draw.choice([1, 2])
    grouped = {**sizes, "num_key_value_heads": heads // groups, "head_dim": 8, "sliding_window": window}
    words, plain, causal = f"window {window}", 8**-0.5, ["causal"] * count
    if name == "gemma2":
        cap, scalar = draw.choice([20.0, 50.0]), draw.choice([5, 16])
        config = t.Gemma2Config(**grouped, query_pre_attn_scalar=scalar, attn_logit_softcapping=cap)
        return t.Gemma2Model(config), lines(of_types(config, words), scalar**-0.5, groups, cap)
    if name == "gemma3":
        scalar = draw.choice([5, 16])
        kinds = [draw.choice(["sliding_attention", "full_attention"]) for _ in range(count)]
        config = t.Gemma3TextConfig(**grouped, query_pre_attn_scalar=scalar, layer_types=kinds)
        return t.Gemma3TextModel(config), lines(of_types(config, words), scalar**-0.5, groups)
    if name == "gpt_oss":
        config = t.GptOssConfig(**grouped, num_local_experts=2, num_experts_per_tok=1)
        return t.GptOssModel(config), lines(of_types(config, words), plain, groups, sinks=True)
    if name == "mistral":
        return t.MistralModel(t.MistralConfig(**grouped)), lines([words] * count, plain, groups)
    if name == "llama4":
        of_experts = {"num_local_experts": 2, "intermediate_size_mlp": 32}
        config = t.Llama4TextConfig(
            **grouped, **of_experts, attention_chunk_size=window, no_rope_layers=[1, 0] * (count // 2)
        )
        return t.Llama4TextModel(config), lines(of_types(config, "documents"), plain, groups)
    if name == "falcon":
        del sizes["max_position_embeddings"], sizes["intermediate_size"]
        return t.FalconModel(t.FalconConfig(**sizes, alibi=draw.random() < 0.5)), lines(causal, plain, heads)
    if name == "qwen3_next":
        linear = {
            f"linear_{what}": 4 for what in ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim")
        }
        experts = {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 8}
        kinds = ["linear_attention"] * (count - 1) + ["full_attention"]
        config = t.Qwen3NextConfig(**grouped, **linear, **experts, shared_expert_intermediate_size=8, layer_types=kinds)
        return t.Qwen3NextModel(config), lines(of_types(config, ""), plain, groups)
    if name == "diffllama":  # an even number of heads of keys
        sizes |= {"num_attention_heads": 4, "hidden_size": 32, "num_key_value_heads": 4 // groups}
        return t.DiffLlamaModel(t.DiffLlamaConfig(**sizes)), lines(causal, plain, groups)  # in the first of two calls
    if name == "deepseek_v3":
        ranks = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8}
        experts = {"n_routed_experts": 4, "num_experts_per_tok": 1, "n_group": 1, "topk_group": 1}
        more = {"moe_intermediate_size": 8, "first_k_dense_replace": 1, "num_key_value_heads": heads}
        return t.DeepseekV3Model(t.DeepseekV3Config(**sizes, **ranks, **experts, **more)), lines(causal, 12**-0.5)
    if name == "bert":
        return t.BertModel(t.BertConfig(**sizes)), lines(["full"] * count, plain)
    inverse = draw.random() < 0.5
    gpt2 = {"vocab_size": 100, "n_embd": 8 * heads, "n_layer": count, "n_head": heads, "n_positions": 64}
    config = t.GPT2Config(**gpt2, scale_attn_by_inverse_layer_idx=inverse, bos_token_id=1, eos_token_id=1)
    scales = [plain / (layer + 1 if inverse else 1) for layer in range(count)]
    return t.GPT2Model(config), [line for scale in scales for line in lines(["causal"], scale)]


DECODERS = (
    "gemma2",
    "gemma3",
    "gpt_oss",
    "mistral",
    "llama4",
    "falcon",
    "qwen3_next",
    "diffllama",
    "deepseek_v3",
    "gpt2",
)


def first_calls(seen: attncli.Capture) -> list[AttentionCall]:
    return [call for call in seen.records if not call.call]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ["bert", *DECODERS])
def test_each_line_equals_the_config(name: str, side: str) -> None:
    import transformers

    torch.manual_seed(0)
    model, expected = language(transformers, name, random.Random(f"{name} {side}"))
    tokens, mask = torch.randint(5, 90, (3, N)), torch.ones(3, N, dtype=torch.long)
    for text, pads in ((1, 2), (2, 4)):
        mask[text, slice(pads) if side == "left" else slice(N - pads, None)] = 0
    seen = attncli.capture(model, input_ids=tokens, attention_mask=mask)
    summaries = [call_summary(call) for call in first_calls(seen)]
    assert [summary["padding"] for summary in summaries] == [f"{side} 4"] * len(expected)
    for summary, line in zip(summaries, expected, strict=True):
        assert {key: summary[key] for key in line} == pytest.approx(line)
    of_linear = [f"layers.{i}" for i in range(model.config.num_hidden_layers - 1)] if name == "qwen3_next" else []
    assert seen.without_weights == of_linear


def test_an_encoder_and_a_decoder() -> None:
    import transformers as t

    sizes = {"vocab_size": 100, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
    model = t.T5Model(t.T5Config(**sizes, decoder_start_token_id=0))
    mask = torch.ones(2, N, dtype=torch.long)
    mask[1, -3:] = 0
    tokens = torch.randint(5, 90, (2, N))
    calls = attncli.capture(model, input_ids=tokens, attention_mask=mask, decoder_input_ids=tokens[:, :6]).records
    words = {"SelfAttention": ("causal", None), "EncDecAttention": ("full", "right 3")}
    for call in calls:
        summary, kind = call_summary(call), call.layer.rpartition(".")[2]
        expected = ("full", "right 3") if "encoder" in call.layer else words[kind]
        assert (summary["mask"], summary["padding"], summary["scale"]) == (*expected, 1.0)


def test_a_prefix_model() -> None:
    import transformers as t

    text: dict[str, Any] = {"vocab_size": 100, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2}
    text |= {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "model_type": "gemma"}
    vision: dict[str, Any] = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    vision |= {"image_size": 16, "patch_size": 8, "model_type": "siglip_vision_model", "projection_dim": 16}
    config = t.PaliGemmaConfig(vision_config=vision, text_config=text, image_token_id=99, projection_dim=16)
    tokens, kinds = torch.randint(5, 90, (1, N)), torch.zeros(1, N, dtype=torch.long)
    tokens[:, :4], kinds[:, 7:] = 99, 1  # four of the picture, three of the question, and the answer
    inputs = {"input_ids": tokens, "pixel_values": torch.randn(1, 3, 16, 16), "token_type_ids": kinds}
    seen = attncli.capture(t.PaliGemmaModel(config).eval(), **inputs, attention_mask=torch.ones_like(tokens))
    masks = {call.layer: call_summary(call)["mask"] for call in seen.records}
    assert {mask for layer, mask in masks.items() if "vision" in layer} == {"full"}
    assert {mask for layer, mask in masks.items() if "language" in layer} == {"prefix 7"}


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
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_in_words(name: str) -> None:
    mask, words, padding = MASKS[name]
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, size, 8) for size in (len(mask), N, N))
    (call,) = attncli.capture(lambda: scaled_dot_product_attention(q, k, v, mask)).records
    assert (call_summary(call)["mask"], call_summary(call)["padding"]) == (words, padding)
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
