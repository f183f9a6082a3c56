"""Capture small random models of well-known families. Tests of runs compare their weights."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.testing import assert_close

import attncli
from attncli.errors import InputError
from attncli.models.call import AttentionCall

IDS = torch.tensor([[5, 9, 11, 3, 8, 2, 7], [4, 6, 12, 3, 10, 1, 1]])
MASK = torch.tensor([[1] * 7, [1] * 5 + [0] * 2])
LEFT = MASK.flip(1)
TEXT = {"input_ids": IDS, "attention_mask": MASK}
SIZES = {
    "vocab_size": 32,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 32,
}
GROUPED = {**SIZES, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 1, "bos_token_id": 2, "eos_token_id": None}
ENCODER_DECODER = {
    "vocab_size": 32,
    "d_model": 32,
    **{f"{side}_{what}": 2 for side in ("encoder", "decoder") for what in ("layers", "attention_heads")},
    **{f"{side}_ffn_dim": 32 for side in ("encoder", "decoder")},
    "pad_token_id": 1,
}
DECODED = {**TEXT, "decoder_input_ids": IDS[:, :3]}
SINKS = {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 3}
Config = Callable[[], Any]
FAMILIES: dict[str, tuple[Config, dict[str, Tensor]]] = {
    "bert": (lambda: transformers.BertConfig(**SIZES), TEXT),
    "gpt2": (lambda: transformers.GPT2Config(vocab_size=32, n_embd=32, n_layer=2, n_head=4, n_positions=32), TEXT),
    "llama": (lambda: transformers.LlamaConfig(**GROUPED), TEXT),
    "llama, padded on the left": (lambda: transformers.LlamaConfig(**GROUPED), {**TEXT, "attention_mask": LEFT}),
    "gemma2": (lambda: transformers.Gemma2Config(**GROUPED, attn_logit_softcapping=0.5, sliding_window=3), TEXT),
    "gemma3": (lambda: transformers.Gemma3TextConfig(**GROUPED, sliding_window=3), TEXT),
    "gpt-oss": (lambda: transformers.GptOssConfig(**GROUPED, **SINKS), TEXT),
    "t5": (
        lambda: transformers.T5Config(vocab_size=32, d_model=32, d_kv=8, d_ff=32, num_layers=2, num_heads=4),
        DECODED,
    ),
    "whisper": (
        lambda: transformers.WhisperConfig(
            **ENCODER_DECODER, num_mel_bins=8, max_source_positions=20, max_target_positions=20
        ),
        {"input_features": torch.linspace(-1, 1, 2 * 8 * 40).view(2, 8, 40), "decoder_input_ids": IDS[:, :3]},
    ),
    "vit": (
        lambda: transformers.ViTConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=32,
            image_size=16,
            patch_size=8,
        ),
        {"pixel_values": torch.linspace(-1, 1, 2 * 3 * 16 * 16).view(2, 3, 16, 16)},
    ),
    "albert, one layer for all": (lambda: transformers.AlbertConfig(**SIZES, embedding_size=16), TEXT),
    "bloom, with linear biases": (
        lambda: transformers.BloomConfig(vocab_size=32, hidden_size=32, n_layer=2, n_head=4),
        TEXT,
    ),
    "falcon, with one head of keys": (
        lambda: transformers.FalconConfig(vocab_size=32, hidden_size=32, num_hidden_layers=2, num_attention_heads=4),
        TEXT,
    ),
}
EAGER_ONLY = {"gemma2", "gpt-oss", "bloom, with linear biases"}
SDPA = [name for name in FAMILIES if name not in EAGER_ONLY]


def built(config: Any, attention: str, kind: Any = transformers.AutoModel) -> nn.Module:
    """Return a random model with scores, biases and sinks far from 0."""
    transformers.set_seed(0)
    model: nn.Module = kind.from_config(config, attn_implementation=attention).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model


@pytest.mark.parametrize("family", SDPA)
def test_fused_calls_are_those_that_are_written_out(family: str) -> None:
    """A model that computes attention in two ways has the same inputs of its calls in both."""
    config, inputs = FAMILIES[family]
    eager, fused = (attncli.capture(built(config(), how), **inputs).records for how in ("eager", "sdpa"))
    assert [record.name for record in eager] == [record.name for record in fused]
    for one, other in zip(eager, fused, strict=True):
        assert (one.how, other.how) == ("steps", "function")
        assert other.error <= 1e-5
        assert (one.groups, other.groups, one.softcap) == (other.groups, one.groups, other.softcap)
        assert one.scale * one.pre_scale == pytest.approx(other.scale * other.pre_scale)
        assert (one.valid is None) == (other.valid is None)
        full = torch.ones(one.queries.shape[:-1], dtype=torch.bool)
        valid = full if one.valid is None else one.valid.any(-1).expand_as(full)  # for the others kernels differ
        assert_close(one.queries[valid], other.queries[valid], rtol=1e-3, atol=1e-4)
        assert_close(one.weights()[valid], other.weights()[valid], rtol=1e-3, atol=1e-4)


def test_what_makes_families_different() -> None:
    records = {
        name: attncli.capture(built(FAMILIES[name][0](), "eager"), **FAMILIES[name][1]).records
        for name in ("gemma2", "gpt-oss", "t5", "whisper", "llama", "albert, one layer for all")
    }
    assert [record.softcap for record in records["gemma2"]] == [0.5, 0.5]
    assert [None if record.sinks is None else record.sinks.shape for record in records["gpt-oss"]] == [(1, 4, 1, 1)] * 2
    assert {record.scale * record.pre_scale for record in records["t5"]} == {1.0}
    assert {record.bias is None for record in records["t5"]} == {False, True}  # none between decoder and encoder
    assert {record.scale for record in records["whisper"]} == {1.0}
    assert {record.pre_scale for record in records["whisper"]} == {0.25}
    assert {(record.groups, record.keys.shape[1]) for record in records["llama"]} == {(2, 2)}
    assert [record.call for record in records["albert, one layer for all"]] == [0, 1]


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_generate(attention: str, cache: str) -> None:
    """Each step of decoding is one call. Overwritten caches and packed heads do not change the records."""
    model: Any = built(transformers.LlamaConfig(**GROUPED), attention, transformers.AutoModelForCausalLM)
    options = {"attention_mask": LEFT, "max_new_tokens": 3, "do_sample": False, "cache_implementation": cache}
    with attncli.Capture() as seen:
        written = model.generate(IDS, **options)
    assert [record.problem for record in seen.records] == [None] * 6
    assert max(record.error for record in seen.records) <= 1e-5
    assert [record.call for record in seen.records] == [0, 0, 1, 1, 2, 2]
    assert [record.queries.shape[1:3] for record in seen.records] == [(4, 7)] * 2 + [(4, 1)] * 4
    assert {record.groups for record in seen.records} == {2}
    mask = torch.cat([LEFT, torch.ones(2, 2, dtype=torch.int64)], 1)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    whole = attncli.capture(model, written[:, :-1], attention_mask=mask, position_ids=positions).records[0]
    last = seen.records[-2]
    assert_close(last.queries, whole.queries[:, :, -1:], rtol=1e-3, atol=1e-4)
    assert_close(last.output, whole.output[:, :, -1:], rtol=1e-3, atol=1e-4)
    assert_close(last.keys[:, :, :9], whole.keys, rtol=1e-3, atol=1e-4)


def furthest_row(record: AttentionCall) -> float:
    """Return the largest relative L2 distance of a re-scored row from the model's own; rows of 0 must be 0."""
    lengths = record.output.double().norm(dim=-1)
    distances = (record.rescored().double() - record.output.double()).norm(dim=-1)
    assert not bool(distances[lengths == 0].any())
    return float((distances / lengths)[lengths > 0].max())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_row_is_the_models_own_in_every_dtype(family: str, dtype: torch.dtype) -> None:
    config, inputs = FAMILIES[family]
    inputs = {name: each.to(dtype) if each.is_floating_point() else each for name, each in inputs.items()}
    for attention in ("eager",) if family in EAGER_ONLY else ("eager", "sdpa"):
        seen = attncli.capture(built(config(), attention).to(dtype), **inputs)
        assert [record.problem for record in seen.records] == [None] * len(seen.records)
        assert {record.queries.dtype for record in seen.records} == {dtype}
        assert max(map(furthest_row, seen.records)) <= 8 * torch.finfo(dtype).eps


def test_attention_in_chunks_cannot_be_followed() -> None:
    config = transformers.LongformerConfig(**SIZES, attention_window=[4, 4], pad_token_id=1)
    with pytest.raises(InputError, match=r"encoder.layer.0.attention.self.*no attention was recognised"):
        attncli.capture(built(config, "eager"), **TEXT)
