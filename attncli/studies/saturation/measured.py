"""Rows of weights, random or real, in parts, and what all scorers make of them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from attncli.inputs.seeding import generator
from attncli.studies.pairs.real_pairs import RealPart
from attncli.studies.pairs.sweep import Part, Parts, Point, Prepared, draw, scores_of, slices
from attncli.studies.progress import Counter, Progress
from attncli.studies.saturation.rows import query_gradient, row_figures, row_weights
from attncli.studies.saturation.summary import Figures, Summary
from attncli.studies.study import Record
from attncli.studies.threads import in_order

TOGETHER = 4  # parts, for Python to take less time than torch


def measure_random(prepared: Prepared, threads: int, progress: Progress) -> list[Record]:
    """Independent rows for every d: a query and its own keys each."""
    options, curve = prepared.options, []
    jobs = [Parts(options.rows, point.d, options.keys) for point in prepared.points]
    counter = Counter(sum(-(-len(todo) // TOGETHER) for todo in jobs), progress)
    for point, todo in zip(prepared.points, jobs, strict=True):
        work = partial(_random_parts, prepared, point)
        summaries = _summaries(prepared, work, _groups(todo), threads, counter.of(f"d = {point.d}"))
        curve += _records(prepared, None, point.d, options.keys, summaries)
    return curve


def _groups(parts: Iterable[Part]) -> Iterator[list[Part]]:
    """Parts by the few: drawn apart, but worked on together, since of large d they have few rows each."""
    waiting = iter(parts)
    while group := list(islice(waiting, TOGETHER)):
        yield group


def _random_parts(prepared: Prepared, point: Point, group: Sequence[Part]) -> list[Figures]:
    m = prepared.options.keys
    queries, keys = map(torch.cat, zip(*(draw(prepared, point, part, m) for part in group), strict=True))
    values = [_values(prepared, f"{point.d}.{part.index}", (part.rows, m)) for part in group]
    return _figures(prepared, point, queries, keys, None, torch.cat(values))


def measure_real(prepared: Prepared, threads: int, progress: Progress) -> list[Record]:
    """All queries of the real tensors, head by head."""
    assert prepared.real is not None
    real, point = prepared.real, prepared.points[0]
    counter, records, m = Counter(real.count(), progress), [], real.keys.shape[-2]
    for head in range(real.queries.shape[1]):
        work = partial(_real_part, prepared, point, head)
        done = counter.of(f"head {head}")
        summaries = _summaries(prepared, work, enumerate(real.parts(head)), threads, done)
        records.append(_records(prepared, head if real.heads else None, point.d, m, summaries))
    return [row for scorer in zip(*records, strict=True) for row in scorer]


def _real_part(prepared: Prepared, point: Point, head: int, job: tuple[int, RealPart]) -> list[Figures]:
    """Queries (n, q), keys (m, k) and their mask; rows with less than two valid keys have nothing to share out."""
    index, (queries, keys, valid) = job
    if valid is not None:  # NaN of padding would reach the gradients, which 0 times NaN is part of
        keys = keys.masked_fill(~valid.any(0)[:, None], 0.0)
    values = _values(prepared, f"real.{head}.{index}", (len(queries), len(keys)))
    return _figures(prepared, point, queries, keys, valid, values)


def _values(prepared: Prepared, name: str, shape: tuple[int, int]) -> Tensor:
    """Standard normal numbers, one per key, that the weights pool."""
    randomness = generator(prepared.options.seed, f"saturation.values.{name}")
    return torch.empty(shape, dtype=torch.float64).normal_(generator=randomness)


def _figures(
    prepared: Prepared, point: Point, queries: Tensor, keys: Tensor, valid: Tensor | None, values: Tensor
) -> list[Figures]:
    """Every scorer's figures of the rows, for queries (rows, 1, d) with keys (rows, m, d), or (rows, d) with (m, d)."""
    found: list[list[Figures]] = []
    for some in slices(prepared, *values.shape):
        own_keys = keys[some] if keys.ndim == queries.ndim == 3 else keys
        mask = None if valid is None else valid[some]
        found.append(_of_slice(prepared, point, queries[some], own_keys, mask, values[some]))
    return [
        {name: torch.cat([figures[name] for figures in each]) for name in each[0]} for each in zip(*found, strict=True)
    ]


def _of_slice(
    prepared: Prepared, point: Point, queries: Tensor, keys: Tensor, valid: Tensor | None, values: Tensor
) -> list[Figures]:
    """Those of rows whose hidden units fit into memory together."""
    with torch.enable_grad():
        queries = queries.detach().requires_grad_()
        scores = scores_of(prepared, point, queries, keys)
    found = []
    for each in scores:
        weights = row_weights(each.reshape(values.shape), valid)
        found.append(row_figures(weights, valid, query_gradient(each, weights, queries, values)))
    return found


def _summaries(
    prepared: Prepared,
    work: Callable[[Any], list[Figures]],
    jobs: Iterable[Any],
    threads: int,
    done: Callable[[], None],
) -> list[Summary]:
    summaries = [Summary() for _ in prepared.options.scorers]
    for part in in_order(work, jobs, threads):
        for summary, figures in zip(summaries, part, strict=True):
            summary.add(figures)
        done()
    return summaries


def _records(prepared: Prepared, head: int | None, d: int, keys: int, summaries: Sequence[Summary]) -> list[Record]:
    return [
        {"scorer": entry.scorer, "label": entry.label, "head": head, "d": d, "keys": keys, **summary.row()}
        for entry, summary in zip(prepared.options.scorers, summaries, strict=True)
    ]
