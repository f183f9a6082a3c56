"""Shared parts of the studies of scores against d: prepare pairs and scorers, compute scores, build the result."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from attncli.attention import softcap
from attncli.catalogue.building import (
    build_normalizer,
    build_scorer,
    entry_columns,
    entry_formulas,
    entry_inputs,
    entry_rounding,
    is_own,
    map_entries,
    random_labels,
    scoring_function,
    stored_parameters,
)
from attncli.catalogue.guarding import raw_scores
from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.config.values import powers
from attncli.core.device import resolve_device
from attncli.core.numbers import several
from attncli.core.seeding import seeded
from attncli.core.threads import on_threads
from attncli.errors import InputError, below
from attncli.models.call import AttentionCall
from attncli.models.inputs import Inputs, learnt_numbers, with_model_defaults
from attncli.normalizers import Normalizer
from attncli.results import INTERVAL, LAYER, CaptureFacts, Column, Result, Row, by_label, place_in_words
from attncli.runtime import Progress
from attncli.scorers import Scorer
from attncli.studies.pairs.entries import Entries, PairsFacts, random_entries
from attncli.studies.pairs.options import PairsOptions
from attncli.studies.pairs.parts import Pairs, RandomPairs, RealPairs, read_pairs

PLACE = (
    LAYER,
    Column("head", "head", "Number of the head of real tensors; empty if they have none.", kind="place"),
    Column("d", "d", "Size of a key, and of a query if the scorer needs equal sizes.", kind="place"),
)


@dataclass(frozen=True)
class SizePoint:
    """One size d of random pairs, or one head of tensors from a file (None if they have no heads), with its scorers.

    `entries` are the scorer entries of the config, with the scale and softcap of this layer for a captured model, and
    `normalizers` are theirs.
    """

    d: int
    entries: Sequence[ScorerEntry]
    scorers: Sequence[Scorer]
    normalizers: Sequence[Normalizer]
    pairs: RandomPairs | RealPairs
    head: int | None = None
    layer: str | None = None  # of a captured model
    number: int | None = None  # of the layer in the captured file
    pre_scale: float = 1.0  # by which the captured model multiplied its queries

    def __str__(self) -> str:
        layer = "" if self.layer is None else f"layer {self.number}, "
        return f"d = {self.d}" if self.head is None else f"{layer}head {self.head}"


@dataclass(frozen=True)
class PreparedPairs:
    """The checked input of a study's `run`; `tensors` are the tensors of a file, empty for random pairs."""

    options: PairsOptions
    entries: Entries
    sizes: Sequence[int]  # the requested sizes; points of other sizes appear in the picture only
    points: Sequence[SizePoint]
    tensors: dict[str, Tensor]
    device: torch.device

    @property
    def jobs(self) -> int:
        """Return the number of jobs of all points."""
        return sum(len(point.pairs.jobs) for point in self.points)

    @property
    def is_real(self) -> bool:
        """Whether queries and keys come from a file."""
        return bool(self.tensors)

    @property
    def is_captured(self) -> bool:
        """Whether queries and keys come from the layers of a captured model."""
        return self.points[0].layer is not None

    @property
    def layers(self) -> dict[str, int]:
        """Return the number of each layer in the captured file, by name; empty for other sources."""
        return {
            point.layer: point.number for point in self.points if point.layer is not None and point.number is not None
        }

    def columns(self, columns: Sequence[Column]) -> list[Column]:
        """Return these columns, without the column of the layer unless queries and keys come from a captured model."""
        return [column for column in columns if column is not LAYER or self.is_captured]


