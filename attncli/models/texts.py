"""Texts of batches: how many there are, which are held out, and batches of some of them."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from attncli.core.seeding import generator
from attncli.errors import InputError
from attncli.models.outputs import tensors_in


def drawn(count: int, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Return the numbers of the texts to use, and of the texts held out, at least one each, drawn from the seed."""
    held_out = min(max(round(share * count), 1), count - 1)
    order = torch.randperm(count, generator=generator(seed, "fit.held_out"))
    return order[held_out:].sort().values, order[:held_out].sort().values


def text_count(batch: Any) -> int:
    """Return the number of texts in a batch: the first size of its first tensor."""
    first = next((tensor for tensor in tensors_in(batch) if tensor.ndim), None)
    if first is None:
        raise InputError.of(
            f"got a batch of {type(batch).__name__} without a tensor; expected tensors with the texts on the first axis"
        )
    return len(first)


def with_texts(batch: Any, texts: Tensor, count: int) -> Any:
    """Return the batch with some of its texts only: of tensors with an entry for each text, these entries."""
    if isinstance(batch, Tensor):
        return batch[texts.to(batch.device)] if batch.ndim and len(batch) == count else batch
    if isinstance(batch, Mapping):
        return {key: with_texts(value, texts, count) for key, value in batch.items()}
    return type(batch)(with_texts(value, texts, count) for value in batch) if type(batch) in (tuple, list) else batch
