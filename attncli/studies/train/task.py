"""Associative recall: find the key that equals the query, and return its value.

A sequence has m different keys, which are symbols of a vocabulary, and a value for each key, which is one of several
classes. The query equals one of the keys. Symbols are embedded as fixed random vectors; different matrices map the
vector of a symbol to a query and to a key.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from attncli.core.seeding import derived_seed, generator
from attncli.studies.train.options import TrainOptions

NUMBERS_AT_A_TIME = 2**20  # random numbers to draw at once for a seed
STEPS_AT_A_TIME = 64
TESTS = 1000  # test sequences
NEGLIGIBLE = 1e-12  # probability of a larger count


class Batch(NamedTuple):
    """A batch of b sequences for each of s seeds, as integer tensors.

    `keys` (s, b, m) and `queries` (s, b) are symbols. `values` (s, b, m) and `targets` (s, b) are classes; the target
    is the value of the key that equals the query.
    """

    keys: Tensor
    queries: Tensor
    values: Tensor
    targets: Tensor


def model_seeds(options: TrainOptions) -> list[int]:
    """Return the random seed of each of the `seeds` models; all random numbers of a model depend only on its seed."""
    return [derived_seed(options.seed, f"train.{index}") for index in range(options.seeds)]


def sources(options: TrainOptions, name: str) -> list[Generator]:
    """Return one random generator per seed, for the random stream called `name`."""
    return [generator(seed, name) for seed in model_seeds(options)]


def normal(options: TrainOptions, name: str, *shape: int) -> Tensor:
    """Return standard normal numbers (s, *shape), drawn for each seed from its random stream called `name`."""
    dtype = getattr(torch, options.dtype)
    return torch.stack([torch.randn(shape, generator=source, dtype=dtype) for source in sources(options, name)])


def held_out(options: TrainOptions, keys: int, device: torch.device) -> Batch:
    """Return the test sequences, each with this number of keys."""
    return _draw(options, sources(options, f"tests.{keys}"), device, keys, TESTS)


def chance_level(keys: int, classes: int) -> float:
    """Return the expected accuracy of equal weights, which predict the most frequent value of a sequence.

    It is the expected count of this value, as a share of the keys, and so more than 1 / `classes`. The counts of the
    values are independent Poisson numbers of mean keys / classes, given that their sum is `keys`. P(none is
    above c) is P(their sum is `keys`, and none is above c) / P(their sum is `keys`) for independent numbers.
    """
    rate, expected = keys / classes, 0.0
    poisson = np.array([math.exp(count * math.log(rate) - rate - math.lgamma(count + 1)) for count in range(keys + 1)])
    any_counts = math.exp(keys * math.log(keys) - keys - math.lgamma(keys + 1))  # a Poisson number, too
    for most in range(keys):  # E[count] is the sum of P(count > most)
        within, size = 0.0, most * classes + 1  # of the distribution of the sum
        if size > keys:
            sums = np.fft.irfft(np.fft.rfft(poisson[: most + 1], size) ** classes, size)  # by convolution
            within = float(sums[keys]) / any_counts
        expected += 1.0 - within
        if within > 1.0 - NEGLIGIBLE:
            break
    return expected / keys


def batches(options: TrainOptions, device: torch.device) -> Iterator[Batch]:
    """Yield the sequences of each step, without end."""
    randomness, numbers = sources(options, "batches"), options.batch * options.vocabulary
    steps = max(min(NUMBERS_AT_A_TIME // numbers, STEPS_AT_A_TIME), 1)  # drawn at once, equally many on every machine
    while True:
        drawn = _draw(options, randomness, device, options.keys, steps, options.batch)
        yield from (Batch(*(tensor[:, step] for tensor in drawn)) for step in range(steps))


def _draw(options: TrainOptions, randomness: list[Generator], device: torch.device, keys: int, *shape: int) -> Batch:
    """Draw sequences (s, *shape) with this number of keys; each seed draws from a separate generator."""
    drawn = list[Batch]()
    for source in randomness:
        order = torch.rand(*shape, options.vocabulary, generator=source).argsort(-1)
        symbols = order[..., :keys].clone()  # ... m; a view would keep all of the order
        values = torch.randint(options.classes, (*shape, keys), generator=source)  # ... m
        position = torch.randint(keys, (*shape, 1), generator=source)
        drawn.append(Batch(symbols, symbols.gather(-1, position)[..., 0], values, values.gather(-1, position)[..., 0]))
    return Batch(*(torch.stack(tensors).to(device) for tensors in zip(*drawn, strict=True)))
