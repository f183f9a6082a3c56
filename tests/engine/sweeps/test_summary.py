"""Means and intervals over seeds, against SciPy and slow loops; columns that identify rows, and metrics."""

from collections.abc import Callable
from itertools import chain, product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from attncli.engine.sweeps.columns import default_metric, identifying_columns, metric_columns, picture_axes
from attncli.engine.sweeps.summary import FIGURES, spread, summary
from attncli.results import Row, SweepResult

Over = list[dict[str, list[Any]]]
NOISE = {0: 0.0, 1: 0.3, 2: -0.6}


def swept(study: str, over: Over, records: list[Row], metric: str = "entropy") -> SweepResult:
    points = {"done": 1, "failed": 0, "died": 0, "missing": 0}
    return SweepResult(study, "x", records, axes=over, metric=metric, points=points)


def rows_over(over: Over, entropy: Callable[[Row], Any], *labels: str, **columns: Any) -> list[Row]:
    """Return a row for each point and label, whose entropy is a function of the swept values and the label."""
    keys = [key for axis in over for key in axis]
    rows = []
    for point in product(*(list(zip(*axis.values(), strict=True)) for axis in over)):
        for label in labels:
            row = dict(zip(keys, chain(*point), strict=True)) | dict.fromkeys(("scorer", "label"), label)
            rows.append({**row, "normalizer": "softmax", "entropy": entropy(row), **columns})
    return rows


def attention(over: Over, *names: str) -> list[Row]:
    """Return rows of two scorers; their entropy is a known function of the swept values."""
    labels = names or ("dot", "cosine")

    def entropy(row: Row) -> float:
        scale = next((value for key, value in row.items() if "scale" in key), 1.0)
        return float(labels.index(row["label"]) + scale + NOISE[row.get("seed", 0)])

    return rows_over(over, entropy, *labels, empty_rows=0)


@pytest.mark.parametrize(
    "numbers", [[0.5, 0.7, 0.9, -3.0], [2.0] * 5, *(list(range(n)) for n in (2, 3, 11, 101, 2002))]
)
def test_intervals_are_those_of_scipy(numbers: list[float]) -> None:
    n, mean, error = len(numbers), np.mean(numbers), stats.sem(numbers)
    low, high = stats.t.interval(0.95, n - 1, mean, error) if error else (mean, mean)
    expected = dict(zip(FIGURES, (mean, np.std(numbers, ddof=1), low, high, n), strict=True))
    assert spread(numbers) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("numbers", [[], [3.0]])
def test_one_value_and_none_have_no_spread(numbers: list[float]) -> None:
    mean = numbers[0] if numbers else None
    assert spread(numbers) == dict(zip(FIGURES, (mean, None, None, None, len(numbers)), strict=True))


def test_intervals_of_columns_with_ends_do_not_leave_them() -> None:
    """An interval that would leave the possible values is the range of the values."""
    over: Over = [{"seed": [0, 1, 2]}]
    rows = attention(over, "dot")
    for row, share in zip(rows, (0.6, 0.8, 1.0), strict=True):
        row |= dict.fromkeys(("entropy", "score_mean"), row["seed"] + 0.1)
        row |= {"max_weight": share, "score_std": 50 + share}
    found = {row["metric"]: (row["low"], row["high"]) for row in summary(swept("attention", over, rows))}
    assert found["entropy"] == (0.1, 2.1)
    assert found["max_weight"] == (0.6, 1.0)
    for metric, middle in (("score_mean", 1.1), ("score_std", 50.8)):
        numbers = [row[metric] for row in rows]
        assert found[metric] == pytest.approx(stats.t.interval(0.95, 2, middle, stats.sem(numbers))), "no ends"


def test_summary_by_slow_loops() -> None:
    over: Over = [{"seed": [0, 1, 2]}, {"scorers[0].scale": [0.5, 2.0], "d": ["a", "b"]}]
    rows = attention(over)
    found = {
        (row["scorers[0].scale"], row["d"], row["label"], row["metric"]): row
        for row in summary(swept("attention", over, rows))
    }
    assert len(found) == 2 * 2 * 2
    for (scale, d), label in product(((0.5, "a"), (2.0, "b")), ("dot", "cosine")):
        numbers = [row["entropy"] for row in rows if (row["scorers[0].scale"], row["label"]) == (scale, label)]
        row = found[scale, d, label, "entropy"]
        assert {key: row[key] for key in FIGURES} == spread(numbers)
        assert (row["count"], "seed" in row) == (3, False)


def test_names_that_clash_have_a_prefix() -> None:
    over: Over = [{"mean": [0, 1]}, {"seed": [0, 1]}]
    (row, *_) = summary(swept("attention", over, attention(over)))
    assert list(row)[:3] == ["mean", "scorer", "label"]
    assert row["record.mean"] == 0.65 + 0.5


def test_columns_of_a_study_of_sizes() -> None:
    """If points have rows of several d, d identifies a row like a swept key; columns that depend on d are no axes."""
    over: Over = [{"seed": [0, 1]}, {"lr": [0.1, 1.0]}, {"d": [8, 16]}]
    rows: list[Row] = []
    for seed, lr, d, model in product((0, 1), (0.1, 1.0), (8, 16), (0, 1)):
        own = {"scorer": "dot", "label": "dot", "normalizer": "softmax", "record.d": d, "record.seed": model, "keys": 4}
        rows.append({"seed": seed, "lr": lr, "d": d, **own, "accuracy": 0.9, "loss": lr})
    result = swept("train", over, rows, "accuracy")
    assert identifying_columns(result) == ["lr", "d", "scorer", "label", "normalizer", "record.d", "keys"]
    assert metric_columns(result) == ["accuracy", "loss"]
    assert picture_axes(result) == {"lr": [0.1, 1.0], "d": [8, 16]}
    assert default_metric(result) == "accuracy"
    assert [row["count"] for row in summary(result, ["loss"])] == [4] * 4
