"""Mean and variance of scores against d, measured on random queries and keys or on real ones, beside the theory."""

import math
from functools import partial
from itertools import islice

import torch
from torch import Tensor

from attncli.errors import InputError
from attncli.inputs.entries import Entries
from attncli.runs.records import Histogram, SweepResult
from attncli.scorers import SCORERS  # noqa: F401 - part of what `load_study` gives
from attncli.studies.pairs.rows import expected_rows  # noqa: F401 - part of what `load_study` gives
from attncli.studies.pairs.setup import prepare_sweep
from attncli.studies.pairs.sweep import (
    Part,
    Parts,
    Point,
    Prepared,
    at_work,
    draw,
    scores_of,
    slices,
    sweep_result,
    warn_of_numbers,
    warn_of_zeros,
)
from attncli.studies.progress import Counter, Progress
from attncli.studies.study import Record
from attncli.studies.variance.options import VarianceOptions
from attncli.studies.variance.real import measure_real
from attncli.studies.variance.records import histograms_of, random_records
from attncli.studies.variance.tally import Edges, Tally, edges_around, tally

Measured = tuple[list[Record], dict[str, Histogram]]
RELATIVE_ERROR = 0.005  # of a variance, which the default number of samples is chosen for
MOST_SAMPLES = 10_000_000  # by default


def prepare(options: VarianceOptions, progress: Progress) -> Prepared:
    """Scorers for every d; everything that can be refused is refused here.

    Raises:
        InputError: see `prepare_sweep`; also real tensors without a valid pair.
    """
    prepared = prepare_sweep(options, 1)
    if prepared.real is not None and prepared.real.most_keys() == 0:
        raise InputError.of(f'got "{options.source}", where no query has a valid key; expected one at least', ["from"])
    return prepared


def run(prepared: Prepared, progress: Progress) -> SweepResult:
    """Draw pairs for every d, or take the real ones, and measure the scores of all scorers.

    Memory does not grow with the number of samples; numbers do not depend on the number of threads.

    Raises:
        InputError: a scorer of the user's own that fails.
    """
    work = _random if prepared.real is None else measure_real
    with at_work(prepared) as threads:
        curve, histograms = work(prepared, threads, progress)
    result = sweep_result(prepared, curve, histograms)
    warn_of_numbers(result.records, "variance", progress)
    warn_of_zeros(result.records, progress)
    return result


def default_samples(entries: Entries, d: int) -> int:
    """Pairs for a relative standard error of about RELATIVE_ERROR of a dot product's variance.

    That error is sqrt((kurtosis - 1) / samples), and the kurtosis of a sum of d products 3 + (theirs - 3) / d. Theirs
    is the entries' squared for independent ones, and 15 for u^2 of normal u; correlated entries of other distributions
    may need more.
    """
    product = entries.kurtosis**2 if not entries.rho else max(entries.kurtosis**2, 15.0)
    wanted = (2.0 + max(product - 3.0, 0.0) / d) / RELATIVE_ERROR**2
    return min(math.ceil(wanted / 1000.0) * 1000, MOST_SAMPLES)


def _random(prepared: Prepared, threads: int, progress: Progress) -> Measured:
    """Independent pairs for every d; at the largest a first part says where the bins of the histogram lie."""
    samples = [_samples(prepared, point) for point in prepared.points]
    jobs = [Parts(count, point.d) for count, point in zip(samples, prepared.points, strict=True)]
    largest = max(point.d for point in prepared.points)
    curve, last, counter = [], list[Tally](), Counter(sum(map(len, jobs)), progress)
    for point, todo in zip(prepared.points, jobs, strict=True):
        work = partial(_random_scores, prepared, point)
        edges: list[Edges | None] = [None] * len(point.scorers)
        if point.d == largest:
            edges = edges_around(tally(work, islice(todo, 1), edges, 1, lambda: None))
        tallies = tally(work, todo, edges, threads, counter.of(f"d = {point.d}"))
        last = tallies if point.d == largest else last
        curve += random_records(prepared, point, tallies)
    return curve, histograms_of(prepared, last, largest)


def _samples(prepared: Prepared, point: Point) -> int:
    """As many as the options say; of points that only stand in the picture not more than it needs."""
    enough, wanted = default_samples(prepared.entries, point.d), prepared.options.samples
    return wanted or enough if point.asked else min(wanted or enough, enough)


def _random_scores(prepared: Prepared, point: Point, part: Part) -> list[Tensor]:
    queries, keys = draw(prepared, point, part, keys=1)
    scores = [scores_of(prepared, point, queries[some], keys[some]) for some in slices(prepared, part.rows, keys=1)]
    return [torch.cat(each) for each in zip(*scores, strict=True)]