def prepare_pairs(
    options: PairsOptions,
    progress: Progress,
    rows: Callable[[Entries, int], int],
    keys: int = 1,
    together: int = 1,
    fewest: int = 1,
) -> PreparedPairs:
    """Return pairs and scorers for every size, or raise an InputError for anything wrong with them.

    Args:
        options: the options of the study.
        progress: receives notes on the tensors of a file.
        rows: returns the number of random queries for a distribution and d.
        keys: the number of keys of each random query.
        together: the number of random parts that a thread computes as one job.
        fewest: the number of valid keys that at least one query of a file must have.
    """
    dtype, entries = getattr(torch, options.dtype), random_entries(options)
    device = resolve_device(options.device, dtype)
    normalizers = map_entries(options.scorers, build_normalizer)
    if options.file is None:
        points = list[SizePoint]()
        for d in _drawn_sizes(options):
            pairs = RandomPairs(options, entries, device, d, rows(entries, d), keys, together)
            points.append(SizePoint(d, options.scorers, _scorers(options, d, d, device), normalizers, pairs))
        return PreparedPairs(options, entries, options.d, points, {}, device)
    points, stored = [], dict[str, Tensor]()
    for layer, (tensors, inputs) in read_pairs(options, dtype, device, progress).items():
        most = int(tensors["valid"].sum(-1).max()) if "valid" in tensors else tensors["keys"].shape[-2]
        if most < fewest:
            where = "" if layer is None else f" in {layer}"
            message = f'got "{options.file}", whose queries have at most {several(most, "valid key")}{where}'
            raise InputError.of(f"{message}; expected a query with at least {fewest}", options.file_key)
        points += _head_points(options, layer, tensors, inputs)
        stored |= {name if layer is None else f"{layer}/{name}": tensor for name, tensor in tensors.items()}
    return PreparedPairs(options, entries, sorted({point.d for point in points}), points, stored, device)


def _drawn_sizes(options: PairsOptions) -> Sequence[int]:
    """Return the sizes to draw: the sizes in the options, and beside a single one the powers of two below it."""
    sizes = options.d
    if len(sizes) > 1 or any(entry.parameters for entry in options.scorers):  # files have one size
        return sizes
    smallest = 2 if any(entry.rope for entry in options.scorers) else 1  # features turn in pairs
    return sorted({*powers(smallest, sizes[0]), *sizes})


def _scorers(
    options: PairsOptions, q: int, k: int, device: torch.device, call: AttentionCall | None = None
) -> list[Scorer]:
    """Return the scorers for queries of size q and keys of size k, with the numbers learnt for the heads of a call."""

    def entry_scorer(entry: ScorerEntry) -> Scorer:
        """Return an entry's scorer on the device."""
        learnt, entry = learnt_numbers(entry, call), with_model_defaults(entry, call)
        return build_scorer(entry, q, k, options.seed, getattr(torch, options.dtype), learnt).to(device)

    return map_entries(options.scorers, entry_scorer)


def _head_points(
    options: PairsOptions, layer: str | None, tensors: Mapping[str, Tensor], inputs: Inputs
) -> Iterator[SizePoint]:
    """Yield the points of the heads of a layer, or the only one of tensors without heads; see `read_pairs`."""
    call, q, k = inputs.call, tensors["queries"].shape[-1], tensors["keys"].shape[-1]
    entries = [with_model_defaults(entry, call) for entry in options.scorers]
    first = max(map_entries(options.scorers, inputs.first_of))  # one position, for all that need it
    for index, head in enumerate(inputs.heads):
        of_head = tensors if head is None else {name: tensor[:, index] for name, tensor in tensors.items()}
        call_of_head = None if call is None or head is None else call.of_heads([head])
        scorers, normalizers = _scorers(options, q, k, tensors["queries"].device, call_of_head), list[Normalizer]()
        for entry in options.scorers:  # learnt options are single numbers for the rows of one head
            learnt = learnt_numbers(entry, call_of_head) or {}
            single = {name: tensor.item() for name, tensor in learnt.items() if tensor.numel() == 1}
            normalizers.append(build_normalizer(entry, single))
        pairs, number = RealPairs(of_head, head or 0, first), None if call is None else call.number
        yield SizePoint(k, entries, scorers, normalizers, pairs, head, layer, number, inputs.pre_scale)


@contextmanager
def working(prepared: PreparedPairs) -> Iterator[int]:
    """Context manager of the work on the jobs; it yields their number of threads, each with torch on one core.

    A user's scorer or normaliser may draw random numbers or keep state, so it runs in a single thread, with torch's
    random numbers seeded.
    """
    options = prepared.options
    with on_threads(1) as threads, seeded(options.seed, f"{options.study}.forward", prepared.device):
        yield 1 if any(map(is_own, options.scorers)) else threads


