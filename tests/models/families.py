"""Small models of transformers with random weights, of well-known families."""

from typing import Any

import torch
from torch import nn

SMALL = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
FALCON = {**SMALL}
SMALL |= {"intermediate_size": 64, "max_position_embeddings": 64}
GROUPED = {**SMALL, "num_key_value_heads": 2}
SLIDING = {**GROUPED, "head_dim": 8, "sliding_window": 4}
EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}
GPT2 = {"vocab_size": 100, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
GPT2 |= {"bos_token_id": 1, "eos_token_id": 1}
GEMMA2 = {"query_pre_attn_scalar": 5, "attn_logit_softcapping": 0.5}
T5 = {"vocab_size": 100, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
WHISPER = {f"{side}_{size}": 2 for side in ("encoder", "decoder") for size in ("layers", "attention_heads")}
WHISPER |= {"vocab_size": 100, "d_model": 32, "num_mel_bins": 8, "pad_token_id": 1, "max_source_positions": 20}
WHISPER |= {"encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_target_positions": 20}
VIT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "image_size": 32}
SWIN = {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
QWEN3: dict[str, Any] = {
    f"linear_{size}": 4 for size in ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim")
}
QWEN3 |= {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 8, "shared_expert_intermediate_size": 8}
QWEN3 |= {"layer_types": ["linear_attention", "full_attention"]}
LLAMA4 = {"intermediate_size_mlp": 32, "attention_chunk_size": 4, "no_rope_layers": [1, 0]}
FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {  # the class of the model, and of its config with its keys
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT2),
    "gpt2 with scales": ("GPT2Model", "GPT2Config", {**GPT2, "scale_attn_by_inverse_layer_idx": True}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", SMALL),
    "gqa": ("LlamaForCausalLM", "LlamaConfig", GROUPED),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", {**SLIDING, **GEMMA2}),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", SLIDING),
    "gpt_oss": ("GptOssForCausalLM", "GptOssConfig", {**SLIDING, **EXPERTS}),
    "mistral": ("MistralModel", "MistralConfig", SLIDING),
    "llama4": ("Llama4TextModel", "Llama4TextConfig", {**SLIDING, **EXPERTS, **LLAMA4}),
    "qwen3_next": ("Qwen3NextModel", "Qwen3NextConfig", {**SLIDING, **QWEN3}),
    "diffllama": ("DiffLlamaModel", "DiffLlamaConfig", GROUPED),
    "t5": ("T5ForConditionalGeneration", "T5Config", {**T5, "decoder_start_token_id": 0}),
    "bert": ("BertModel", "BertConfig", SMALL),
    "albert": ("AlbertModel", "AlbertConfig", {**SMALL, "embedding_size": 16}),
    "bloom": ("BloomForCausalLM", "BloomConfig", {"vocab_size": 100, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "falcon": ("FalconForCausalLM", "FalconConfig", FALCON),
    "whisper": ("WhisperModel", "WhisperConfig", WHISPER),
    "vit": ("ViTModel", "ViTConfig", {**VIT, "patch_size": 8}),
    "swinv2": ("Swinv2Model", "Swinv2Config", SWIN),
}
EAGER_ONLY = ("gemma2", "gpt_oss", "bloom")
BOTH = ("bert", "gpt2", "llama", "gqa", "gemma3", "t5", "whisper", "vit", "albert", "falcon")  # eager and sdpa


def of_transformers(kind: str, attention: str | None = None) -> tuple[nn.Module, dict[str, Any]]:
    """Return a small model of transformers with large random weights, and a batch with padding on the left."""
    import transformers

    torch.manual_seed(1)
    tokens, mask = torch.randint(5, 90, (2, 12)), torch.ones(2, 12, dtype=torch.long)
    mask[1, :4] = 0
    both, picture = {"input_ids": tokens, "attention_mask": mask}, {"pixel_values": torch.randn(2, 3, 32, 32)}
    model_class, config_class, keys = FAMILIES[kind]
    config = getattr(transformers, config_class)(**keys, **({"attn_implementation": attention} if attention else {}))
    model: nn.Module = getattr(transformers, model_class)(config).eval()
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
