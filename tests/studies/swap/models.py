"""Small models with random weights: hand-written modules, and models of transformers."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

SMALL = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
SMALL |= {"intermediate_size": 64, "max_position_embeddings": 64}
GROUPED = {**SMALL, "num_key_value_heads": 2}


class Written(nn.Module):
    """Attention in einsum and softmax, with a causal mask, a learnt bias and a softcap."""

    def __init__(self, softcap: float | None = None, in_place: bool = False) -> None:
        super().__init__()
        self.softcap, self.in_place = softcap, in_place
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.bias = nn.Parameter(torch.randn(4, 1, 64))

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, 4, -1).unbind(2)
        scores = torch.einsum("bnhd,bmhd->bhnm", q, k) * (d // 4) ** -0.5
        if self.softcap:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        scores, mask = scores + self.bias[..., :n], torch.ones(n, n, dtype=torch.bool).triu(1)
        scores = scores.masked_fill_(mask, -1e9) if self.in_place else scores.masked_fill(mask, -torch.inf)
        out: Tensor = self.out(torch.einsum("bhnm,bmhd->bnhd", scores.softmax(-1), v).reshape(b, n, d))
        return out


class Strides(nn.Module):
    """Applies `view` to the output of the kernel in a way that only its strides allow."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def heads(self, x: Tensor) -> list[Tensor]:
        return [each.view(*x.shape[:2], 4, 8).transpose(1, 2) for each in self.qkv(x).chunk(3, -1)]

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        out: Tensor = self.out(scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).view(x.shape))
        return out


class Relu(nn.Module):
    """Attention without a softmax, which cannot be replaced."""

    def forward(self, x: Tensor) -> Tensor:
        return (x @ x.mT).relu() / x.shape[1] @ x


class Mixed(nn.Module):
    """A layer that can be replaced, and one that cannot."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = Strides(), Relu()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(self.first(x))
        return result


class Tower(nn.Module):
    """Two layers of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Written(), Strides()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.first(x)
        result: Tensor = x + self.second(x)
        return result


def tower() -> tuple[nn.Module, Tensor]:
    """Return a small model and its input, for `module:function`."""
    generator = torch.Generator().manual_seed(0)
    model = Tower()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return model.eval(), torch.randn(2, 7, 32, generator=generator)


def broken() -> tuple[nn.Module, Tensor]:
    """Return a model without attention that can be replaced."""
    return Relu(), torch.randn(1, 3, 4)


def nothing() -> int:
    """Return no model."""
    return 3


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
    vit = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    swin = {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
    t5 = {"vocab_size": 100, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    of_gpt_oss = {**sliding, "num_local_experts": 2, "num_experts_per_tok": 1}
    albert = {**SMALL, "embedding_size": 16}
    makers: dict[str, Any] = {
        "gpt2": lambda: t.GPT2LMHeadModel(t.GPT2Config(**gpt2, **more)),
        "llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(**SMALL, **more)),
        "gqa": lambda: t.LlamaForCausalLM(t.LlamaConfig(**GROUPED, **more)),
        "gemma2": lambda: t.Gemma2ForCausalLM(t.Gemma2Config(**sliding, query_pre_attn_scalar=5, **more)),
        "gpt_oss": lambda: t.GptOssForCausalLM(t.GptOssConfig(**of_gpt_oss, **more)),
        "t5": lambda: t.T5ForConditionalGeneration(t.T5Config(**t5, decoder_start_token_id=0)),
        "bert": lambda: t.BertModel(t.BertConfig(**SMALL, **more)),
        "albert": lambda: t.AlbertModel(t.AlbertConfig(**albert, **more)),
        "bloom": lambda: t.BloomForCausalLM(t.BloomConfig(vocab_size=100, hidden_size=32, n_layer=2, n_head=4)),
        "vit": lambda: t.ViTModel(t.ViTConfig(**vit, image_size=32, patch_size=8, **more)),
        "swinv2": lambda: t.Swinv2Model(t.Swinv2Config(**swin)),
    }
    model: nn.Module = makers[kind]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.3)
    if kind == "t5":
        return model, {**both, "decoder_input_ids": torch.randint(5, 90, (2, 7))}
    return model, picture if kind in ("vit", "swinv2") else both