def pair_scores(point: SizePoint, pairs: Pairs) -> list[Tensor]:
    """Return every scorer's scores (rows, m), after the norms and the softcap of its entry.

    Raises:
        InputError: a user's scorer fails; located at its entry in the config.
    """
    scores = []
    for index, (entry, scorer) in enumerate(zip(point.entries, point.scorers, strict=True)):
        with below("scorers", index):
            queries, keys = entry_inputs(entry, pairs.queries, pairs.keys, point.pre_scale, pairs.first)
            if entry.fitted is not None:  # to a head
                queries, keys = queries[None, None], keys[None, None]
            raw = raw_scores(scoring_function(entry, scorer), queries, keys)
        capped = raw if entry.softcap is None else entry_rounding(entry).step(softcap(raw, entry.softcap))
        scores.append(capped.reshape(len(pairs.queries), -1))  # rows m
    return scores


def pairs_result(
    prepared: PreparedPairs,
    columns: Sequence[Column],
    figures: Sequence[Sequence[Row]],
    watched: str,
    progress: Progress,
) -> Result:
    """Return the result, with no findings yet, from the metrics of every scorer at every point (None if missing).

    The tensors `curve/<label>/<column>` hold the plotted points. Each label with a NaN or infinite value in the column
    `watched` gets a warning.
    """
    prepared = replace(prepared, points=prepared.points[: len(figures)])  # fewer after an interruption
    options, scorers, columns = prepared.options, prepared.points[-1].scorers, prepared.columns(columns)
    curve = [{column.key: row.get(column.key) for column in columns} for row in _rows(prepared, figures)]
    records = [row for row in curve if row["d"] in prepared.sizes]
    for label, rows in by_label(records).items():
        for row in [record for record in rows if not math.isfinite(record[watched] or 0.0)][:1]:
            where = ", ".join(filter(None, [f"d = {row['d']}", place_in_words(row, prepared.layers)]))
            cure = "" if prepared.is_real or options.dtype == "float64" else "; float64 has a larger range"
            progress.note(f"warning: {label}: NaN or infinite scores at {where}{cure}")
    facts = PairsFacts(**prepared.entries.data)
    if prepared.is_real:
        facts = PairsFacts(source=options.file, one_over_sqrt_d=prepared.points[0].d ** -0.5)
    return Result(
        study=options.study,
        name=options.name,
        formulas=entry_formulas(options.scorers),
        random=random_labels(options.scorers, scorers),
        layers=prepared.layers,
        capture=CaptureFacts(file=Path(str(options.file)).name) if prepared.is_captured else None,
        facts=facts,
        records=records,
        inputs={name: tensor.cpu() for name, tensor in prepared.tensors.items()},
        tensors=_curve_tensors(columns, curve),
        parameters=reduce(or_, map(stored_parameters, options.scorers, scorers)),
    )


def _rows(prepared: PreparedPairs, figures: Sequence[Sequence[Row]]) -> list[Row]:
    """Return the rows with the columns that identify them, grouped by size, or by scorer for the tensors of a file."""
    rows = [
        {
            **entry_columns(entry),
            **({} if point.layer is None else {"layer": point.layer}),
            **{"head": point.head, "d": point.d},
            **row,
        }
        for point, of_point in zip(prepared.points, figures, strict=True)
        for entry, row in zip(prepared.options.scorers, of_point, strict=True)
    ]
    return [row for heads in by_label(rows).values() for row in heads] if prepared.is_real else rows


def _curve_tensors(columns: Sequence[Column], rows: Sequence[Row]) -> dict[str, Tensor]:
    """Return `curve/<label>/<column>`, NaN if missing; an interval `X_ci` becomes `X_ci_low` and `X_ci_high`."""
    curve: dict[str, Tensor] = {}
    for label, of_label in by_label(rows).items():
        for key in [column.key for column in columns if not column.text]:
            if key.endswith(INTERVAL):
                ends = np.array([row[key] or (None, None) for row in of_label], dtype=np.float64)
                curve[f"curve/{label}/{key}_low"], curve[f"curve/{label}/{key}_high"] = map(torch.tensor, ends.T)
            elif key == "head" and "layer" in of_label[0]:  # the heads of all layers in a row
                curve[f"curve/{label}/{key}"] = torch.arange(len(of_label), dtype=torch.float64)
            elif key != "head" or of_label[0]["head"] is not None:
                curve[f"curve/{label}/{key}"] = torch.tensor(np.array([row[key] for row in of_label], dtype=np.float64))
    return curve
