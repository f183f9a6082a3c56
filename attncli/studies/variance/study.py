"""Mean and variance of scores against d, measured on random queries and keys or on real ones, beside the theory."""

import math
from collections.abc import Sequence
from functools import partial, reduce
from itertools import chain, islice

import torch
from torch import Tensor

from attncli.errors import InputError
from attncli.studies.pairs.entries import Entries
from attncli.studies.pairs.prepare import Point, Prepared, prepare_pairs
from attncli.studies.pairs.result import at_work, expected_rows_of, result_of
from attncli.studies.progress import Counter, Progress
from attncli.studies.scoring import scale_of
from attncli.studies.study import Record, Result, Rows
from attncli.studies.variance.columns import COLUMNS
from attncli.studies.variance.findings import findings_of
from attncli.studies.variance.options import VarianceOptions
from attncli.studies.variance.tally import Tally, merged, tally
from attncli.studies.variance.theory import Theory, theory_of

RELATIVE_ERROR = 0.005  # of a variance, which the default number of samples is chosen for
MOST_SAMPLES = 10_000_000  # by default


def prepare(options: VarianceOptions, progress: Progress) -> Prepared[VarianceOptions]:
    """Scorers for every d; everything that can be refused is refused here.

    Raises:
        InputError: see `prepare_pairs`; also real tensors without a valid pair.
    """
    prepared = prepare_pairs(options, partial(samples, options.samples))
    if prepared.real is not None and prepared.real.most_keys == 0:
        raise InputError.of(f'got "{options.source}", where no query has a valid key; expected one at least', ["from"])
    return prepared


def expected_rows(prepared: Prepared[VarianceOptions]) -> Rows:
    """The rows that the result will have, as far as they are known."""
    return expected_rows_of(prepared, COLUMNS)


def run(prepared: Prepared[VarianceOptions], progress: Progress) -> Result:
    """Draw pairs for every d, or take the real ones, and measure the scores of all scorers.

    Memory does not grow with the number of samples; numbers do not depend on the number of threads.

    Raises:
        InputError: a scorer of the user's own that fails.
    """
    points, real = prepared.points, prepared.real is not None
    largest, count = max(point.d for point in points), sum(len(point.pairs) for point in points)
    counter, by_point, counted = Counter(2 * count if real else count, progress), list[list[Tally]](), list[Tally]()
    with at_work(prepared) as threads:
        for point in points:
            counting = point.d == largest and not real
            first = tally(prepared, point, islice(point.pairs, 1)) if counting else []  # says where the bins lie
            edges = [each.bins for each in first]
            by_point.append(tally(prepared, point, point.pairs, edges, threads, counter.of(str(point))))
            counted = by_point[-1] if counting else counted
        if real:  # a second pass counts the scores of all heads together
            edges = [each.bins for each in reduce(merged, by_point)]
            every = chain.from_iterable(point.pairs for point in points)
            counted = tally(prepared, points[0], every, edges, threads, counter.of("histograms"))
    figures = list(map(partial(_figures, prepared), points, by_point))
    result = result_of(
        prepared, figures, "variance", partial(findings_of, prepared), _histograms(prepared, counted), progress
    )
    for row in [row for row in result.records if row["variance"] == 0 and row["theory_variance"]][:1]:
        progress.note(f"warning: {row['label']}: scores too small for the dtype at d = {row['d']}; use float64")
    return result


def samples(wanted: int | None, entries: Entries, d: int, is_asked: bool) -> int:
    """As many as are wanted; of points that only stand in the picture not more than it needs."""
    enough = default_samples(entries, d)
    return wanted or enough if is_asked else min(wanted or enough, enough)


def default_samples(entries: Entries, d: int) -> int:
    """Pairs for a relative standard error of about RELATIVE_ERROR of a dot product's variance.

    That error is sqrt((kurtosis - 1) / samples), and the kurtosis of a sum of d products 3 + (theirs - 3) / d. Theirs
    is the entries' squared for independent ones, and 15 for u^2 of normal u; correlated entries of other distributions
    may need more.
    """
    product = entries.kurtosis**2 if not entries.rho else max(entries.kurtosis**2, 15.0)
    wanted = (2.0 + max(product - 3.0, 0.0) / d) / RELATIVE_ERROR**2
    return min(math.ceil(wanted / 1000.0) * 1000, MOST_SAMPLES)


def _figures(prepared: Prepared[VarianceOptions], point: Point, tallies: Sequence[Tally]) -> list[Record]:
    """Rows without their place, one per scorer. `unit_scale` is the factor that would give the scores variance 1.

    Random pairs have intervals, and a theory beside them. Real ones are all there are and no sample: they have neither.
    """
    rows, real = [], prepared.real is not None
    for entry, scorer, each in zip(prepared.options.scorers, point.scorers, tallies, strict=True):
        moments, scale = each.moments, scale_of(scorer)
        theory = Theory() if real else theory_of(entry, scorer, prepared.entries, point.d)
        variance = moments.population_variance if real else moments.variance
        exact = theory.variance if theory.kind == "exact" else None
        rows.append(
            {
                "samples": moments.count,
                "mean": moments.mean,
                "mean_ci": None if real else list(moments.mean_interval()),
                "variance": variance,
                "variance_ci": None if real else list(moments.variance_interval()),
                "theory_mean": theory.mean,
                "theory_variance": theory.variance,
                "z": None if exact is None else moments.variance_score(exact),
                "z_mean": None if theory.mean is None else moments.mean_score(theory.mean),
                "theory": theory.kind,
                "row_variance": each.within.population_variance if real else None,
                "scale": scale,
                "unit_scale": scale / math.sqrt(variance) if variance > 0 else None,
            }
        )
    return rows


def _histograms(prepared: Prepared[VarianceOptions], tallies: Sequence[Tally]) -> dict[str, Tensor]:
    """`histogram/<label>/edges` and `/counts`, of the scorers whose scores differ."""
    tensors: dict[str, Tensor] = {}
    for entry, each in zip(prepared.options.scorers, tallies, strict=True):
        if each.edges is not None:
            tensors[f"histogram/{entry.label}/edges"] = torch.from_numpy(each.edges)
            tensors[f"histogram/{entry.label}/counts"] = torch.from_numpy(each.counts).double()
    return tensors
