"""Scores of pairs by all scorers, a few pairs at a time, with numbers that do not depend on the threads."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor

from attncli.attention import softcap
from attncli.errors import below
from attncli.inputs.seeding import seeded
from attncli.scorers import SCORERS
from attncli.studies.pairs.options import Sweep
from attncli.studies.pairs.parts import Pairs
from attncli.studies.pairs.prepare import Point, Prepared
from attncli.studies.progress import Progress
from attncli.studies.scoring import raw_scores
from attncli.studies.study import Record
from attncli.studies.threads import single_threaded


def sliced(pairs: Pairs, at_a_time: int) -> Iterator[slice]:
    """The rows of a part, a few at a time where scorers need much memory for each pair."""
    rows, keys = pairs.shape
    step = max(at_a_time // keys, 1)
    return (slice(start, start + step) for start in range(0, rows, step))


def scores_of(prepared: Prepared[Sweep], point: Point, pairs: Pairs) -> list[Tensor]:
    """Every scorer's scores (rows, m), bounded where its entry has a softcap.

    Raises:
        InputError: a scorer of the user's own that fails, with its place in the config.
    """
    scores = []
    for index, (entry, scorer) in enumerate(zip(prepared.options.scorers, point.scorers, strict=True)):
        with below("scorers", index):
            raw = raw_scores(scorer, pairs.queries, pairs.keys)
        scores.append((raw if entry.softcap is None else softcap(raw, entry.softcap)).reshape(pairs.shape))
    return scores


@contextmanager
def at_work(prepared: Prepared[Sweep]) -> Iterator[int]:
    """How many threads to use, each of which has torch for itself.

    Scorers of the user's own may draw random numbers or keep something from call to call: they get one thread, and
    numbers that depend on the seed.
    """
    options = prepared.options
    own = any(entry.scorer not in SCORERS for entry in options.scorers)
    with single_threaded() as threads, seeded(options.seed, f"{options.study}.forward", prepared.device):
        yield 1 if own else threads


def warn_of_numbers(records: Sequence[Record], column: str, progress: Progress) -> None:
    """Say of which scorers a figure is NaN or infinite, and where first."""
    first: dict[str, Record] = {}
    for row in records:
        if row[column] is not None and not math.isfinite(row[column]):
            first.setdefault(row["label"], row)
    for label, row in first.items():
        head = "" if row["head"] is None else f", head {row['head']}"
        progress.note(f"warning: {label}: NaN or infinite scores at d = {row['d']}{head}; float64 has a larger range")
