"""Implementations take turns on copies, of every normaliser, too; wrong ones are detected, right ones are accepted."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attncli.attention import Bias
from attncli.normalizers import NORMALIZERS
from attncli.normalizers.softmax import Softmax
from attncli.scorers import SCORERS
from attncli.studies.bench import implementations
from attncli.studies.bench.implementations import RESULTS, BenchTask, make_call
from attncli.studies.bench.measure import draw_inputs
from attncli.studies.bench.plan import Case
from tests.studies.bench.small import CPU, hurry, options_of, result_of

Mistake = Callable[[Any], Any]  # of the function that computes results
fast = pytest.fixture(hurry, autouse=True)
LARGE: dict[str, Any] = {"n": [7], "m": [5], "batch": [2], "heads": [3], "d": [4]}
SHORT: dict[str, Any] = {"n": [64], "m": [48], "d": [64]}


@pytest.mark.parametrize(
    ("dtype", "backward", "sizes"), [("float64", True, LARGE), ("float16", True, LARGE), ("bfloat16", False, SHORT)]
)
def test_everything_that_there_is_agrees(dtype: str, backward: bool, sizes: dict[str, Any]) -> None:
    result = result_of(measure=["scores", "weights", "output"], dtype=dtype, backward=backward, **sizes)
    assert {row["scorer"] for row in result.records} == set(SCORERS)
    assert [row["reason"] for row in result.records if row["status"] != "timed"] == []


def wrong(change: Callable[[Tensor], Tensor]) -> Mistake:
    return lambda forward: lambda *inputs: (change(forward(*inputs)[0]), *forward(*inputs)[1:])


MISTAKES: dict[str, Mistake] = {
    "zero": wrong(lambda result: result * 0),
    "NaN": wrong(lambda result: result * torch.nan),
    "factor": wrong(lambda result: result * 1.01),
    "of the last matrix": wrong(lambda result: torch.cat([result[:-1], result[-1:].flip(-1)])),
    "flipped": lambda forward: lambda queries, keys, values: forward(queries.flip(-2), keys, values),
    "uniform": lambda forward: lambda queries, keys, values: forward(queries * 0, keys * 0, values),
    "rounding": wrong(lambda result: result * (1 + 1e-5)),
}
OFFERED = [({"scorer": name}, by) for name in ("scaled_dot", "additive") for by in ("attncli", "textbook")]
OFFERED += [({"scorer": "scaled_dot"}, "fused"), ({"scorer": "dot"}, "attncli")]
OFFERED += [({"scorer": "scaled_dot", "normalizer": name}, "attncli") for name in ("relu", "sparsemax", "ssmax")]
CASES = [(*offered, "uniform", "output", "bfloat16") for offered in OFFERED]
CASES += [(*OFFERED[0], mistake, "output", "float16") for mistake in MISTAKES]
CASES += [(*OFFERED[3], mistake, measure, "float32") for measure in RESULTS for mistake in MISTAKES]


@pytest.mark.parametrize(("entry", "implementation", "mistake", "measure", "dtype"), CASES)
def test_what_is_a_mistake_and_what_is_rounding(
    entry: dict[str, str], implementation: str, mistake: str, measure: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong outputs are detected even if scores are large, where rounding in short dtypes changes weights a lot."""
    right = implementations.task_forward
    monkeypatch.setattr(implementations, "task_forward", lambda *given: MISTAKES[mistake](right(*given)))
    sizes: dict[str, Any] = {"n": [16], "m": [16], "d": [64], "batch": [2], "measure": [measure]}
    (row,) = result_of(scorers=[entry], implementations=implementation, dtype=dtype, **sizes).records
    assert row["status"] == ("timed" if mistake == "rounding" else "disagrees")
    if mistake != "rounding":
        assert row["reason"].startswith("differs from float64 in ")
        assert {row[figure] for figure in ("seconds", "peak_bytes", "gflops", "ratio", "ratio_ci", "rounds")} == {None}


def test_every_copy_has_its_turn() -> None:
    seen: list[int] = []

    class Noting(nn.Module):
        def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
            seen.append(queries.data_ptr())
            return queries @ keys.mT

    copies = [draw_inputs(options_of(), Case(3, 3, 2), CPU) for _ in range(2)]
    call = make_call(BenchTask("attncli", Noting(), "scores", Softmax()), copies)
    for _ in range(4):
        call()
    assert seen == [queries.data_ptr() for queries, *_ in copies] * 2


ENTRIES = [
    *({"scorer": "scaled_dot", "normalizer": name} for name in NORMALIZERS if name not in ("softmax", "sum")),
    *({"scorer": "kernel", "phi": phi, "normalizer": "sum", "label": phi} for phi in ("elu_plus_one", "relu", "exp")),
    {"scorer": "kernel", "label": "kernel"},
    {"scorer": "scaled_dot", "bias": "alibi", "label": "alibi"},
    {"scorer": "dot", "bias": "alibi", "normalizer": "sigmoid", "label": "both"},
]
SMALL: dict[str, Any] = {"n": [4], "m": [6], "d": [5], "batch": [2], "heads": [3], "backward": True}


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
