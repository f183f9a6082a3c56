"""Findings say no more than the numbers prove: inputs for which a usual sentence would be false or mislead."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attncli
from tests.margins import sampled

Array = np.ndarray[Any, Any]
PAIRS: dict[str, dict[str, Any]] = {
    "variance": {"d": [4, 64], "samples": 1000},
    "saturation": {"d": [4, 64, 256], "keys": 8, "rows": 100},
}


def texts(study: str, scorers: list[Any], **keys: Any) -> list[str]:
    """Return the findings of an experiment."""
    result = attncli.run({"study": study, **PAIRS.get(study, {}), "scorers": scorers, **keys})
    return [finding.text for finding in result.findings]


def of_file(folder: Path, study: str, queries: Array, keys: Array) -> str:
    """Return the finding about dot for queries and keys (1, heads, n, d) in a file."""
    np.savez(folder / "pairs.npz", queries=queries, keys=keys)
    result = attncli.run({"study": study, "from": str(folder / "pairs.npz"), "scorers": ["dot"]})
    return result.findings[0].text


def normal(*shape: int) -> Array:
    return np.random.default_rng(3).normal(size=shape)


def test_equal_heads_have_no_range(tmp_path: Path) -> None:
    q, k = (np.repeat(normal(1, 1, n, 8), 2, axis=1) for n in (5, 6))
    assert " (head 0 to head 1)" in of_file(tmp_path, "variance", q, k)
    assert of_file(tmp_path, "saturation", q, k).count(" (head 0 to head 1)") == 2


def test_the_only_head_with_numbers_is_named(tmp_path: Path) -> None:
    q, k = normal(1, 2, 5, 8), normal(1, 2, 6, 8)
    k[0, 0, 0, 0] = np.nan
    for study in PAIRS:
        with pytest.warns(UserWarning, match="NaN or infinite scores at d = 8, head 0"):
            assert " at d = 8 (head 1)" in of_file(tmp_path, study, q, k)


def test_equal_keys_have_no_variance_within_rows(tmp_path: Path) -> None:
    text = of_file(tmp_path, "variance", normal(1, 2, 5, 8), np.ones((1, 2, 6, 8)))
    assert ", 0 % of it within rows (the rest does not change the softmax)" in text


def test_the_moments_of_products_do_not_explain_normalised_queries_and_keys() -> None:
    assert texts("variance", ["dot"])[-1].startswith("Why: each product q_i k_i")
    assert not any(text.startswith("Why") for text in texts("variance", [{"scorer": "dot", "qk_norm": "rms"}]))
    assert "q . k has mean -d and" in texts("variance", ["dot"], rho=-1)[-1]


def test_the_mean_drifts_where_products_have_one() -> None:
    """With means of 0.5 the mean of q . k / sqrt(d) is 0.25 sqrt(d): 2, 4 and 8 at d = 64, 256 and 1024."""
    scorers = ["scaled_dot", {"scorer": "scaled_dot", "scale": "1/d", "label": "over_d"}]
    options = {"d": [64, 256, 1024], "samples": 4000}
    drifting, constant, why = texts("variance", scorers, mean=0.5, **options)
    means = re.search(r"; its mean drifts from (.+) \(d = 64\) to (.+) \(d = 1024\), theory 2 to 8", drifting)
    assert means
    error = math.sqrt(1.5 / 4000)
    for mean, theory in zip(means.groups(), (2, 8), strict=True):
        assert abs(float(mean) - theory) < sampled(5 * error, error)
    assert "; its mean keeps to 0.25" in constant
    assert why.endswith("So 1/sqrt(d) fits the variance and 1/d the mean: no scale fits both.")
    assert not any("mean" in text for text in texts("variance", scorers, **options)[:-1])
    drifting, constant, why = texts("variance", scorers, rho=0.5, **options)
    assert drifting.endswith(", theory 4 to 16.")
    assert "; its mean keeps to 0.5" in constant
    assert why.endswith("no scale fits both.")


def test_a_norm_above_that_of_uniform_weights_is_not_explained_by_saturation() -> None:
    """The Jacobian of sigmoid weights s is diagonal, s (1 - s), so it is small for weights near 0, too."""
    assert len(texts("saturation", [{"scorer": "dot", "normalizer": "sigmoid"}], d=[16], keys=32)) == 1
    assert "uniform weights over 8 keys have" in texts("saturation", ["dot"])[-1]
    few_rows = texts("saturation", ["dot"], rows=2)[0]
    assert "median norm of the softmax Jacobian lies between" in few_rows, "which prove no trend"


@pytest.mark.parametrize("study", ["attention", "saturation"])
def test_weights_that_ignore_scores_do_not_depend_on_random_parameters(study: str) -> None:
    data = {} if study == "saturation" else {"data": {"queries": {"shape": [1, 3, 4]}, "keys": {"shape": [1, 6, 4]}}}
    scorers = [{"scorer": "general", "normalizer": "uniform"}, "general"]
    result = attncli.run({"study": study, **PAIRS.get(study, {}), "scorers": scorers, **data})
    found = " ".join(finding.text for finding in result.findings)
    assert "general (random parameters)" in found
    assert "general_uniform (random parameters)" not in found
    assert result.random == ["general"]


@pytest.mark.filterwarnings("ignore:keys.*NaN")
def test_why_heads_are_checked_for_faults_only() -> None:
    q, k = normal(1, 3, 12, 8), normal(1, 3, 12, 8)
    k[0, 1, 3, 2] = np.nan
    with pytest.warns(UserWarning, match=r"keys\[0, 1, 3\]: NaN"):
        last = texts("doctor", ["dot"], data={"queries": q.tolist(), "keys": k.tolist()})[-1]
    assert last.startswith("Only faults were checked of some heads: other checks need 6 queries with finite weights")


def test_the_softmax_is_not_blamed_for_another_normalizer() -> None:
    peaked = {"scorer": "scaled_dot", "scale": 100.0, "normalizer": "sparsemax"}
    q = normal(1, 1, 12, 8).tolist()
    assert any("A softmax then passes" in text for text in texts("doctor", [peaked], data={"queries": q, "keys": q}))
