"""What the studies of scores against the size d do alike: prepare pairs and scorers, score, and make the result."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from attncli.attention import computing_dtype, softcap
from attncli.config.values import powers
from attncli.errors import Collector, InputError, below
from attncli.inputs.device import resolve_device
from attncli.inputs.seeding import seeded
from attncli.scorers import SCORERS
from attncli.studies.memory import PROGRAM, Estimate, projected, require_memory
from attncli.studies.pairs.entries import Entries
from attncli.studies.pairs.options import PairsOptions
from attncli.studies.pairs.parts import PAIRS_AT_A_TIME, Pairs, RandomPairs, RealPairs, read_pairs
from attncli.studies.progress import Progress
from attncli.studies.scoring import build_scorer, formulas_of, outline, raw_scores
from attncli.studies.study import LABEL, SCORER, Column, Record, Result, Rows, by_label
from attncli.studies.threads import in_order, on_threads

Part = TypeVar("Part")
COPIES = 6  # of a row that is larger than a part: as drawn, rounded, scaled, and gradients
NUMBERS_AT_A_TIME = 2**24  # for the pairs that one thread works on at the same time
WORKING_SPACE = 64 * 2**20  # of one thread, beside queries and keys: what scorers need for a part
PLACE = (
    SCORER,
    LABEL,
    Column("head", "head", "Head of real tensors that have some, counted from 0."),
    Column("d", "d", "Size of a key, and of a query if the scorer needs equal sizes."),
)


@dataclass(frozen=True)
class Point:
    """One size, or one head of real tensors (None where there are no heads): its pairs, and the scorers for them."""

    d: int
    scorers: Sequence[nn.Module]
    pairs: RandomPairs | RealPairs
    head: int | None = None

    def __str__(self) -> str:
        return f"d = {self.d}" if self.head is None else f"head {self.head}"


@dataclass(frozen=True)
class Prepared:
    """Everything that `run` works on, known to be good; `tensors` are real ones in place of random entries."""

    options: PairsOptions
    entries: Entries
    points: Sequence[Point]
    tensors: dict[str, Tensor]
    device: torch.device
    at_a_time: int  # pairs whose scores and gradients are worked out at the same time

    @property
    def is_real(self) -> bool:
        """Whether queries and keys are read."""
        return bool(self.tensors)


def prepare_pairs(
    options: PairsOptions, rows: Callable[[Entries, int], int], keys: int = 1, together: int = 1, fewest: int = 1
) -> Prepared:
    """Pairs and scorers for every size; everything that can be refused is refused here.

    `rows(entries, d)` says how many random queries there are, of `keys` keys each; `together`: see RandomPairs. Of real
    queries one must have `fewest` valid keys at least.

    Raises:
        InputError: a device, tensors, scorers or sizes that make no sense together or do not fit into memory.
    """
    dtype, entries = getattr(torch, options.dtype), Entries.of(options)
    device = resolve_device(options.device, dtype)
    if options.source is None:
        at_a_time = min(_check_size(options, d, d, keys, device) for d in options.d)
        sizes = options.d
        if len(sizes) == 1 and not any(entry.parameters for entry in options.scorers):  # which have one size if read
            sizes = sorted({*powers(1, sizes[0]), *sizes})  # the others stand in the picture only
        points = []
        for d in sizes:
            pairs = RandomPairs(options, entries, device, d, rows(entries, d), keys, together)
            points.append(Point(d, _scorers(options, d, d, device), pairs))
        return Prepared(options, entries, points, {}, device, at_a_time)
    tensors = read_pairs(options.source, dtype, device)
    (*leading, _, q), (m, k) = tensors["queries"].shape, tensors["keys"].shape[-2:]
    most = int(tensors["valid"].sum(-1).max()) if "valid" in tensors else m
    if most < fewest:
        what = "whose largest number of valid keys of a query is"
        raise InputError.of(f'got "{options.source}", {what} {most}; expected at least {fewest}', ["from"])
    at_a_time = _check_size(options, q, k, m, device)
    scorers = _scorers(options, q, k, device)
    heads = range(leading[1]) if len(leading) > 1 else [None]
    points = [Point(k, scorers, RealPairs(tensors, head), head) for head in heads]
    return Prepared(options, entries, points, tensors, device, at_a_time)


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


@contextmanager
def at_work(prepared: Prepared) -> Iterator[int]:
    """How many threads to use, each of which has torch for itself.

    Scorers of the user's own may draw random numbers or keep something from call to call: they get one thread, and
    numbers that depend on the seed.
    """
    options = prepared.options
    own = any(entry.scorer not in SCORERS for entry in options.scorers)
    with on_threads(1) as threads, seeded(options.seed, f"{options.study}.forward", prepared.device):
        yield 1 if own else threads


def parts_of(point: Point, work: Callable[[Pairs], Part], threads: int, done: Callable[[], None]) -> Iterator[Part]:
    """What `work` makes of the pairs of a point, part by part in their order; `done` is called after every part."""
    for part in in_order(lambda job: work(point.pairs.of_job(job)), point.pairs.jobs, threads):
        yield part
        done()


def scores_of(prepared: Prepared, point: Point, pairs: Pairs) -> list[Tensor]:
    """Every scorer's scores (rows, m), bounded where its entry has a softcap.

    Raises:
        InputError: a scorer of the user's own that fails, with its place in the config.
    """
    scores = []
    for index, (entry, scorer) in enumerate(zip(prepared.options.scorers, point.scorers, strict=True)):
        with below("scorers", index):
            raw = raw_scores(scorer, pairs.queries, pairs.keys)
        capped = raw if entry.softcap is None else softcap(raw, entry.softcap)
        scores.append(capped.reshape(len(pairs.queries), -1))  # rows m
    return scores


def expected_rows_of(prepared: Prepared, columns: Sequence[Column]) -> Rows:
    """One row per scorer and size that was asked for; of real tensors one per scorer and head."""
    return Rows(columns, _records(prepared, _rows(prepared, [[{}] * len(point.scorers) for point in prepared.points])))


def result_of(
    prepared: Prepared,
    columns: Sequence[Column],
    figures: Sequence[Sequence[Record]],
    watched: str,
    progress: Progress,
) -> Result:
    """The result without its findings, from the figures of every scorer at every point; None for a column without one.

    Its `curve/<label>/<column>` are the points of the picture. A `watched` figure that is no number is noted.
    """
    options, scorers = prepared.options, prepared.points[-1].scorers
    curve = [{column.key: row.get(column.key) for column in columns} for row in _rows(prepared, figures)]
    records = _records(prepared, curve)
    for label, rows in by_label(records).items():
        for row in [each for each in rows if not math.isfinite(each[watched] or 0.0)][:1]:
            head = "" if row["head"] is None else f", head {row['head']}"
            what = f"NaN or infinite scores at d = {row['d']}{head}"
            progress.note(f"warning: {label}: {what}; float64 has a larger range")
    entries = {"from": options.source} if prepared.is_real else vars(prepared.entries)
    return Result(
        study=options.study,
        name=options.name,
        settings={**entries, "formulas": formulas_of(options.scorers)},
        records=records,
        inputs={name: tensor.cpu() for name, tensor in prepared.tensors.items()},
        tensors=_curve_tensors(columns, curve),
        parameters={
            f"{entry.label}/{name}": tensor.cpu()
            for entry, scorer in zip(options.scorers, scorers, strict=True)
            if entry.parameters
            for name, tensor in scorer.state_dict().items()
        },
    )


def _rows(prepared: Prepared, figures: Sequence[Sequence[Record]]) -> list[Record]:
    """The figures below their place: the scorers of one size together, but the heads of one scorer."""
    scorers = prepared.options.scorers
    rows = [
        {"scorer": entry.scorer, "label": entry.label, "head": point.head, "d": point.d, **row}
        for point, found in zip(prepared.points, figures, strict=True)
        for entry, row in zip(scorers, found, strict=True)
    ]
    labels = [entry.label for entry in scorers]
    return sorted(rows, key=lambda row: labels.index(row["label"])) if prepared.is_real else rows


def _records(prepared: Prepared, rows: Sequence[Record]) -> list[Record]:
    """The rows that were asked for; the others stand in the picture only."""
    return [row for row in rows if prepared.is_real or row["d"] in prepared.options.d]


def _curve_tensors(columns: Sequence[Column], rows: Sequence[Record]) -> dict[str, Tensor]:
    """`curve/<label>/<column>`: NaN for what is missing; an interval becomes two columns, low and high."""
    curve: dict[str, list[float]] = {}
    for row in rows:
        numbers = {column.key: row[column.key] for column in columns if not column.text}
        for key in [key for key in numbers if key.endswith("_ci")]:
            numbers[f"{key}_low"], numbers[f"{key}_high"] = numbers.pop(key) or (None, None)
        if row["head"] is None:
            del numbers["head"]
        for key, number in numbers.items():
            curve.setdefault(f"curve/{row['label']}/{key}", []).append(math.nan if number is None else number)
    return {key: torch.tensor(column, dtype=torch.float64) for key, column in curve.items()}
