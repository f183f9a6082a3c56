"""How the studies of scores against the size d begin: pairs, scorers and memory for every size."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import nn

from attncli.attention import computing_dtype
from attncli.config.values import powers
from attncli.errors import Collector, InputError
from attncli.inputs.build import Shapes
from attncli.inputs.device import resolve_device
from attncli.studies.memory import PROGRAM, Estimate, estimate_attention, projected, require_memory
from attncli.studies.pairs.entries import Entries
from attncli.studies.pairs.options import PairsOptions
from attncli.studies.pairs.parts import PAIRS_AT_A_TIME, Head, RandomPairs, RealPairs, read_pairs
from attncli.studies.scoring import build_scorer, outline

COPIES = 6  # of a row that is larger than a part: as drawn, rounded, scaled, and gradients
NUMBERS_AT_A_TIME = 2**24  # for the pairs that one thread works on at the same time
WORKING_SPACE = 64 * 2**20  # of one thread, beside queries and keys: what scorers need for a part
Options = TypeVar("Options", bound=PairsOptions)
OwnOptions = TypeVar("OwnOptions", bound=PairsOptions, covariant=True)


@dataclass(frozen=True)
class Point:
    """One size, or one head of real tensors: its pairs, and the scorers for them.

    Not `asked` for if it only stands in the picture. `head` is None where there are no heads.
    """

    d: int
    scorers: Sequence[nn.Module]
    pairs: RandomPairs | Head
    asked: bool = True
    head: int | None = None

    def __str__(self) -> str:
        return f"d = {self.d}" if self.head is None else f"head {self.head}"


@dataclass(frozen=True)
class Prepared(Generic[OwnOptions]):
    """Everything that `run` works on, known to be good; `real` where tensors are read in place of random entries."""

    options: OwnOptions
    entries: Entries
    points: Sequence[Point]
    real: RealPairs | None
    device: torch.device
    at_a_time: int  # pairs whose scores and gradients are worked out at the same time


def prepare_pairs(
    options: Options, rows: Callable[[Entries, int, bool], int], keys: int = 1, together: int = 1
) -> Prepared[Options]:
    """Pairs and scorers for every size; everything that can be refused is refused here.

    `rows(entries, d, asked)` says how many random queries there are, of `keys` keys each; `together`: see RandomPairs.

    Raises:
        InputError: a device, tensors, scorers or sizes that make no sense together or do not fit into memory.
    """
    dtype, entries = getattr(torch, options.dtype), Entries.of(options)
    device = resolve_device(options.device, dtype)
    if options.source is not None:
        real = read_pairs(options.source, dtype, device, _check_drawn)
        q, k = real.queries.shape[-1], real.keys.shape[-1]
        at_a_time = _check_size(options, q, k, real.keys.shape[-2], device)
        scorers, heads = _scorers(options, q, k, device), range(real.queries.shape[1])
        points = [Point(k, scorers, Head(real, head), head=head if real.has_heads else None) for head in heads]
        return Prepared(options, entries, points, real, device, at_a_time)
    at_a_time = min(_check_size(options, d, d, keys, device) for d in options.d)
    points = []
    for d in _sizes(options):
        asked = d in options.d
        pairs = RandomPairs(options, entries, device, d, rows(entries, d, asked), keys, together)
        points.append(Point(d, _scorers(options, d, d, device), pairs, asked))
    return Prepared(options, entries, points, None, device, at_a_time)


def _check_drawn(shapes: Shapes) -> None:
    """Refuse the inputs of a config that the memory cannot hold, before they are drawn."""
    cure = "use fewer queries, keys or batch elements"
    require_memory(estimate_attention(shapes, torch.float32, [], []), torch.device("cpu"), cure)


def _sizes(options: PairsOptions) -> list[int]:
    """What was asked for; of a single size the powers of two up to it as well, for the picture.

    Parameters that are read have one size and no other.
    """
    if len(options.d) > 1 or any(entry.parameters for entry in options.scorers):
        return options.d
    return sorted({*powers(1, options.d[0]), *options.d})


def _check_size(options: PairsOptions, query_size: int, key_size: int, keys: int, device: torch.device) -> int:
    """Refuse sizes that scorers cannot take or the memory cannot hold, before any parameter is drawn.

    Returns how many pairs may be worked on at the same time.
    """
    collector, parameters, width = Collector(), 0, 1
    for index, entry in enumerate(options.scorers):
        with collector.under("scorers", index):
            made = list(outline(entry, query_size, key_size).parameters())
            parameters += sum(parameter.numel() for parameter in made)
            width = max([width, *(projected(parameter, query_size, key_size) for parameter in made)])
    if collector.problems and query_size != key_size and "scorers" not in options.model_fields_set:
        message = f"got queries of size {query_size} and keys of size {key_size}, which dot products cannot take"
        raise InputError.of(f"{message}; choose a scorer that can, additive or general", ["from"])
    collector.check()
    threads, element = torch.get_num_threads(), computing_dtype(getattr(torch, options.dtype)).itemsize
    at_a_time = max(min(PAIRS_AT_A_TIME, NUMBERS_AT_A_TIME // width), 1)
    needed = {
        "parameters": 2 * parameters * element,
        "queries and keys": threads * (WORKING_SPACE + COPIES * 2 * element * (keys + 1) * key_size),
        "hidden units": threads * 2 * element * width * max(keys, at_a_time),
        "program": PROGRAM,
    }
    place, cure = ("d", "a smaller d, fewer keys") if options.source is None else ("from", "fewer keys")
    require_memory(Estimate(needed), device, f"use {cure}, or scorers with fewer parameters", [place])
    return at_a_time


def _scorers(options: PairsOptions, query_size: int, key_size: int, device: torch.device) -> list[nn.Module]:
    collector, scorers = Collector(), []
    dtype = getattr(torch, options.dtype)
    for index, entry in enumerate(options.scorers):
        with collector.under("scorers", index):
            scorers.append(build_scorer(entry, query_size, key_size, options.seed, dtype).to(device))
    collector.check()
    return scorers
