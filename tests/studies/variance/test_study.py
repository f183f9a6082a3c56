"""Records of the variance study against slow scores, the theory, and standard errors."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attncli.runtime import Progress
from attncli.scorers import SCORERS
from attncli.studies.variance.columns import COLUMNS
from attncli.studies.variance.study import run
from tests.combinations import others_slow
from tests.margins import sampled
from tests.reference import ORACLES
from tests.studies.pairs.samples import DISTRIBUTIONS, Array, by_place, prepared, swept

SEEDS = 200
SCALES: dict[str, float] = {"scaled_dot": 1 / math.sqrt(5), "gaussian": 0.5}


def slow_scores(ready: Any, index: int) -> list[Array]:
    """Return every scorer's scores of the same pairs, by the oracles."""
    point = ready.points[index]
    pairs = [point.pairs.of_job(job) for job in point.pairs.jobs]
    queries, keys = torch.cat([each.queries for each in pairs]), torch.cat([each.keys for each in pairs])
    found = []
    for entry, scorer in zip(ready.options.scorers, point.scorers, strict=True):
        oracle = ORACLES[entry.scorer]
        scores: list[Tensor] = [oracle(scorer, q, k) for q, k in zip(queries, keys, strict=True)]
        found.append(torch.stack(scores).flatten().numpy())
    return found


@pytest.mark.catalogue("scorers")
def test_records_are_those_of_the_scores() -> None:
    entries = [{"scorer": name} for name in SCORERS]
    ready = prepared("variance", d=[2, 5], samples=300, scorers=entries, mean=0.5, rho=0.3, dtype="float64")
    result = run(ready, Progress())
    rows = by_place(result)
    for index, d in enumerate((2, 5)):
        for name, scores in zip(SCORERS, slow_scores(ready, index), strict=True):
            row = rows[name, d, None]
            assert list(row) == [column.key for column in ready.columns(COLUMNS)]
            assert (row["scorer"], row["samples"]) == (name, 300)
            assert row["mean"] == pytest.approx(scores.mean(), rel=1e-6, abs=1e-9)  # W is float32
            assert row["variance"] == pytest.approx(scores.var(ddof=1), rel=1e-6)
            if d == 5:
                assert row["scale"] == pytest.approx(SCALES.get(name, 1.0))
                assert row["unit_scale"] == pytest.approx(row["scale"] / scores.std(ddof=1), rel=1e-6)
            edges, counts = (result.tensors[f"histogram/{name}/{d}/{part}"].numpy() for part in ("edges", "counts"))
            ends = scores.mean() + 5 * scores.std() * np.array([-1.0, 1.0])
            assert edges[[0, -1]] == pytest.approx(ends, rel=1e-5, abs=1e-8), "of the first scores: here of all"
            assert np.abs(counts - np.histogram(scores, edges)[0]).sum() <= 2  # of scores on an edge


def test_a_softcap_bounds_the_scores_and_leaves_no_theory() -> None:
    ready = prepared("variance", d=[2, 5], samples=300, scorers=[{"scorer": "dot", "softcap": 2.0}], dtype="float64")
    result = run(ready, Progress())
    row = result.records[1]
    assert row["unit_scale"] is None, "a factor before the softcap does not scale the variance"
    assert "would give variance 1" not in result.findings[0].text
    scores = 2.0 * np.tanh(slow_scores(ready, 1)[0] / 2.0)
    assert row["variance"] == pytest.approx(scores.var(ddof=1))
    assert [row[key] for key in ("theory_mean", "theory_variance", "z", "z_mean", "theory")] == [None] * 5


def test_a_single_size_brings_the_powers_of_two_below_it_with_no_more_samples_than_the_picture_needs() -> None:
    result = swept("variance", d=4, samples=500_000, scorers=[{"scorer": "dot"}])
    assert result.tensors["curve/dot/d"].tolist() == [1, 2, 4]
    assert result.tensors["curve/dot/samples"].tolist() == [320_000, 200_000, 500_000]
    few = swept("variance", d=12, samples=10, scorers=[{"scorer": "dot"}])
    assert few.tensors["curve/dot/d"].tolist() == [1, 2, 4, 8, 12]
    assert few.tensors["curve/dot/samples"].tolist() == [10] * 5
    drawn = {int(name.split("/")[2]) for name in few.tensors if name.startswith("histogram/")}
    assert drawn == {1, 4, 12}, "of more than four sizes those next to a quarter and a sixteenth of the largest"
    assert [row["d"] for row in few.records] == [12]
    assert few.records[0]["unit_scale"] == pytest.approx(few.records[0]["variance"] ** -0.5)
    assert "would give variance 1" in few.findings[0].text
    assert [row["d"] for row in swept("variance", d=[12, 3], samples=10).records[::3]] == [12, 3]


@pytest.mark.parametrize(
    "keys",
    [
        {"d": [1, 64]},
        {"d": [1, 64], "distribution": "rademacher", "mean": 0.5},
        {"d": [4, 16], "distribution": "student_t", "df": 20.0},
        {"d": [1, 64], "rho": 1.0},
        {"d": [1, 64], "distribution": "uniform", "rho": 0.5, "mean": 1.0},
    ],
)
def test_as_many_pairs_as_it_takes(keys: dict[str, Any]) -> None:
    """By default the standard error of the variance is about 0.5 %, and never much larger."""
    rows = swept("variance", scorers=[{"scorer": "dot"}], **keys).records
    for row in rows:
        low, high = row["variance_ci"]
        error = math.log(high / low) / 2 / 1.959964
        assert error < sampled(0.0056, 0.005)
        assert row["samples"] % 1000 == 0
        if keys.get("distribution", "normal") == "normal":
            assert error == pytest.approx(0.005, rel=0.1)


@pytest.mark.parametrize("mean", others_slow([0.5, 0.0]))
@pytest.mark.parametrize("distribution", others_slow(DISTRIBUTIONS))
def test_coverage(distribution: str, mean: float) -> None:
    """The 95 % intervals contain the theory in 95 of 100 cases for entries of any kind; each seed has one size."""
    keys = {"distribution": distribution, "mean": mean, "samples": 1000, "d": [16, 17], "scorers": [{"scorer": "dot"}]}
    df = {"df": 8.0} if distribution == "student_t" else {}
    found = [swept("variance", seed=seed, **keys, **df).records[0] for seed in range(SEEDS)]
    for figure in ("mean", "variance"):
        ends = [(*record[f"{figure}_ci"], record[f"theory_{figure}"]) for record in found]
        share = sum(low <= theory <= high for low, high, theory in ends) / SEEDS
        assert 0.92 <= share <= 0.98, figure
        beyond = sum(abs(record["z" if figure == "variance" else "z_mean"]) > 1.959964 for record in found) / SEEDS
        assert beyond == pytest.approx(1 - share), "z says the same as the interval"
