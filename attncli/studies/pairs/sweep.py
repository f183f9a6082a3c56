"""What the studies of scores against the size d share: their scorers at every size, and the parts of their work."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attncli.attention import computing_dtype, softcap
from attncli.errors import below
from attncli.inputs.entries import Entries
from attncli.inputs.seeding import generator, seeded
from attncli.runs.records import Histogram, SweepResult
from attncli.scorers import SCORERS
from attncli.studies.pairs.real_pairs import RealPairs
from attncli.studies.progress import Progress
from attncli.studies.scoring import formula_of, raw_scores
from attncli.studies.study import Record
from attncli.studies.threads import single_threaded

ENTRIES_AT_A_TIME = 2**18  # of keys: large enough for a part to be worth a thread, small enough to stay in the cache
PAIRS_AT_A_TIME = 2**14  # of query and key


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
    pairs: int  # of query and key whose scores and gradients are worked out at the same time


@dataclass(frozen=True)
class Part:
    """Some rows of random queries and keys: which, and how many."""

    index: int
    rows: int


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


@dataclass(frozen=True)
class Parts:
    """Rows of `keys` pairs of size d in parts whose size depends on nothing else, so that each is drawn alike."""

    rows: int
    d: int
    keys: int = 1

    @property
    def step(self) -> int:
        """Rows of a part."""
        return max(min(ENTRIES_AT_A_TIME // (self.keys * self.d), PAIRS_AT_A_TIME // self.keys), 1)

    def __len__(self) -> int:
        return -(-self.rows // self.step)

    def __iter__(self) -> Iterator[Part]:
        step = self.step
        return (Part(index, min(step, self.rows - index * step)) for index in range(len(self)))


def draw(prepared: Prepared, point: Point, part: Part, keys: int) -> tuple[Tensor, Tensor]:
    """Queries (rows, 1, d) and keys (rows, m, d) of one part, in the dtype of the config on its device."""
    options, d = prepared.options, point.d
    randomness = generator(options.seed, f"{options.study}.{d}.{part.index}")
    dtype = getattr(torch, options.dtype)
    shapes = (part.rows, 1, d), (part.rows, keys, d)
    drawn = prepared.entries.draw(*shapes, randomness, computing_dtype(dtype))
    return drawn[0].to(dtype).to(prepared.device), drawn[1].to(dtype).to(prepared.device)


def slices(prepared: Prepared, rows: int, keys: int) -> Iterator[slice]:
    """The rows of a part, with so many keys each, a few at a time where scorers need much memory for each pair."""
    step = max(prepared.pairs // keys, 1)
    return (slice(start, start + step) for start in range(0, rows, step))


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


@contextmanager
def at_work(prepared: Prepared) -> Iterator[int]:
    """How many threads to use, each of which has torch for itself.

    Scorers of the user's own may draw random numbers or keep something from call to call: they get one thread, and
    numbers that depend on the seed.
    """
    options = prepared.options
    own = any(entry.scorer not in SCORERS for entry in options.scorers)
    with single_threaded() as threads, seeded(options.seed, f"{options.study}.forward", prepared.device):
        yield 1 if own else threads


def warn_of_numbers(records: Sequence[Record], figure: str, progress: Progress) -> None:
    """Say of which scorers a figure is NaN or infinite, and where first."""
    first: dict[str, Record] = {}
    for row in records:
        if row[figure] is not None and not math.isfinite(row[figure]):
            first.setdefault(row["label"], row)
    for label, row in first.items():
        head = "" if row["head"] is None else f", head {row['head']}"
        progress.note(f"warning: {label}: NaN or infinite scores at d = {row['d']}{head}; float64 has a larger range")


def warn_of_zeros(records: Sequence[Record], progress: Progress) -> None:
    """Say where scores are all alike that should not be: products that are too small to be told from 0."""
    for row in records:
        if row["variance"] == 0 and row["theory_variance"]:
            progress.note(f"warning: {row['label']}: scores too small for the dtype at d = {row['d']}; use float64")
            return
