"""How far the softmax saturates as d grows: entropy, largest weight, its Jacobian, and the gradient of the query."""

from dataclasses import replace
from functools import partial

import torch

from attncli.inputs.seeding import generator
from attncli.show.numbers import counted, figure, short
from attncli.studies.pairs.parts import Pairs
from attncli.studies.pairs.study import (
    PLACE,
    Point,
    Prepared,
    at_work,
    expected_rows_of,
    parts_of,
    prepare_pairs,
    result_of,
    scores_of,
)
from attncli.studies.progress import Counter, Progress
from attncli.studies.saturation.findings import findings_of
from attncli.studies.saturation.options import SaturationOptions
from attncli.studies.saturation.quantiles import Summary
from attncli.studies.saturation.rows import Figures, row_figures
from attncli.studies.study import Column, Result

TOGETHER = 4  # parts, for Python to take less time than torch


def _quartiles(key: str, heading: str, what: str) -> tuple[Column, ...]:
    return (
        Column(f"{key}_median", heading, f"Median over the rows of {what}.", format=short),
        Column(f"{key}_q25", "\n25 %", f"Lower quartile of {what}.", format=short),
        Column(f"{key}_q75", "\n75 %", f"Upper quartile of {what}.", format=short),
    )


COLUMNS = (
    *PLACE,
    Column("keys", "keys", "Keys of each row.", format=counted),
    Column("rows", "rows", "Rows of weights that were measured: queries with two valid keys at least.", format=counted),
    Column("entropy", "entropy\n/ ln m", "Mean entropy over that of uniform weights.", format=figure),
    Column("max_weight", "largest\nweight", "Mean of the largest weight.", format=short),
    Column("effective_keys", "effective\nkeys", "Mean of exp(entropy): how many keys share the weight.", format=short),
    *_quartiles("jacobian", "Jacobian\nmedian", "the Frobenius norm of the softmax's Jacobian diag(p) - p p^T"),
    *_quartiles(
        "query_gradient", "query\ngradient", "the norm of the gradient that reaches the query from a pooled value"
    ),
    *_quartiles("entropy", "entropy\nmedian", "entropy over that of uniform weights"),
    *_quartiles("max_weight", "largest\nmedian", "the largest weight"),
    Column("jacobian_mean", "\nmean", "Mean of the norm of the softmax's Jacobian.", format=short),
)
expected_rows = partial(expected_rows_of, columns=COLUMNS)


def prepare(options: SaturationOptions, progress: Progress) -> Prepared:
    """Pairs and scorers for every d; see `prepare_pairs`."""
    return prepare_pairs(options, lambda *size: options.rows, options.keys, TOGETHER, fewest=2)


def run(prepared: Prepared, progress: Progress) -> Result:
    """Rows of weights for every d, random or real, of all scorers.

    Memory does not grow with the number of rows; numbers do not depend on the number of threads.
    """
    counter, figures = Counter(sum(len(point.pairs.jobs) for point in prepared.points), progress), []
    with at_work(prepared) as threads:
        for point in prepared.points:
            summaries = [Summary() for _ in point.scorers]
            for part in parts_of(point, partial(_measure, prepared, point), threads, counter.of(str(point))):
                for summary, found in zip(summaries, part, strict=True):
                    summary.add(found)
            figures.append([{"keys": point.pairs.keys, **summary.row} for summary in summaries])
    result = result_of(prepared, COLUMNS, figures, "entropy", progress)
    return replace(result, findings=findings_of(result.records))


def _measure(prepared: Prepared, point: Point, pairs: Pairs) -> list[Figures]:
    """Every scorer's figures of the rows of a part, as many at a time as fit into memory with their hidden units."""
    if pairs.valid is not None:  # NaN of padding would reach the gradients, which 0 times NaN is part of
        pairs = replace(pairs, keys=pairs.keys.masked_fill(~pairs.valid.any(0)[:, None], 0.0))
    pooled = []  # standard normal numbers (rows, m), one per key, that the weights pool
    for name, rows in pairs.names:
        randomness = generator(prepared.options.seed, f"saturation.values.{name}")
        pooled.append(torch.empty(rows, point.pairs.keys, dtype=torch.float64).normal_(generator=randomness))
    values, found = torch.cat(pooled), []
    for place, some in pairs.slices(prepared.at_a_time):
        with torch.enable_grad():
            queries = some.queries.detach().requires_grad_()
            scores = scores_of(prepared, point, replace(some, queries=queries))
        found.append([row_figures(each, some.valid, queries, values[place]) for each in scores])
    return [{name: torch.cat([part[name] for part in each]) for name in each[0]} for each in zip(*found, strict=True)]
