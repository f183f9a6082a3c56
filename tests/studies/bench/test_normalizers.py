"""Normalisers and ALiBi in `bench`: which implementations have rows, and wrong results are detected."""

from typing import Any

import pytest

from attncli.attention import Bias
from attncli.normalizers import NORMALIZERS
from tests.studies.bench.small import hurry, result_of

ENTRIES = [
    *({"scorer": "scaled_dot", "normalizer": name} for name in NORMALIZERS if name not in ("softmax", "sum")),
    *({"scorer": "kernel", "phi": phi, "normalizer": "sum", "label": phi} for phi in ("elu_plus_one", "relu", "exp")),
    {"scorer": "kernel", "label": "kernel"},
    {"scorer": "scaled_dot", "bias": "alibi", "label": "alibi"},
    {"scorer": "dot", "bias": "alibi", "normalizer": "sigmoid", "label": "both"},
]
SMALL: dict[str, Any] = {"n": [4], "m": [6], "d": [5], "batch": [2], "heads": [3], "backward": True}


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


def test_rows() -> None:
    """Textbook code, the fused kernel and linear attention have rows if they compute the same."""
    result = result_of(scorers=ENTRIES, measure=["scores", "weights", "output"], **SMALL)
    assert {row["status"] for row in result.records} == {"timed"}
    found: dict[str, set[tuple[str, str]]] = {}
    for row in result.records:
        found.setdefault(row["label"], set()).add((row["implementation"], row["measure"]))
    own = {("attncli", measure) for measure in ("scores", "weights", "output")}
    assert found["scaled_dot_relu"] == own | {("textbook", "scores")}
    assert found["alibi"] == own | {("textbook", "scores"), ("fused", "output")}
    assert found["both"] == found["kernel"] == own
    assert found["relu"] == own | {("linear", "output")}
    assert {row["label"]: row["normalizer"] for row in result.records}["both"] == "sigmoid"
    assert {finding.numbers["measure"] for finding in result.findings} == {"output"}
    (row,) = result_of(scorers=[ENTRIES[-4]], implementations="linear", measure="output", n=[600], d=[5]).records
    assert row["peak_bytes"] < 600 * 600 * 4 / 8, "there is no matrix"


def test_a_bias_that_is_left_out_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bias, "added_to", lambda self, scores, *place: scores)
    result = result_of(scorers=ENTRIES[-2:], measure=["weights", "output"], implementations="attncli", **SMALL)
    assert {row["status"] for row in result.records} == {"disagrees"}
