"""How far the softmax saturates as d grows: entropy, largest weight, its Jacobian, and the gradient of the query."""

from attncli.errors import InputError
from attncli.runs.records import SweepResult
from attncli.scorers import SCORERS  # noqa: F401 - part of what `load_study` gives
from attncli.studies.pairs.rows import expected_rows  # noqa: F401 - part of what `load_study` gives
from attncli.studies.pairs.setup import prepare_sweep
from attncli.studies.pairs.sweep import Prepared, at_work, sweep_result, warn_of_numbers
from attncli.studies.progress import Progress
from attncli.studies.saturation.measured import measure_random, measure_real
from attncli.studies.saturation.options import SaturationOptions


def prepare(options: SaturationOptions, progress: Progress) -> Prepared:
    """Scorers for every d; everything that can be refused is refused here.

    Raises:
        InputError: see `prepare_sweep`; also real tensors without a query that has a choice.
    """
    prepared = prepare_sweep(options, options.keys)
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
    work = measure_random if prepared.real is None else measure_real
    with at_work(prepared) as threads:
        curve = work(prepared, threads, progress)
    result = sweep_result(prepared, curve)
    warn_of_numbers(result.records, "entropy", progress)
    return result
