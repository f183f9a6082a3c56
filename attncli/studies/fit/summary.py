"""The summary of the study `fit` for each label: medians over heads, and the main number of the whole model."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from attncli.numbers import finite
from attncli.results import Result, Row, by_label
from attncli.studies.fit.columns import BEFORE, FitFacts


def main_of(result: Result) -> str | None:
    """Return the key of the main column of the whole model; None if it was not run."""
    kind = FitFacts.of(result).kind
    return None if kind is None else "loss_change" if kind == "language" else "relative_l2"


def middle(rows: Sequence[Row], key: str) -> Any:
    """Return the median of a column over rows that have a number, None without any."""
    found = finite(row.get(key) for row in rows)
    return median(found) if found else None


def summary(result: Result) -> list[Row]:
    """Return a row for each label: medians over heads, the largest divergence, and the whole model's main column."""
    rows, main = list[Row](), main_of(result)
    for label, own in by_label(result.records).items():
        heads, whole = [row for row in own if row["by"] == "head"], [row for row in own if row["by"] == "all"]
        row: Row = {"label": label, "parameters": heads[0]["parameters"]}
        row |= {key: middle(heads, key) for key in ("kl" + BEFORE, "kl", "output_l2" + BEFORE, "output_l2")}
        row |= {"worst": max(finite(each["kl"] for each in heads), default=None)}
        row |= {"top1_agreement": middle(heads, "top1_agreement")}
        for key in (main + BEFORE, main) if main is not None and whole else ():
            row[key] = whole[0][key]
        rows.append(row)
    return rows
