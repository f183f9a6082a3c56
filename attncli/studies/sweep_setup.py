"""How the studies of scores against the size d begin: tensors, scorers and memory for every size."""

from typing import Any

import torch
from torch import nn

from attncli.config.sizes import powers
from attncli.config.sweeps import Sweep
from attncli.errors import Collector
from attncli.inputs.device import resolve_device
from attncli.inputs.entries import Entries
from attncli.precision import computing_dtype
from attncli.studies.building import build_scorer, outline
from attncli.studies.memory import PROGRAM, Estimate, projected, require_memory
from attncli.studies.progress import Progress
from attncli.studies.real_pairs import RealPairs, read_pairs
from attncli.studies.sweep import PAIRS_AT_A_TIME, Point, Prepared

COPIES = 6  # of a row that is larger than a part: as drawn, rounded, scaled, and gradients
WORKING_SPACE = 32 * 2**20  # of one thread, beside queries and keys: what scorers need for a part


def prepare_sweep(options: Any, keys: int, progress: Progress) -> Prepared:
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
        real = read_pairs(options.source, progress) if options.source is not None else None
    collector.check()
    sizes = {size: size in options.d for size in _sizes(options)}
    if real is not None:
        real = _moved(real, dtype, device)
        sizes = {real.keys.shape[-1]: True}
    points = []
    for d, asked in sizes.items():
        query_size = d if real is None else real.queries.shape[-1]
        _check_size(options, query_size, d, keys, device)
        points.append(Point(d, _scorers(options, query_size, d, device), asked))
    return Prepared(options, entries_of(options), points, real, device)


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


def _check_size(options: Any, query_size: int, key_size: int, keys: int, device: torch.device) -> None:
    """Refuse sizes that scorers cannot take or the memory cannot hold, before any parameter is drawn."""
    collector, parameters, width = Collector(), 0, 0
    for index, entry in enumerate(options.scorers):
        with collector.under("scorers", index):
            scorer = outline(entry, query_size, key_size)
            parameters += sum(parameter.numel() for parameter in scorer.parameters())
            width = max([width, *(projected(each, query_size, key_size) for each in scorer.parameters())])
    collector.check()
    row = COPIES * 8 * (keys + 1) * key_size
    parts = {
        "parameters": 2 * parameters * computing_dtype(getattr(torch, options.dtype)).itemsize,
        "working space": torch.get_num_threads() * (WORKING_SPACE + row + 8 * PAIRS_AT_A_TIME * width),
        "program": PROGRAM,
    }
    place = "d" if options.source is None else "from"
    require_memory(Estimate(parts), device, "use a smaller d, or fewer scorers", [place])


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
