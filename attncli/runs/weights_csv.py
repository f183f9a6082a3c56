"""weights.csv: every weight as one row, for spreadsheets and data frames."""

import csv
import itertools
from collections.abc import Iterator
from pathlib import Path

from torch import Tensor

from attncli.runs.records import AttentionResult, ScorerRun

MOST_ROWS = 200_000  # more than that is left to tensors.safetensors


def save_weights_csv(path: Path, result: AttentionResult) -> None:
    """Write the file, unless it would be huge."""
    if not fits_csv(result):
        return
    axes = ["batch", "head"] if result.inputs["valid"].ndim == 4 else ["batch"]
    axes += [f"axis{index}" for index in range(len(axes), result.inputs["valid"].ndim - 2)]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["label", *axes, "query", "key", "query_token", "key_token", "valid", "score", "weight"])
        for run in result.runs:
            writer.writerows(_rows(run, result))


def fits_csv(result: AttentionResult) -> bool:
    """Whether weights.csv is written for this result."""
    weights = [run.stages["weights"] for run in result.runs if "weights" in run.stages]
    return bool(weights) and sum(each.numel() for each in weights) <= MOST_ROWS


def _rows(run: ScorerRun, result: AttentionResult) -> Iterator[list[object]]:
    valid, tokens = result.inputs["valid"], result.tokens
    cells = itertools.product(*(range(size) for size in valid.shape))
    numbers = (_digits(run.stages["scores"]), _digits(run.stages["weights"]))
    for place, score, weight, allowed in zip(cells, *numbers, valid.flatten().tolist(), strict=True):
        *leading, query, key = place
        query_token = tokens.queries[leading[0]][query] if tokens.queries else ""
        key_token = tokens.keys[leading[0]][key] if tokens.keys else ""
        yield [run.label, *leading, query, key, query_token, key_token, int(allowed), score, weight]


def _digits(matrix: Tensor) -> Iterator[str]:
    """All digits that the dtype has, and no more."""
    precision = 17 if matrix.element_size() == 8 else 9
    return (f"{number:.{precision}g}" for number in matrix.flatten().tolist())
