"""How far the softmax saturates as d grows: entropy, largest weight, its Jacobian, and the gradient of the query."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import torch
from pydantic import AliasChoices, Field
from torch import Tensor

from attncli.config.scorer_entries import EntriesOf, ScorerEntry
from attncli.config.sweeps import SCORER_KEYS, Sweep
from attncli.errors import InputError
from attncli.inputs.seeding import generator
from attncli.results.records import Record, SweepResult
from attncli.scorers import SCORERS
from attncli.scorers._custom import load_class
from attncli.studies.progress import Counter, Progress
from attncli.studies.saturation_rows import jacobian_norm, query_gradient, relative_entropy, row_weights
from attncli.studies.saturation_summary import Figures, Summary
from attncli.studies.sweep import (
    Part,
    Parts,
    Point,
    Prepared,
    at_work,
    draw,
    scores_of,
    sweep_result,
    warn_of_numbers,
)
from attncli.studies.sweep_setup import prepare_sweep
from attncli.studies.threads import in_order

DEFAULT_SCORERS: list[Any] = [
    {"scorer": "dot"},
    {"scorer": "scaled_dot"},
    {"scorer": "scaled_dot", "scale": "1/d", "label": "scaled_dot_1_over_d"},
    {"scorer": "additive"},
    {"scorer": "cosine"},
]


class SaturationOptions(Sweep):
    """`study: saturation`."""

    study: Literal["saturation"] = "saturation"
    scorers: Annotated[
        list[Annotated[ScorerEntry, EntriesOf(SCORERS, load_class)]],
        Field(min_length=1, validation_alias=AliasChoices(*SCORER_KEYS), validate_default=True),
    ] = DEFAULT_SCORERS
    keys: Annotated[int, Field(ge=2, le=2**20, description="per row; their scores go into one softmax")] = 64
    rows: Annotated[int, Field(ge=1, le=10**12, description="independent rows per d: a query and its keys each")] = 2000


OPTIONS = SaturationOptions  # what `load_study` gives, beside SCORERS, prepare and run


def prepare(options: SaturationOptions, progress: Progress) -> Prepared:
    """Scorers for every d; everything that can be refused is refused here.

    Raises:
        InputError: see `prepare_sweep`; also real tensors without a query that has a choice.
    """
    prepared = prepare_sweep(options, options.keys, progress)
    if prepared.real is not None and not prepared.real.most_keys() >= 2:
        message = f'got "{options.source}", where no query has more than one valid key; expected two at least'
        raise InputError.of(f"{message}, since a weight of 1 cannot saturate", ["from"])
    return prepared


def run(prepared: Prepared, progress: Progress) -> SweepResult:
    """Rows of weights for every d, random or real, of all scorers.

    Memory does not grow with the number of rows; numbers do not depend on the number of threads.

    Raises:
        InputError: a scorer of the user's own that fails.
    """
    work = _random if prepared.real is None else _real
    with at_work(prepared) as threads:
        curve = work(prepared, threads, progress)
    warn_of_numbers(curve, "entropy", progress)
    return sweep_result(prepared, curve)


def _random(prepared: Prepared, threads: int, progress: Progress) -> list[Record]:
    options, curve = prepared.options, []
    jobs = [Parts(options.rows, point.d, options.keys) for point in prepared.points]
    counter = Counter(sum(map(len, jobs)), progress)
    for point, todo in zip(prepared.points, jobs, strict=True):
        work = partial(_random_part, prepared, point)
        summaries = _summaries(prepared, work, todo, threads, counter.of(f"d = {point.d}"))
        curve += _records(prepared, None, point.d, options.keys, summaries)
    return curve


def _random_part(prepared: Prepared, point: Point, part: Part) -> list[Figures]:
    m = prepared.options.keys
    queries, keys = draw(prepared, point, part, m)
    values = _values(prepared, f"{point.d}.{part.index}", (part.rows, m))
    return _figures(prepared, point, queries, keys, None, values)


def _real(prepared: Prepared, threads: int, progress: Progress) -> list[Record]:
    assert prepared.real is not None
    real, point = prepared.real, prepared.points[0]
    counter, records, m = Counter(real.count(), progress), [], real.keys.shape[-2]
    for head in range(real.queries.shape[1]):
        work = partial(_real_part, prepared, point, head)
        done = counter.of(f"head {head}")
        summaries = _summaries(prepared, work, enumerate(real.parts(head)), threads, done)
        records.append(_records(prepared, head if real.heads else None, point.d, m, summaries))
    return [row for scorer in zip(*records, strict=True) for row in scorer]


def _real_part(
    prepared: Prepared, point: Point, head: int, job: tuple[int, tuple[Tensor, Tensor, Tensor | None]]
) -> list[Figures]:
    """Queries (n, q), keys (m, k) and their mask; rows with less than two valid keys have nothing to share out."""
    index, (queries, keys, valid) = job
    if valid is not None:  # NaN of padding would reach the gradients, which 0 times NaN is part of
        keys = keys.masked_fill(~valid.any(0)[:, None], 0.0)
    values = _values(prepared, f"real.{head}.{index}", (len(queries), len(keys)))
    return _figures(prepared, point, queries, keys, valid, values)


def _values(prepared: Prepared, name: str, shape: tuple[int, int]) -> Tensor:
    """Standard normal numbers, one per key, that the weights pool."""
    randomness = generator(prepared.options.seed, f"saturation.values.{name}")
    return torch.empty(shape, dtype=torch.float64).normal_(generator=randomness).to(prepared.device)


def _figures(
    prepared: Prepared, point: Point, queries: Tensor, keys: Tensor, valid: Tensor | None, values: Tensor
) -> list[Figures]:
    """Every scorer's figures of the rows, for queries (rows, 1, d) with keys (rows, m, d), or (rows, d) with (m, d)."""
    with torch.enable_grad():
        queries = queries.detach().requires_grad_()
        scores = scores_of(prepared, point, queries, keys)
    found = []
    for each in scores:
        rows = each.reshape(values.shape)
        weights = row_weights(rows, valid)
        found.append(_of_rows(weights, valid, query_gradient(each, weights, queries, values)))
    return found


def _of_rows(weights: Tensor, valid: Tensor | None, gradient: Tensor | None) -> Figures:
    m = weights.shape[-1]
    keys = torch.full(weights.shape[:-1], m, device=weights.device) if valid is None else valid.sum(-1)
    enough = keys >= 2
    weights = weights[enough]
    entropy, effective = relative_entropy(weights, keys[enough])
    figures = {
        "entropy": entropy,
        "effective_keys": effective,
        "max_weight": weights.amax(-1),
        "jacobian": jacobian_norm(weights),
    }
    if gradient is not None:
        figures["query_gradient"] = gradient[enough]
    return {name: figure.cpu() for name, figure in figures.items()}


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
