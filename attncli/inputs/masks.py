"""Valid lengths and masks of a config: which keys each query may attend to."""

from pathlib import Path

import torch
from torch import Tensor

from attncli.attention import below_limits, checked_lengths, valid_mask
from attncli.config.tensors import FileTensor, LengthSource, Mask, RandomLens
from attncli.errors import InputError
from attncli.inputs.files import read_tensor
from attncli.inputs.seeding import generator


def build_lengths(source: LengthSource | None, shape: tuple[int, ...], seed: int) -> Tensor | None:
    """Valid lengths (b,) or (b, n) for scores of `shape` = (b, ..., n, m); error paths begin at `valid_lens`."""
    if source is None:
        return None
    if isinstance(source, RandomLens):
        low, high = source.random
        if high > shape[-1]:
            message = f"got {source.random}; expected at most {shape[-1]}, the number of keys"
            raise InputError.of(message, ["valid_lens", "random"])
        return torch.randint(low, high + 1, shape[:1], generator=generator(seed, "data.valid_lens"))
    if isinstance(source, FileTensor):
        return checked_lengths(_flat(_read(source, "valid_lens"), shape), shape)
    return checked_lengths(source, shape)


def _read(source: FileTensor, key: str) -> Tensor:
    try:
        return read_tensor(Path(source.file), source.tensor)
    except InputError as error:
        raise error.under(key) from error


def _flat(lengths: Tensor, shape: tuple[int, ...]) -> Tensor:
    """One row or one column of lengths, as a CSV file gives them, as (b,); anything else as it is."""
    one_each = lengths.ndim == 2 and 1 in lengths.shape and lengths.numel() == shape[0]
    return lengths.flatten() if one_each and tuple(lengths.shape) != (shape[0], shape[-2]) else lengths


def build_mask(mask: Mask, shape: tuple[int, ...]) -> tuple[Tensor | None, Tensor | None]:
    """The mask of the config for scores of `shape` and the one read from a file; error paths begin below `mask`."""
    limits = causal_limits(mask, shape)
    causal = None if limits is None else below_limits(limits, shape[-1])  # n m
    if mask.file is None:
        return causal, None
    given = read_tensor(Path(mask.file), mask.tensor)
    if Path(mask.file).suffix.lower() == ".csv" and bool(((given == 0) | (given == 1)).all()):
        given = given.bool()  # the only way to write booleans in a CSV file
    try:
        valid_mask(shape, mask=given)
    except InputError as error:
        raise InputError.of(error.problems[0].message, ["file"]) from error
    return (given if causal is None else given & causal), given


def causal_limits(mask: Mask, shape: tuple[int, ...]) -> Tensor | None:
    """How many keys each query may attend to by a causal mask, (n, 1); error paths begin below `mask`."""
    n, m = shape[-2:]
    if mask.causal is False:
        return None
    if mask.causal is True and n != m:
        expected = "expected top_left or bottom_right, which differ where the numbers are not equal"
        raise InputError.of(f"got true for {n} queries and {m} keys; {expected}", ["causal"])
    diagonal = m - n if mask.causal == "bottom_right" else 0
    return (torch.arange(1, n + 1) + diagonal).clamp(0, m)[:, None]  # n 1
