"""What the studies of scores against the size d share: their scorers at every size, and the parts of their work."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attncli.attention import softcap
from attncli.config.sizes import powers
from attncli.config.sweeps import Sweep
from attncli.errors import Collector, below
from attncli.inputs.device import resolve_device
from attncli.inputs.entries import Entries
from attncli.inputs.seeding import generator
from attncli.precision import computing_dtype
from attncli.results.records import Histogram, Record, SweepResult
from attncli.scorers import SCORERS
from attncli.studies.building import build_scorer, outline
from attncli.studies.memory import PROGRAM, Estimate, projected, require_memory
from attncli.studies.progress import Progress
from attncli.studies.real_pairs import RealPairs, read_pairs
from attncli.studies.scorer_run import formula_of, raw_scores

ENTRIES_AT_A_TIME = 2**18  # of keys: large enough for a part to be worth a thread, small enough to stay in the cache
PAIRS_AT_A_TIME = 2**14  # of query and key, whose hidden units are kept for gradients
COPIES = 6  # of a row that is larger than a part: as drawn, rounded, scaled, and gradients
WORKING_SPACE = 32 * 2**20  # of one thread, beside queries and keys: what scorers need for a part


@dataclass(frozen=True)
class Point:
    """One size with the scorers for it; not `asked` for if it only stands in the picture."""

    d: int
    scorers: Sequence[nn.Module]
    asked: bool = True


@dataclass(frozen=True)
class Prepared:
    """Everything that `run` works on, known to be good; `real` in place of random entries where tensors are read."""

    options: Any
    entries: Entries
    points: Sequence[Point]
    real: RealPairs | None
    device: torch.device


@dataclass(frozen=True)
class Part:
    """Some rows of random queries and keys: which, and how many."""

    index: int
    rows: int


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
    sizes = {size: size in options.d for size in _sizes(options.d)}
    if real is not None:
        real = _moved(real, dtype, device)
        sizes = {real.keys.shape[-1]: True}
    points = []
    for d, asked in sizes.items():
        query_size = d if real is None else real.queries.shape[-1]
        _check_size(options, query_size, d, keys, device)
        points.append(Point(d, _scorers(options, query_size, d, device), asked))
    return Prepared(options, entries_of(options), points, real, device)


def _sizes(asked: Sequence[int]) -> list[int]:
    """What was asked for; of a single size the powers of two up to it as well, for the picture."""
    return list(asked) if len(asked) > 1 else sorted({*powers(1, asked[0]), asked[0]})


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
    require_memory(Estimate(parts), device, "use a smaller d, or fewer scorers", ["d"])


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


def sweep_result(
    prepared: Prepared, curve: Sequence[Record], histograms: Mapping[str, Histogram] | None = None
) -> SweepResult:
    """The result from the rows of all points: those that were asked for are its records."""
    asked = {point.d for point in prepared.points if point.asked}
    entries, scorers = prepared.options.scorers, prepared.points[-1].scorers
    real = prepared.real
    return SweepResult(
        prepared.options.study,
        [row for row in curve if row["d"] in asked],
        curve,
        dict(vars(prepared.entries)) if real is None else {"from": prepared.options.source},
        {entry.label: formula_of(type(scorer)) for entry, scorer in zip(entries, scorers, strict=True)},
        {} if real is None else real.kept(),
        {entry.label: _state(scorer) for entry, scorer in zip(entries, scorers, strict=True) if entry.parameters},
        histograms or {},
    )


def _state(scorer: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.cpu() for name, tensor in scorer.state_dict().items()}


def parts(rows: int, d: int, keys: int = 1) -> list[Part]:
    """Rows in parts of a size that depends on nothing else, so that every part is drawn alike wherever it is."""
    step = max(min(ENTRIES_AT_A_TIME // (keys * d), PAIRS_AT_A_TIME // keys), 1)
    return [Part(index, min(step, rows - index * step)) for index in range(-(-rows // step))]


def draw(prepared: Prepared, point: Point, part: Part, keys: int) -> tuple[Tensor, Tensor]:
    """Queries (rows, 1, d) and keys (rows, m, d) of one part, in the dtype of the config on its device."""
    options, d = prepared.options, point.d
    randomness = generator(options.seed, f"{options.study}.{d}.{part.index}")
    dtype = getattr(torch, options.dtype)
    shapes = (part.rows, 1, d), (part.rows, keys, d)
    drawn = prepared.entries.draw(*shapes, randomness, computing_dtype(dtype))
    queries, keys_ = (tensor.to(dtype).to(prepared.device) for tensor in drawn)
    return queries, keys_


def scores_of(prepared: Prepared, point: Point, queries: Tensor, keys: Tensor) -> list[Tensor]:
    """Every scorer's scores (..., n, m), bounded where its entry has a softcap.

    Raises:
        InputError: a scorer of the user's own that fails, with its place in the config.
    """
    scores = []
    for index, (entry, scorer) in enumerate(zip(prepared.options.scorers, point.scorers, strict=True)):
        with below("scorers", index):
            raw = raw_scores(scorer, queries, keys)
        scores.append(raw if entry.softcap is None else softcap(raw, entry.softcap))
    return scores


def threads_for(prepared: Prepared, threads: int) -> int:
    """One for scorers of the user's own, which may keep something from call to call."""
    return threads if all(entry.scorer in SCORERS for entry in prepared.options.scorers) else 1
