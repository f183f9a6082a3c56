"""weights.csv: every weight as one row, for spreadsheets and data frames."""

import csv
import itertools
from collections.abc import Iterator
from pathlib import Path

from torch import Tensor

from attncli.studies.study import Result, stage_of, tokens_of

MOST_ROWS = 200_000  # more than that is left to tensors.safetensors


def save_weights_csv(path: Path, result: Result) -> None:
    """Write the file, unless it would be huge."""
    if not fits_csv(result):
        return
    axes = ["batch", "head"] if result.inputs["valid"].ndim == 4 else ["batch"]
    axes += [f"axis{index}" for index in range(len(axes), result.inputs["valid"].ndim - 2)]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["label", *axes, "query", "key", "query_token", "key_token", "valid", "score", "weight"])
        for label in stage_of(result, "weights"):
            writer.writerows(_rows(label, result))


def fits_csv(result: Result) -> bool:
    """Whether weights.csv is written for this result."""
    weights = stage_of(result, "weights").values()
    return bool(weights) and sum(each.numel() for each in weights) <= MOST_ROWS


def _rows(label: str, result: Result) -> Iterator[list[object]]:
    valid, tokens = result.inputs["valid"], tokens_of(result)
    cells = itertools.product(*(range(size) for size in valid.shape))
    numbers = (_digits(result.tensors[f"{label}/scores"]), _digits(result.tensors[f"{label}/weights"]))
    for place, score, weight, allowed in zip(cells, *numbers, valid.flatten().tolist(), strict=True):
        *leading, query, key = place
        query_token = tokens.queries[leading[0]][query] if tokens.queries else ""
        key_token = tokens.keys[leading[0]][key] if tokens.keys else ""
        yield [label, *leading, query, key, query_token, key_token, int(allowed), score, weight]


def _digits(matrix: Tensor) -> Iterator[str]:
    """All digits that the dtype has, and no more."""
    precision = 17 if matrix.element_size() == 8 else 9
    return (f"{number:.{precision}g}" for number in matrix.flatten().tolist())
