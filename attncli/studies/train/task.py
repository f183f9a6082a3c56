"""Associative recall: which of the keys is the query, and what is its value?

A sequence has m different keys, symbols of a vocabulary, and a value for each, one of some classes. The query is one of
the keys. Symbols are fixed random vectors; a query and its key are the same symbol, seen through different matrices.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.inputs.seeding import derived_seed, generator
from attncli.studies.train.options import TrainOptions

NUMBERS_AT_A_TIME = 2**20  # random numbers of one seed that are drawn at once
STEPS_AT_A_TIME = 64
TESTS = 1000  # sequences that a model is tested with


class Batch(NamedTuple):
    """Sequences of every seed; all integers: symbols `keys` (s, b, m) and `queries` (s, b), classes of `values`
    (s, b, m) and `targets` (s, b), the value of the key that is the query.
    """

    keys: Tensor
    queries: Tensor
    values: Tensor
    targets: Tensor


def seed_of(seed: int, index: int) -> int:
    """The seed of one of several models: everything it draws depends on this, and on nothing beside it."""
    return derived_seed(seed, f"train.{index}")


def embeddings(options: TrainOptions, index: int, dtype: torch.dtype) -> Tensor:
    """The vectors of all symbols (vocabulary, e), standard normal."""
    randomness = generator(seed_of(options.seed, index), "embeddings")
    return torch.randn(options.vocabulary, options.embedding, generator=randomness, dtype=dtype)


def held_out(options: TrainOptions, keys: int, indices: Sequence[int], device: torch.device) -> Batch:
    """The sequences with so many keys that the seeds with these indices are tested with."""
    drawn = [_draw(options, keys, (TESTS,), generator(seed_of(options.seed, i), f"tests.{keys}")) for i in indices]
    return _together(drawn, 0, device)


def of_equal_weights(options: TrainOptions, keys: int, device: torch.device) -> float:
    """The accuracy of one who attends to all keys alike, in the sequences that models are tested with.

    What is pooled then is how often each value occurs; the most frequent one is right more often than one of `classes`.
    """
    batch = held_out(options, keys, range(options.seeds), device)
    counts = torch.zeros(*batch.targets.shape, options.classes, device=device)
    found = counts.scatter_add_(-1, batch.values, torch.ones_like(batch.values, dtype=counts.dtype)).argmax(-1)
    return int((found == batch.targets).sum()) / batch.targets.numel()


def batches(options: TrainOptions, indices: Sequence[int], device: torch.device) -> Iterator[Batch]:
    """The sequences of every step, without end; the first are the same however many are taken."""
    sources = [generator(seed_of(options.seed, index), "batches") for index in indices]
    steps = steps_at_a_time(options)
    while True:
        several = _together([_draw(options, options.keys, (steps, options.batch), each) for each in sources], 1, device)
        yield from (Batch(*(part[step] for part in several)) for step in range(steps))


def steps_at_a_time(options: TrainOptions) -> int:
    """How many steps' sequences are drawn at once; it depends on nothing that another machine may have otherwise."""
    numbers = options.batch * options.vocabulary
    return max(min(NUMBERS_AT_A_TIME // numbers, STEPS_AT_A_TIME), 1)


def _draw(options: TrainOptions, keys: int, shape: tuple[int, ...], source: torch.Generator) -> Batch:
    order = torch.rand(*shape, options.vocabulary, generator=source).argsort(-1)
    symbols = order[..., :keys].clone()  # ... m; a view would keep all of the order
    values = torch.randint(options.classes, (*shape, keys), generator=source)  # ... m
    place = torch.randint(keys, (*shape, 1), generator=source)
    return Batch(symbols, symbols.gather(-1, place)[..., 0], values, values.gather(-1, place)[..., 0])


def _together(drawn: Sequence[Batch], axis: int, device: torch.device) -> Batch:
    """The sequences of several seeds, which get an axis of their own."""
    return Batch(*(torch.stack(parts, axis).to(device) for parts in zip(*drawn, strict=True)))
