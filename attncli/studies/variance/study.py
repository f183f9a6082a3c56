"""Mean and variance of scores against d, measured on random queries and keys or on real ones, beside the theory."""

import math
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from itertools import chain, islice

import torch
from torch import Tensor, nn

from attncli.errors import InputError
from attncli.studies.pairs.entries import Entries
from attncli.studies.pairs.parts import Pairs
from attncli.studies.pairs.prepare import Point, Prepared, prepare_pairs
from attncli.studies.pairs.result import asked, expected_rows_of, result_of, rows_of
from attncli.studies.pairs.scores import at_work, scores_of, sliced, warn_of_numbers
from attncli.studies.progress import Counter, Progress
from attncli.studies.scoring import scale_of
from attncli.studies.study import Record, Result, Rows
from attncli.studies.variance.columns import COLUMNS
from attncli.studies.variance.findings import findings_of
from attncli.studies.variance.moments import Moments
from attncli.studies.variance.options import VarianceOptions
from attncli.studies.variance.tally import Edges, Tally, merged, tally
from attncli.studies.variance.theory import Theory, theory_of

RELATIVE_ERROR = 0.005  # of a variance, which the default number of samples is chosen for
MOST_SAMPLES = 10_000_000  # by default
Measured = tuple[list[Record], Mapping[str, Tensor]]  # the rows of the curve, and the histograms


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
    with at_work(prepared) as threads:
        work = _random if prepared.real is None else _real
        curve, histograms = work(prepared, threads, progress)
    records = asked(prepared, curve)
    warn_of_numbers(records, "variance", progress)
    _warn_of_zeros(records, progress)
    return result_of(prepared, curve, findings_of(prepared, records), histograms)


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


def _random(prepared: Prepared[VarianceOptions], threads: int, progress: Progress) -> Measured:
    """Independent pairs for every d; at the largest a first part says where the bins of the histogram lie."""
    largest = max(point.d for point in prepared.points)
    measured, histograms, counter = [], {}, Counter(sum(len(point.pairs) for point in prepared.points), progress)
    for point in prepared.points:
        scores, edges = partial(_scores, prepared, point), list[Edges | None]([None] * len(point.scorers))
        if point.d == largest:
            edges = [each.edges for each in tally(scores, islice(point.pairs, 1), edges)]
        tallies = tally(scores, point.pairs, edges, threads, counter.of(str(point)))
        if point.d == largest:
            histograms = _histograms(prepared, edges, tallies)
        measured.append((point, _sampled(prepared, point, tallies)))
    return rows_of(prepared, measured), histograms


def _real(prepared: Prepared[VarianceOptions], threads: int, progress: Progress) -> Measured:
    """All pairs of the real tensors, head by head; a second pass counts them for the histograms."""
    points, count = prepared.points, len(prepared.options.scorers)
    counter, none = Counter(2 * sum(len(point.pairs) for point in points), progress), [None] * (2 * count)
    both = partial(_scores_and_differences, prepared, points[0])
    by_head = [tally(both, point.pairs, none, threads, counter.of(str(point))) for point in points]
    edges = [each.edges for each in reduce(merged, by_head)[:count]]
    every = chain.from_iterable(point.pairs for point in points)
    counted = tally(partial(_scores, prepared, points[0]), every, edges, threads, counter.of("histograms"))
    measured = [(point, _complete(point, tallies)) for point, tallies in zip(points, by_head, strict=True)]
    return rows_of(prepared, measured), _histograms(prepared, edges, counted)


def _scores(prepared: Prepared[VarianceOptions], point: Point, pairs: Pairs) -> list[Tensor]:
    """Every scorer's scores of the valid pairs."""
    some = (pairs.rows(rows) for rows in sliced(pairs, prepared.at_a_time))
    scores = zip(*(scores_of(prepared, point, each) for each in some), strict=True)
    return [_only(torch.cat(each), pairs.valid) for each in scores]


def _only(scores: Tensor, valid: Tensor | None) -> Tensor:
    return scores if valid is None else scores[valid]


