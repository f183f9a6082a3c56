"""From the scores of pairs to the result: rows in their order, and the points of the picture as tensors."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from attncli.attention import softcap
from attncli.errors import below
from attncli.inputs.seeding import seeded
from attncli.scorers import SCORERS
from attncli.studies.pairs.options import PairsOptions
from attncli.studies.pairs.parts import Pairs
from attncli.studies.pairs.prepare import OwnOptions, Point, Prepared
from attncli.studies.progress import Progress
from attncli.studies.scoring import formulas_of, raw_scores
from attncli.studies.study import LABEL, SCORER, Column, Finding, Record, Result, Rows, by_label
from attncli.studies.threads import single_threaded

PLACE = (
    SCORER,
    LABEL,
    Column("head", "head", "Head of real tensors that have some, counted from 0."),
    Column("d", "d", "Size of a key, and of a query if the scorer needs equal sizes."),
)
WORDS = ("scorer", "label", "theory")  # columns that are no numbers


@contextmanager
def at_work(prepared: Prepared[PairsOptions]) -> Iterator[int]:
    """How many threads to use, each of which has torch for itself.

    Scorers of the user's own may draw random numbers or keep something from call to call: they get one thread, and
    numbers that depend on the seed.
    """
    options = prepared.options
    own = any(entry.scorer not in SCORERS for entry in options.scorers)
    with single_threaded() as threads, seeded(options.seed, f"{options.study}.forward", prepared.device):
        yield 1 if own else threads


def scores_of(prepared: Prepared[PairsOptions], point: Point, pairs: Pairs) -> list[Tensor]:
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


def result_of(
    prepared: Prepared[OwnOptions],
    figures: Sequence[Sequence[Record]],
    watched: str,
    findings_of: Callable[[Sequence[Record]], Sequence[Finding]],
    tensors: Mapping[str, Tensor],
    progress: Progress,
) -> Result:
    """The result from the figures of every point and scorer: `progress` is told where the `watched` one is no number.

    Rows of sizes that were asked for are its records; those of all points are its curve.
    """
    options, point, real = prepared.options, prepared.points[-1], prepared.real
    scorers = {entry.label: scorer for entry, scorer in zip(options.scorers, point.scorers, strict=True)}
    curve = _rows(prepared, figures)
    records = _asked(prepared, curve)
    _warn_of_numbers(records, watched, progress)
    drawn = dict(vars(prepared.entries)) if real is None else {"from": options.source}
    return Result(
        study=options.study,
        name=options.name,
        settings={**drawn, "formulas": formulas_of(options.scorers)},
        records=records,
        findings=findings_of(records),
        inputs={} if real is None else real.saved(),
        tensors={**_curve_tensors(curve), **tensors},
        parameters={
            f"{entry.label}/{name}": tensor.cpu()
            for entry in options.scorers
            if entry.parameters
            for name, tensor in scorers[entry.label].state_dict().items()
        },
    )


def expected_rows_of(prepared: Prepared[PairsOptions], columns: Sequence[Column]) -> Rows:
    """One row per scorer and size that was asked for; of real tensors one per scorer and head."""
    return Rows(columns, _asked(prepared, _rows(prepared, [[{}] * len(point.scorers) for point in prepared.points])))


def _rows(prepared: Prepared[PairsOptions], figures: Sequence[Sequence[Record]]) -> list[Record]:
    """The figures below their place: the scorers of one size together, but the heads of one scorer."""
    scorers = prepared.options.scorers
    rows = [
        {"scorer": entry.scorer, "label": entry.label, "head": point.head, "d": point.d, **row}
        for point, found in zip(prepared.points, figures, strict=True)
        for entry, row in zip(scorers, found, strict=True)
    ]
    labels = [entry.label for entry in scorers]
    return rows if prepared.real is None else sorted(rows, key=lambda row: labels.index(row["label"]))


def _asked(prepared: Prepared[PairsOptions], curve: Sequence[Record]) -> list[Record]:
    sizes = {point.d for point in prepared.points if point.asked}
    return [row for row in curve if row["d"] in sizes]


def _warn_of_numbers(records: Sequence[Record], column: str, progress: Progress) -> None:
    """Say of which scorers a figure is NaN or infinite, and where first."""
    for label, rows in by_label(records).items():
        for row in [each for each in rows if not math.isfinite(each[column] or 0.0)][:1]:
            head = "" if row["head"] is None else f", head {row['head']}"
            what = f"NaN or infinite scores at d = {row['d']}{head}"
            progress.note(f"warning: {label}: {what}; float64 has a larger range")


def _curve_tensors(curve: Sequence[Record]) -> dict[str, Tensor]:
    """`curve/<label>/<column>`: NaN for what is missing; an interval becomes two columns, low and high."""
    columns: dict[str, list[float | None]] = {}
    for row in curve:
        numbers = {name: value for name, value in row.items() if name not in WORDS}
        for name in [name for name in numbers if name.endswith("_ci")]:
            numbers[f"{name}_low"], numbers[f"{name}_high"] = numbers.pop(name) or (None, None)
        if row["head"] is None:
            del numbers["head"]
        for name, number in numbers.items():
            columns.setdefault(f"curve/{row['label']}/{name}", []).append(number)
    found = {name: [math.nan if each is None else each for each in column] for name, column in columns.items()}
    return {name: torch.tensor(column, dtype=torch.float64) for name, column in found.items()}
