"""How far the softmax saturates as d grows: entropy, largest weight, its Jacobian, and the gradient of the query."""

from functools import partial

import torch
from torch import Tensor

from attncli.errors import InputError
from attncli.inputs.seeding import generator
from attncli.studies.pairs.parts import Job, Pairs
from attncli.studies.pairs.prepare import Point, Prepared, prepare_pairs
from attncli.studies.pairs.result import at_work, expected_rows_of, result_of, scores_of
from attncli.studies.progress import Counter, Progress
from attncli.studies.saturation.columns import COLUMNS
from attncli.studies.saturation.findings import findings_of
from attncli.studies.saturation.options import SaturationOptions
from attncli.studies.saturation.quantiles import Summary
from attncli.studies.saturation.rows import Figures, row_figures
from attncli.studies.study import Result, Rows
from attncli.studies.threads import in_order

TOGETHER = 4  # parts, for Python to take less time than torch


def prepare(options: SaturationOptions, progress: Progress) -> Prepared[SaturationOptions]:
    """Scorers for every d; everything that can be refused is refused here.

    Raises:
        InputError: see `prepare_pairs`; also real tensors without a query that has a choice.
    """
    prepared = prepare_pairs(options, lambda *point: options.rows, options.keys, TOGETHER)
    if prepared.real is not None and prepared.real.most_keys < 2:
        message = f'got "{options.source}", where no query has more than one valid key; expected two at least'
        raise InputError.of(f"{message}, since a weight of 1 cannot saturate", ["from"])
    return prepared


def expected_rows(prepared: Prepared[SaturationOptions]) -> Rows:
    """The rows that the result will have, as far as they are known."""
    return expected_rows_of(prepared, COLUMNS)


def run(prepared: Prepared[SaturationOptions], progress: Progress) -> Result:
    """Rows of weights for every d, random or real, of all scorers.

    Memory does not grow with the number of rows; numbers do not depend on the number of threads.

    Raises:
        InputError: a scorer of the user's own that fails.
    """
    counter, figures = Counter(sum(len(point.pairs) for point in prepared.points), progress), []
    keys = prepared.options.keys if prepared.real is None else prepared.real.keys.shape[-2]
    with at_work(prepared) as threads:
        for point in prepared.points:
            summaries = [Summary() for _ in point.scorers]
            done = counter.of(str(point))
            for part in in_order(partial(_measure, prepared, point), point.pairs, threads):
                for summary, found in zip(summaries, part, strict=True):
                    summary.add(found)
                done()
            figures.append([{"keys": keys, **summary.row()} for summary in summaries])
    return result_of(prepared, figures, "entropy", findings_of, {}, progress)


def _measure(prepared: Prepared[SaturationOptions], point: Point, job: Job) -> list[Figures]:
    """Every scorer's figures of the rows of one job, as many at a time as fit into memory with their hidden units."""
    pairs = job()
    if pairs.valid is not None:  # NaN of padding would reach the gradients, which 0 times NaN is part of
        keys = pairs.keys.masked_fill(~pairs.valid.any(0)[:, None], 0.0)
        pairs = Pairs(pairs.queries, keys, pairs.valid, pairs.names)
    values = torch.cat(
        [  # standard normal numbers (rows, m), one per key, that the weights pool
            torch.empty(rows, pairs.shape[1], dtype=torch.float64).normal_(
                generator=generator(prepared.options.seed, f"saturation.values.{name}")
            )
            for name, rows in pairs.names
        ]
    )
    slices = pairs.slices(prepared.at_a_time)
    found = [_of_slice(prepared, point, pairs.rows(some), values[some]) for some in slices]
    return [{name: torch.cat([part[name] for part in each]) for name in each[0]} for each in zip(*found, strict=True)]


def _of_slice(prepared: Prepared[SaturationOptions], point: Point, pairs: Pairs, values: Tensor) -> list[Figures]:
    with torch.enable_grad():
        queries = pairs.queries.detach().requires_grad_()
        scores = scores_of(prepared, point, Pairs(queries, pairs.keys, pairs.valid, ()))
    return [row_figures(each, pairs.valid, queries, values) for each in scores]
