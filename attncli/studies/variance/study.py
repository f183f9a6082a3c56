"""Mean and variance of scores against d: measured on queries and keys, random or from a file, and in theory."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

import torch

from attncli.catalogue.building import scorer_scale
from attncli.core.threads import in_order
from attncli.errors import below
from attncli.results import Result, Row
from attncli.runtime import Counter, Progress, keep_finished
from attncli.studies.pairs.entries import Entries, PairsFacts
from attncli.studies.pairs.study import PreparedPairs, SizePoint, pair_scores, pairs_result, prepare_pairs, working
from attncli.studies.study import Study
from attncli.studies.variance.columns import COLUMNS
from attncli.studies.variance.findings import variance_findings
from attncli.studies.variance.moments import Edges, MomentTally
from attncli.studies.variance.options import VarianceOptions
from attncli.studies.variance.tables import tables
from attncli.studies.variance.theory import score_theory

RELATIVE_ERROR = 0.005  # of a variance, which the default number of samples is chosen for
MOST_SAMPLES = 10_000_000  # by default
MOST_DENSITIES = 4  # sizes d that all have a histogram
DIVISORS = 1, 4, 16  # of more sizes, the sizes next to the largest divided by these have one


def prepare(options: VarianceOptions, progress: Progress) -> PreparedPairs:
    """Return pairs and scorers for every d; see `prepare_pairs`."""
    return prepare_pairs(options, progress, partial(_samples, options))


def _samples(options: VarianceOptions, entries: Entries, d: int) -> int:
    """Return the number of pairs for d: the option `samples`, but at most the default if d is only for the picture."""
    enough = default_samples(entries, d)
    wanted = options.samples or enough
    return wanted if d in options.d else min(wanted, enough)


def default_samples(entries: Entries, d: int) -> int:
    """Return the number of pairs for a relative standard error RELATIVE_ERROR of a dot product's variance.

    This error is sqrt((kurtosis - 1) / samples), and the kurtosis of a sum of d products is 3 + (K - 3) / d, where K is
    the kurtosis of one product q_i k_i. For independent entries, K is the squared kurtosis of the entries. For
    correlated entries, K is at least 15, the kurtosis of a squared normal number; some may need more pairs.
    """
    product = entries.kurtosis**2 if not entries.rho else max(entries.kurtosis**2, 15.0)
    wanted = (2.0 + max(product - 3.0, 0.0) / d) / RELATIVE_ERROR**2
    return min(math.ceil(wanted / 1000.0) * 1000, MOST_SAMPLES)


def run(prepared: PreparedPairs, progress: Progress) -> Result:
    """Measure the scores of all scorers for random pairs of every d, or for the pairs of a file.

    Memory does not grow with the number of samples, and results do not depend on the number of threads.
    """
    points, entries = prepared.points, prepared.options.scorers
    no_edges, tallies, counted = [None] * len(entries), list[list[MomentTally]](), dict[int, list[MomentTally]]()
    sizes = _with_densities([point.d for point in points])
    rows, figures = list[int](), list[list[Row]]()  # rows: the sizes of finished ones
    counter = Counter(prepared.jobs * (2 if prepared.is_real else 1), progress)
    with keep_finished(rows) as outcome, working(prepared) as threads:

        def tallied(point: SizePoint, edges: Sequence[Edges | None]) -> list[MomentTally]:
            """Return the tally of each scorer's scores at a point, with the counts between these edges."""

            def work(job: int) -> list[MomentTally]:
                tallies = _tally(edges, point, job)
                counter.step(str(point))
                return tallies

            return reduce(_merged, in_order(work, point.pairs.jobs, threads))

        for point in points:
            edges: Sequence[Edges | None] = no_edges
            if point.d in sizes and not prepared.is_real:  # its first scores say where the bins lie
                edges = [tally.bins for tally in _tally(no_edges, point, 0)]
            tallies.append(tallied(point, edges))
            figures.append(_figures(prepared, point, tallies[-1]))
            counted[point.d] = tallies[-1]
            rows += [point.d] * (point.d in prepared.sizes)
        if prepared.is_real:  # a second round counts the scores of all heads together
            edges = [tally.bins for tally in reduce(_merged, tallies)]
            counted = {max(sizes): reduce(_merged, [tallied(point, edges) for point in points])}
    result = pairs_result(prepared, COLUMNS, figures, "variance", progress)
    for row in [row for row in result.records if row["variance"] == 0 and row["theory_variance"]][:1]:
        progress.note(f"warning: {row['label']}: scores too small for the dtype at d = {row['d']}; use float64")
    histograms = {}
    for d, tallies_at in counted.items():
        for entry, tally in zip(entries, tallies_at, strict=True):
            if tally.edges is not None and math.isfinite(tally.moments.population_variance):
                histograms[f"histogram/{entry.label}/{d}/edges"] = torch.from_numpy(tally.edges)
                histograms[f"histogram/{entry.label}/{d}/counts"] = torch.from_numpy(tally.counts).double()
    return replace(
        result,
        findings=variance_findings(prepared, result),
        tensors={**result.tensors, **histograms},
        interrupted=outcome.interrupted,
    )


def _with_densities(sizes: Sequence[int]) -> set[int]:
    """Return the sizes d with a histogram, of these sizes of all points."""
    near = {min(sizes, key=lambda d: abs(math.log(d * divisor / max(sizes)))) for divisor in DIVISORS}
    return near if len(set(sizes)) > MOST_DENSITIES else set(sizes)


def _tally(edges: Sequence[Edges | None], point: SizePoint, job: int) -> list[MomentTally]:
    pairs = point.pairs.of_job(job)
    with torch.no_grad():  # threads do not inherit it
        scores = pair_scores(point, pairs)
    return [MomentTally.of(matrix, pairs, bins) for matrix, bins in zip(scores, edges, strict=True)]


def _merged(tallies: Sequence[MomentTally], others: Sequence[MomentTally]) -> list[MomentTally]:
    return list(map(MomentTally.merged, tallies, others))


def _figures(prepared: PreparedPairs, point: SizePoint, tallies: Sequence[MomentTally]) -> list[Row]:
    """Return a row of metrics for each scorer at one point, without the columns that identify the row.

    `unit_scale`, the scale that would give the scores variance 1, is None if the entry has a softcap, which is applied
    after the scale. Random pairs have intervals and a theory; the pairs of a file are a whole population without them.
    """
    rows = []
    for index, (entry, scorer, tally) in enumerate(zip(point.entries, point.scorers, tallies, strict=True)):
        moments = tally.moments
        row: Row = {"samples": moments.count, "scale": scorer_scale(scorer)}
        rows.append(row)
        if not moments.count:  # a head without a valid pair
            continue
        row["mean"] = moments.mean
        if prepared.is_real:
            row |= {"variance": moments.population_variance, "row_variance": tally.within.population_variance}
        else:
            with below("scorers", index):
                theory = score_theory(entry, scorer, prepared.entries, point.d)
            row |= {
                "mean_ci": list(moments.mean_interval()),
                "variance": moments.variance,
                "variance_ci": list(moments.variance_interval()),
                "theory_mean": theory.mean,
                "theory_variance": theory.variance,
                "theory": theory.kind,
            }
            if theory.mean is not None:
                row["z_mean"] = moments.mean_score(theory.mean)
            if theory.variance is not None and not theory.limit:
                row["z"] = moments.variance_score(theory.variance)
        if row["variance"] > 0 and entry.softcap is None:
            row["unit_scale"] = row["scale"] / math.sqrt(row["variance"])
    return rows


STUDY = Study(prepare, run, tables, PairsFacts, {"records": COLUMNS}, "variance")
