"""A tiny language model in a `.gguf` file, written as llama.cpp writes one."""

import re
from functools import reduce
from pathlib import Path

import gguf
import torch
import transformers

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


def write_gguf(path: Path) -> transformers.LlamaForCausalLM:
    """Write a model with random weights, two layers, and two heads that share a head of keys; return it."""
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": len(TOKENS)}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 64}
    ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **heads, **ids)).eval()
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
    for name, weight in model.state_dict().items():
        # In the file, rotary pairs of features are neighbours; a head has 16 features.
        pairs = weight.reshape(-1, 2, 8, *weight.shape[1:]).transpose(1, 2) if re.search("[qk]_proj", name) else weight
        short = reduce(lambda text, names: text.replace(*names), NAMES.items(), name)
        writer.add_tensor(short, pairs.reshape(weight.shape).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model
