"""Whether what an earlier run has of a configuration is all that this one would find."""

import math
from collections.abc import Iterator
from typing import Any

from attncli.config.scorer_entries import ScorerEntry
from attncli.errors import show
from attncli.runs.train_files import Kept
from attncli.studies.study import Record
from attncli.studies.train.learning import points_of
from attncli.studies.train.records import COLUMNS, SUMMARISED

CURVES = ("accuracy", "loss", "entropy", "gradient_norm")
COUNTS = ("seed", "keys", "parameters")
LARGEST = 2**53  # an integer that is still a number of a float


def flaw_of(kept: Kept, entry: ScorerEntry, d: int, options: Any) -> str | None:
    """Why a configuration is to be trained again, in a few words; None where it is whole."""
    return next(_flaws(kept, entry, d, options), None)


def _flaws(kept: Kept, entry: ScorerEntry, d: int, options: Any) -> Iterator[str]:
    for row in kept.records:
        yield from _flaws_of_row(row, entry)
    wanted = [(keys, seed) for keys in options.tested for seed in range(options.seeds)]
    if [(row["keys"], row["seed"]) for row in kept.records] != wanted:
        yield "its rows are not those of the seeds and keys in config.yaml"
    shape = (options.seeds, len(points_of(options.steps)))
    for name in CURVES:
        curve = kept.curves.get(f"{entry.label}/{d}/{name}")
        if curve is None:
            yield f"its curve of {name} is missing"
        elif tuple(curve.shape) != shape:
            yield f"its curve of {name} has shape {list(curve.shape)}; expected {list(shape)}"
        elif not curve.is_floating_point():
            yield f"its curve of {name} has {str(curve.dtype).removeprefix('torch.')} numbers"


def _flaws_of_row(row: Record, entry: ScorerEntry) -> Iterator[str]:
    """Rows of other columns come first: the rest looks at those it knows."""
    strange = sorted(set(row) ^ set(COLUMNS))
    if strange:
        yield f"a row has {'an unknown column' if strange[0] in row else 'no'} {strange[0]}"
    if row["scorer"] != entry.scorer:
        yield f"a row is of the scorer {show(row['scorer'])}"
    for name in COUNTS:
        if not _is_count(row[name]):
            yield f"a row has {name} {show(row[name])}"
    if row["steps_to_90"] is not None and not _is_count(row["steps_to_90"]):
        yield f"a row has steps_to_90 {show(row['steps_to_90'])}"
    for name in SUMMARISED:
        if row[name] is not None and not _is_number(row[name]):  # NaN is written as null
            yield f"a row has {name} {show(row[name])}"
    if row["accuracy"] is not None and not 0 <= row["accuracy"] <= 1:
        yield f"a row has accuracy {show(row['accuracy'])}"


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LARGEST


def _is_number(value: Any) -> bool:
    return _is_count(value) or (isinstance(value, float) and math.isfinite(value))
