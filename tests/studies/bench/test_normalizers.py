"""Normalisers and ALiBi in `bench`: timed code agrees with slow oracles, and wrong results are detected."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from attncli.attention import Bias, alibi_slopes
from attncli.normalizers import NORMALIZERS
from attncli.scorers import SCORERS
from attncli.studies.bench.implementations import BenchTask, make_call
from tests.reference import matrix, weighted_sum, weights_of
from tests.scorers.catalogue import normal
from tests.studies.bench.small import hurry, result_of

BATCH, HEADS, N, M, D = 2, 3, 4, 6, 5
ENTRIES = [
    *({"scorer": "scaled_dot", "normalizer": name} for name in NORMALIZERS if name not in ("softmax", "sum")),
    {"scorer": "kernel", "normalizer": "sum", "label": "linear"},
    {"scorer": "kernel", "label": "kernel"},
    {"scorer": "scaled_dot", "bias": "alibi", "label": "alibi"},
    {"scorer": "dot", "bias": "alibi", "normalizer": "sigmoid", "label": "both"},
]
SMALL: dict[str, Any] = {"n": [N], "m": [M], "d": [D], "batch": [BATCH], "heads": [HEADS], "device": "cpu"}


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


def oracle(queries: Tensor, keys: Tensor, values: Tensor, normalizer: str, alibi: bool) -> tuple[Tensor, Tensor]:
    """Return output (b, n, v) and weights (b, n, m) of scaled dot products, matrix by matrix, in float64."""
    outputs, weights = [], []
    for place, (q, k, v) in enumerate(zip(queries.double(), keys.double(), values.double(), strict=True)):
        slope = alibi_slopes(HEADS)[place % HEADS] if alibi else 0.0
        bias = matrix([[-slope * abs(i - j) for j in range(M)] for i in range(N)])
        weights.append(weights_of(normalizer, q @ k.mT / D**0.5 + bias))
        outputs.append(weighted_sum(weights[-1], v))
    return torch.stack(outputs), torch.stack(weights)


@pytest.mark.parametrize("alibi", [False, True])
@pytest.mark.parametrize("name", sorted(NORMALIZERS.keys() - {"sum"}))
def test_calls_give_what_oracles_give(name: str, alibi: bool) -> None:
    inputs = tuple(normal(BATCH * HEADS, rows, D, seed=rows) for rows in (N, M, M + 1))
    given = (inputs[0], inputs[1], inputs[2][:, :M])
    output, weights = oracle(*given, name, alibi)
    for implementation, measure in [("attncli", "weights"), ("attncli", "output"), ("fused", "output")]:
        if implementation == "fused" and name != "softmax":
            continue
        task = BenchTask(implementation, SCORERS["scaled_dot"](D, D), measure, NORMALIZERS[name](), alibi, HEADS)
        found = make_call(task, [given])()
        assert len(found) == (2 if measure == "weights" else 1)
        for one, wanted in zip(found, (output, weights), strict=False):
            torch.testing.assert_close(one.double(), wanted, rtol=1e-4, atol=1e-5)
        gradients = make_call(replace(task, backward=True), [given])()[len(found) :]
        assert [each.shape for each in gradients] == [each.shape for each in given]


@pytest.mark.parametrize("phi", ["elu_plus_one", "relu", "exp"])
def test_linear_attention_gives_what_kernel_attention_gives(phi: str) -> None:
    inputs = tuple(normal(BATCH * HEADS, rows, D, seed=rows) for rows in (N, M, M + 1))
    given = (inputs[0], inputs[1], inputs[2][:, :M])
    usual = BenchTask("attncli", SCORERS["kernel"](D, D, phi=phi), "output", NORMALIZERS["sum"](), False, HEADS)
    found, wanted = (
        make_call(replace(usual, implementation=each, backward=True), [given])() for each in ("linear", "attncli")
    )
    assert len(found) == len(wanted) == 4
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


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
    assert found["linear"] == own | {("linear", "output")}
    assert {row["label"]: row["normalizer"] for row in result.records}["both"] == "sigmoid"
    assert {finding.numbers["measure"] for finding in result.findings} == {"output"}
    (row,) = result_of(scorers=[ENTRIES[-4]], implementations="linear", measure="output", n=[600], d=[D]).records
    assert row["peak_bytes"] < 600 * 600 * 4 / 8, "there is no matrix"


def test_a_bias_that_is_left_out_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bias, "added_to", lambda self, scores, *place: scores)
    result = result_of(scorers=ENTRIES[-2:], measure=["weights", "output"], implementations="attncli", **SMALL)
    assert {row["status"] for row in result.records} == {"disagrees"}
