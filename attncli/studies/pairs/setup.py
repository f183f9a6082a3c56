"""How the studies of scores against the size d begin: tensors, scorers and memory for every size."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from attncli.attention import computing_dtype
from attncli.config.sizes import powers
from attncli.errors import Collector, InputError
from attncli.inputs.device import resolve_device
from attncli.inputs.entries import Entries
from attncli.inputs.shapes import Shapes
from attncli.studies.memory import PROGRAM, Estimate, estimate_attention, projected, require_memory
from attncli.studies.pairs.options import Sweep
from attncli.studies.pairs.real_pairs import RealPairs, read_pairs
from attncli.studies.pairs.sweep import PAIRS_AT_A_TIME, Point, Prepared
from attncli.studies.scoring import build_scorer, outline

COPIES = 6  # of a row that is larger than a part: as drawn, rounded, scaled, and gradients
NUMBERS_AT_A_TIME = 2**24  # for the pairs that one thread works on at the same time
WORKING_SPACE = 64 * 2**20  # of one thread, beside queries and keys: what scorers need for a part


def prepare_sweep(options: Any, keys: int) -> Prepared:
    """Scorers for every size; everything that can be refused is refused here. A row has `keys` random keys.

    Raises:
        InputError: a device, tensors, scorers or sizes that make no sense together or do not fit into memory.
    """
    dtype = getattr(torch, options.dtype)
    collector = Collector()
    device, real = torch.device("cpu"), None
    with collector.under():
        device = resolve_device(options.device, dtype)
    with collector.under():
        real = read_pairs(options.source, _check_drawn) if options.source is not None else None
    collector.check()
    sizes = {size: size in options.d for size in _sizes(options)}
    if real is not None:
        real = _moved(real, dtype, device)
        sizes = {real.keys.shape[-1]: True}
        keys = real.keys.shape[-2]
    query_size = None if real is None else real.queries.shape[-1]
    widths = [_check_size(options, query_size or d, d, keys, device) for d, asked in sizes.items() if asked]
    points = [Point(d, _scorers(options, query_size or d, d, device), asked) for d, asked in sizes.items()]
    return Prepared(options, entries_of(options), points, real, device, _pairs(max(widths)))


def _check_drawn(shapes: Shapes) -> None:
    """Refuse the inputs of a config that the memory cannot hold, before they are drawn."""
    cure = "use fewer queries, keys or batch elements"
    require_memory(estimate_attention(shapes, torch.float32, [], []), torch.device("cpu"), cure)


def _pairs(width: int) -> int:
    """How many pairs may be worked on at the same time, if each has this many numbers that gradients need."""
    return max(min(PAIRS_AT_A_TIME, NUMBERS_AT_A_TIME // width), 1)


def _sizes(options: Any) -> list[int]:
    """What was asked for; of a single size the powers of two up to it as well, for the picture.

    Parameters that are read have one size and no other.
    """
    asked: list[int] = options.d
    if len(asked) > 1 or any(entry.parameters for entry in options.scorers):
        return asked
    return sorted({*powers(1, asked[0]), asked[0]})


def _moved(real: RealPairs, dtype: torch.dtype, device: torch.device) -> RealPairs:
    """The tensors rounded to the dtype of the config, on the device."""
    computing = computing_dtype(dtype)
    queries, keys = (tensor.to(dtype).to(device, computing) for tensor in (real.queries, real.keys))
    return RealPairs(queries, keys, None if real.valid is None else real.valid.to(device), real.heads)


def _check_size(options: Any, query_size: int, key_size: int, keys: int, device: torch.device) -> int:
    """Refuse sizes that scorers cannot take or the memory cannot hold, before any parameter is drawn.

    Returns the most numbers that a scorer has for one pair, such as its hidden units.
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
    threads, computing = torch.get_num_threads(), computing_dtype(getattr(torch, options.dtype)).itemsize
    needed = {
        "parameters": 2 * parameters * computing,
        "queries and keys": threads * (WORKING_SPACE + COPIES * 2 * computing * (keys + 1) * key_size),
        "hidden units": threads * 2 * computing * width * max(keys, _pairs(width)),
        "program": PROGRAM,
    }
    place, cure = _cure(needed, options, keys, key_size)
    require_memory(Estimate(needed), device, cure, place)
    return width


def _cure(needed: Mapping[str, int], options: Any, keys: int, d: int) -> tuple[list[str], str]:
    """Where what needs most memory is said, and what to do about it."""
    most = max(needed, key=lambda name: needed[name])
    if options.source is not None:
        return ["from"], "use fewer keys or scorers, or scorers with fewer parameters"
    if most == "hidden units":
        return ["scorers"], "use fewer hidden units, or fewer keys"
    if most == "queries and keys" and keys > d:
        return ["keys"], "use fewer keys, or a smaller d"
    return ["d"], "use a smaller d, or scorers with fewer parameters"


def _scorers(options: Any, query_size: int, key_size: int, device: torch.device) -> list[nn.Module]:
    collector, scorers = Collector(), []
    dtype = getattr(torch, options.dtype)
    for index, entry in enumerate(options.scorers):
        with collector.under("scorers", index):
            scorers.append(build_scorer(entry, query_size, key_size, options.seed, dtype).to(device))
    collector.check()
    return scorers


def entries_of(options: Sweep) -> Entries:
    """How the options say that entries are drawn."""

    def own(value: float | None, common: float) -> float:
        return common if value is None else value

    return Entries(
        options.distribution,
        options.df,
        own(options.query_mean, options.mean),
        own(options.query_std, options.std),
        own(options.key_mean, options.mean),
        own(options.key_std, options.std),
        options.rho,
    )