def _scores_and_differences(prepared: Prepared[VarianceOptions], point: Point, pairs: Pairs) -> list[Tensor]:
    """Every scorer's scores of the valid pairs, and then those less the mean of their row."""
    every = Pairs(pairs.queries, pairs.keys, None, ())
    scores = _scores(prepared, point, every)
    valid = None if pairs.valid is None else pairs.valid.cpu()
    differences = [_less_row_mean(each.cpu().double(), valid) for each in scores]
    return [*(_only(each, pairs.valid) for each in scores), *differences]


def _less_row_mean(scores: Tensor, valid: Tensor | None) -> Tensor:
    """Differences from the mean over the valid keys of scores (rows, m), at the valid pairs."""
    if valid is None:
        return scores - scores.mean(-1, keepdim=True)
    means = scores.where(valid, 0.0).sum(-1, keepdim=True) / valid.sum(-1, keepdim=True)
    return (scores - means)[valid]


def _sampled(prepared: Prepared[VarianceOptions], point: Point, tallies: Sequence[Tally]) -> list[Record]:
    """Figures of random pairs, one row per scorer, with intervals and beside the theory."""
    return [
        _figures(
            each.moments,
            theory_of(entry, scorer, prepared.entries, point.d),
            scorer,
            variance=each.moments.variance,
            mean_ci=list(each.moments.mean_interval()),
            variance_ci=list(each.moments.variance_interval()),
        )
        for entry, scorer, each in zip(prepared.options.scorers, point.scorers, tallies, strict=True)
    ]


def _complete(point: Point, tallies: Sequence[Tally]) -> list[Record]:
    """Figures of real pairs: all there are and no sample, so that there are neither intervals nor a theory.

    The second half of the tallies has the differences from the mean of each row.
    """
    scorers = point.scorers
    return [
        _figures(
            each.moments,
            Theory(),
            scorer,
            variance=each.moments.population_variance,
            row_variance=within.moments.population_variance,
        )
        for scorer, each, within in zip(scorers, tallies[: len(scorers)], tallies[len(scorers) :], strict=True)
    ]


def _figures(
    moments: Moments,
    theory: Theory,
    scorer: nn.Module,
    *,
    variance: float,
    mean_ci: list[float] | None = None,
    variance_ci: list[float] | None = None,
    row_variance: float | None = None,
) -> Record:
    """A row without its place. `unit_scale` is the factor that would give the scores variance 1."""
    exact, scale = theory.variance if theory.kind == "exact" else None, scale_of(scorer)
    return {
        "samples": moments.count,
        "mean": moments.mean,
        "mean_ci": mean_ci,
        "variance": variance,
        "variance_ci": variance_ci,
        "theory_mean": theory.mean,
        "theory_variance": theory.variance,
        "z": None if exact is None else moments.variance_score(exact),
        "z_mean": None if theory.mean is None else moments.mean_score(theory.mean),
        "theory": theory.kind,
        "row_variance": row_variance,
        "scale": scale,
        "unit_scale": scale / math.sqrt(variance) if variance > 0 else None,
    }


def _histograms(
    prepared: Prepared[VarianceOptions], edges: Sequence[Edges | None], tallies: Sequence[Tally]
) -> dict[str, Tensor]:
    """`histogram/<label>/edges` and `/counts`, of the scorers whose scores differ."""
    tensors: dict[str, Tensor] = {}
    for entry, bins, each in zip(prepared.options.scorers, edges, tallies, strict=True):
        if bins is not None and each.counts is not None:
            tensors[f"histogram/{entry.label}/edges"] = torch.from_numpy(bins)
            tensors[f"histogram/{entry.label}/counts"] = torch.from_numpy(each.counts).double()
    return tensors


def _warn_of_zeros(records: Sequence[Record], progress: Progress) -> None:
    """Say where scores are all alike that should not be: products that are too small to be told from 0."""
    for row in records:
        if row["variance"] == 0 and row["theory_variance"]:
            progress.note(f"warning: {row['label']}: scores too small for the dtype at d = {row['d']}; use float64")
            return
