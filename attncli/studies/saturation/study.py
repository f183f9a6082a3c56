"""How far weights saturate as d grows: entropy, largest weight, norm of the Jacobian, and gradient at the query."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from attncli.core.seeding import generator
from attncli.core.threads import in_order
from attncli.errors import below
from attncli.results import Result, Row, signed_weights
from attncli.runtime import Counter, Progress, keep_finished
from attncli.studies.pairs.study import PreparedPairs, SizePoint, pair_scores, pairs_result, prepare_pairs, working
from attncli.studies.saturation.columns import COLUMNS, SaturationFacts
from attncli.studies.saturation.findings import saturation_findings
from attncli.studies.saturation.options import SaturationOptions
from attncli.studies.saturation.rows import Figures, row_figures
from attncli.studies.saturation.tables import tables
from attncli.studies.study import Study

TOGETHER = 4  # parts, for Python to take less time than torch
OF_SHARES = ("entropy", "effective_keys")  # undefined with negative weights
FIGURES = ("q25", "median", "q75", "mean")


def prepare(options: SaturationOptions, progress: Progress) -> PreparedPairs:
    """Return pairs and scorers for every d; see `prepare_pairs`."""
    return prepare_pairs(options, progress, lambda *size: options.rows, options.keys, TOGETHER, fewest=2)


def run(prepared: PreparedPairs, progress: Progress) -> Result:
    """Measure rows of weights of all scorers, for random pairs of every d or for the pairs of a file.

    Only the metrics of each row are outcome, and results do not depend on the number of threads.
    """
    figures, keys = list[list[Row]](), prepared.points[0].pairs.keys
    rows, counter = list[int](), Counter(prepared.jobs, progress)  # the sizes of finished rows
    with keep_finished(rows) as outcome, working(prepared) as threads:
        for point in prepared.points:
            work = partial(_measure, prepared, counter, point)
            by_scorer = zip(*in_order(work, point.pairs.jobs, threads), strict=True)
            figures.append([{"keys": point.pairs.keys, **_row(jobs)} for jobs in by_scorer])
            rows += [point.d] * (point.d in prepared.sizes)
    result = pairs_result(prepared, COLUMNS, figures, "entropy", progress)
    uniform = {"entropy": 1.0, "max_weight": 1 / keys, "jacobian": math.sqrt(keys - 1) / keys}
    findings = saturation_findings(result, uniform["jacobian"])
    signed = {row["label"] for row in result.records if OF_SHARES[0] in row and row[OF_SHARES[0]] is None}
    findings = [*map(signed_weights, [label for label in result.labels if label in signed]), *findings]
    facts = SaturationFacts(**result.facts.data, uniform=uniform)
    return replace(result, facts=facts, findings=findings, interrupted=outcome.interrupted)


def _measure(prepared: PreparedPairs, counter: Counter, point: SizePoint, job: int) -> list[Figures]:
    """Return every scorer's metrics for the rows of a job."""
    pairs = point.pairs.of_job(job)
    if pairs.valid is not None:  # NaN in padding would reach the gradients, since 0 times NaN is NaN
        pairs = replace(pairs, keys=pairs.keys.masked_fill(~pairs.valid.any(0)[:, None], 0.0))
    pooled = []  # standard normal numbers (rows, m), one per key, that the weights pool
    for name, rows in pairs.names:
        randomness = generator(prepared.options.seed, f"saturation.values.{name}")
        pooled.append(torch.empty(rows, point.pairs.keys, dtype=torch.float64).normal_(generator=randomness))
    values, figures = torch.cat(pooled), list[Figures]()
    with torch.enable_grad():
        queries = pairs.queries.detach().requires_grad_()
        scores = pair_scores(point, replace(pairs, queries=queries))
    for index, (matrix, normalizer) in enumerate(zip(scores, point.normalizers, strict=True)):
        with below("scorers", index):
            figures.append(row_figures(matrix, pairs.valid, queries, values, normalizer))
    counter.step(str(point))
    return figures


def _row(jobs: Sequence[Figures]) -> Row:
    """Return a record with the number of `rows` of these jobs, and the mean and quartiles of each metric.

    With negative weights, entropies are None.
    """
    figures = {name: torch.cat([job[name] for job in jobs]) for name in jobs[0]}
    row: Row = {"rows": len(figures["max_weight"])}
    is_finite = bool(figures["weight_sum"].isfinite().all())
    for name, tensor in figures.items():
        if not len(tensor):
            continue
        if is_finite and name in OF_SHARES and bool(tensor.isnan().any()):  # a weight is negative
            row |= dict.fromkeys([name, *(f"{name}_{figure}" for figure in FIGURES)])
            continue
        with np.errstate(invalid="ignore"):  # between two infinite numbers there is no quantile
            quartiles = np.quantile(tensor.numpy(), [0.25, 0.5, 0.75]).tolist()
        row |= zip((f"{name}_{figure}" for figure in FIGURES), [*quartiles, tensor.mean().item()], strict=True)
        row[name] = row[f"{name}_mean"]
    return row


STUDY = Study(prepare, run, tables, SaturationFacts, {"records": COLUMNS}, "entropy_median")
