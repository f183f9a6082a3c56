"""Small models of transformers with random weights, of well-known families."""

from typing import Any

import torch
from torch import nn

SMALL = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
SMALL |= {"intermediate_size": 64, "max_position_embeddings": 64}
GROUPED = {**SMALL, "num_key_value_heads": 2}
EAGER_ONLY = ("gemma2", "gpt_oss", "bloom")
BOTH = ("bert", "gpt2", "llama", "gqa", "gemma3", "t5", "whisper", "vit", "albert", "falcon")  # eager and sdpa


def of_transformers(kind: str, attention: str | None = None) -> tuple[nn.Module, dict[str, Any]]:
    """Return a small model of transformers with large random weights, and a batch with padding on the left."""
    import transformers as t

    torch.manual_seed(1)
    more = {"attn_implementation": attention} if attention else {}
    tokens, mask = torch.randint(5, 90, (2, 12)), torch.ones(2, 12, dtype=torch.long)
    mask[1, :4] = 0
    both = {"input_ids": tokens, "attention_mask": mask}
    picture = {"pixel_values": torch.randn(2, 3, 32, 32)}
    gpt2 = {"vocab_size": 100, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
    gpt2 |= {"bos_token_id": 1, "eos_token_id": 1}
    sliding = {**GROUPED, "head_dim": 8, "sliding_window": 4}
    gemma2 = {"query_pre_attn_scalar": 5, "attn_logit_softcapping": 0.5}
    sides = {f"{side}_{part}": 2 for side in ("encoder", "decoder") for part in ("layers", "attention_heads")}
    sides |= {f"{side}_ffn_dim": 32 for side in ("encoder", "decoder")}
    whisper = {"vocab_size": 100, "d_model": 32, "num_mel_bins": 8, "pad_token_id": 1, "max_source_positions": 20}
    vit = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    swin = {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
    t5 = {"vocab_size": 100, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    of_gpt_oss = {**sliding, "num_local_experts": 2, "num_experts_per_tok": 1}
    albert = {**SMALL, "embedding_size": 16}
    falcon = {name: SMALL[name] for name in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")}
    makers: dict[str, Any] = {
        "gpt2": lambda: t.GPT2LMHeadModel(t.GPT2Config(**gpt2, **more)),
        "llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(**SMALL, **more)),
        "gqa": lambda: t.LlamaForCausalLM(t.LlamaConfig(**GROUPED, **more)),
        "gemma2": lambda: t.Gemma2ForCausalLM(t.Gemma2Config(**sliding, **gemma2, **more)),
        "gemma3": lambda: t.Gemma3ForCausalLM(t.Gemma3TextConfig(**sliding, **more)),
        "gpt_oss": lambda: t.GptOssForCausalLM(t.GptOssConfig(**of_gpt_oss, **more)),
        "t5": lambda: t.T5ForConditionalGeneration(t.T5Config(**t5, decoder_start_token_id=0, **more)),
        "bert": lambda: t.BertModel(t.BertConfig(**SMALL, **more)),
        "albert": lambda: t.AlbertModel(t.AlbertConfig(**albert, **more)),
        "bloom": lambda: t.BloomForCausalLM(t.BloomConfig(vocab_size=100, hidden_size=32, n_layer=2, n_head=4)),
        "falcon": lambda: t.FalconForCausalLM(t.FalconConfig(**falcon, **more)),
        "whisper": lambda: t.WhisperModel(t.WhisperConfig(**whisper, **sides, max_target_positions=20, **more)),
        "vit": lambda: t.ViTModel(t.ViTConfig(**vit, image_size=32, patch_size=8, **more)),
        "swinv2": lambda: t.Swinv2Model(t.Swinv2Config(**swin)),
    }
    model: nn.Module = makers[kind]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.15 if kind == "gpt_oss" else 0.3)
            else:  # also sinks
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
    if kind == "whisper":
        features = torch.linspace(-1, 1, 2 * 8 * 40).view(2, 8, 40)
        return model, {"input_features": features, "decoder_input_ids": torch.randint(5, 90, (2, 7))}
    if kind == "t5":
        return model, {**both, "decoder_input_ids": torch.randint(5, 90, (2, 7))}
    return model, picture if kind in ("vit", "swinv2") else both
