"""A tiny language model in a `.gguf` file, written as llama.cpp writes one."""

from pathlib import Path

import gguf
import torch
import transformers
from gguf import GGMLQuantizationType
from torch import Tensor

# BPE with bytes as characters: `Ġ` is a blank, `Ċ` a newline, `Ã` and `©` are the two bytes of é.
TOKENS = ["<unk>", "<s>", "</s>", "a", "b", "Ġ", "Ċ", "Ã", "©", "ab", "Ġab"]
MERGES = ["a b", "Ġ ab"]
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "model.layers": "blk",
    "self_attn.o_proj": "attn_output",
} | {f"self_attn.{short}_proj": f"attn_{short}" for short in "qkv"}
NAMES |= {f"mlp.{name}_proj": f"ffn_{name}" for name in ("gate", "up", "down")}


def tiny_llama() -> transformers.LlamaForCausalLM:
    """Return a model with random weights, two layers, and two heads that share a head of keys."""
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": len(TOKENS)}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 64}
    ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **heads, **ids)).eval()


def stored(name: str, weight: Tensor) -> tuple[str, Tensor]:
    """Return the name and the numbers of a weight in the file, where rotary pairs of features are neighbours."""
    for long, short in NAMES.items():
        name = name.replace(long, short)
    if "attn_q." in name or "attn_k." in name:
        weight = weight.reshape(-1, 2, 8, *weight.shape[1:]).transpose(1, 2).reshape(weight.shape)  # 16 features a head
    return name, weight


def write_gguf(path: Path, kind: GGMLQuantizationType = GGMLQuantizationType.F32) -> transformers.LlamaForCausalLM:
    """Write the model with matrices of a kind, and return it as it was before."""
    model = tiny_llama()
    config, writer = model.config, gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, 3, *[1] * (len(TOKENS) - 3)])  # 3: special
    writer.add_token_merges(MERGES)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    for full, weight in model.state_dict().items():
        name, numbers = stored(full, weight)
        is_plain = numbers.ndim == 1 or kind == GGMLQuantizationType.F32
        data = numbers.numpy() if is_plain else gguf.quants.quantize(numbers.numpy(), kind)
        writer.add_tensor(name, data, raw_dtype=None if is_plain else kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model
