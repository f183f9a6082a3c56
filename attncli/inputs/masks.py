"""Valid lengths and masks of a config: which keys each query may attend to."""

from pathlib import Path

import torch
from torch import Tensor

from attncli.attention import Causal, Valid, checked_lengths, checked_mask
from attncli.config.tensors import Data, FileTensor, LengthSource, Mask, RandomLens
from attncli.errors import Collector, InputError
from attncli.inputs.files import read_tensor
from attncli.inputs.seeding import generator


def build_valid(
    data: Data, mask: Mask, shape: tuple[int, ...], seed: int, collector: Collector, device: torch.device
) -> Valid:
    """Valid lengths and masks of a config for scores of `shape` = (b, ..., n, m); `collector` has what is wrong."""
    lengths = causal = given = None
    with collector.under("data"):
        lengths = build_lengths(data.valid_lens, shape, seed)
    with collector.under("mask"):
        causal, given = build_causal(mask, shape), read_mask(mask, shape)
    return Valid(shape, lengths, causal, None if given is None else given.to(device), device)


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


def build_causal(mask: Mask, shape: tuple[int, ...]) -> Causal | None:
    """Which causal mask scores of `shape` have, if any; error paths begin below `mask`."""
    n, m = shape[-2:]
    if mask.causal is True and n != m:
        expected = "expected top_left or bottom_right, which differ where the numbers are not equal"
        raise InputError.of(f"got true for {n} queries and {m} keys; {expected}", ["causal"])
    return "top_left" if mask.causal is True else mask.causal or None


def read_mask(mask: Mask, shape: tuple[int, ...]) -> Tensor | None:
    """The mask that stands in a file, for scores of `shape`, if any; error paths begin below `mask`."""
    if mask.file is None:
        return None
    given = read_tensor(Path(mask.file), mask.tensor)
    if Path(mask.file).suffix.lower() == ".csv" and bool(((given == 0) | (given == 1)).all()):
        given = given.bool()  # the only way to write booleans in a CSV file
    try:
        return checked_mask(given, shape)
    except InputError as error:
        raise InputError.of(error.problems[0].message, ["file"]) from error
