"""Implementations that are wrong are found out, and those that are right are not."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attncli import textbook
from attncli.scorers import SCORERS
from attncli.studies.bench import calls as bench_calls
from attncli.studies.bench.check import Rows
from attncli.studies.study import Record
from tests.studies.bench import by_name, hurry, result_of

LARGE: dict[str, Any] = {"n": [7], "m": [5], "batch": [2], "heads": [3], "d": [4]}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


def textbook_of(measure: str = "scores", **keys: Any) -> Record:
    result = result_of(
        scorers=[{"scorer": "additive"}], measure=[measure], baseline="additive/attncli", **LARGE, **keys
    )
    return by_name(result, measure)["additive/textbook"]


def plant(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Textbook code whose additive scores are changed; float64, which decides what is right, stays right."""
    right = textbook.additive_scores

    def additive_scores(*tensors: Tensor) -> Tensor:
        scores = right(*tensors)
        return scores if scores.dtype == torch.float64 else change(scores)

    monkeypatch.setattr(textbook, "additive_scores", additive_scores)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("backward", [False, True])
def test_everything_that_there_is_agrees(dtype: str, backward: bool) -> None:
    result = result_of(measure=["scores", "weights", "output"], dtype=dtype, backward=backward, **LARGE)
    assert {row["scorer"] for row in result.records} == set(SCORERS)
    assert [row["reason"] for row in result.records if row["status"] != "timed"] == []


@pytest.mark.parametrize("measure", ["scores", "weights", "output"])
@pytest.mark.parametrize(
    "change", [lambda scores: scores * 1.01, lambda scores: scores * torch.nan, lambda scores: scores.mT.mT.flip(-1)]
)
def test_wrong_scores(change: Any, measure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, change)
    row = textbook_of(measure)
    assert row["status"] == "disagrees"
    what = "scores" if measure == "scores" else "output"
    assert row["reason"].startswith(f"differs from float64 in {what} by ")
    for figure in (
        "seconds",
        "seconds_iqr",
        "peak_bytes",
        "gflops",
        "gbytes_per_second",
        "ratio",
        "ratio_ci",
        "rounds",
    ):
        assert row[figure] is None


MISTAKES: dict[str, Any] = {
    "zero": lambda forward: lambda queries, keys, values: forward(queries, keys, values) * 0,
    "factor": lambda forward: lambda queries, keys, values: forward(queries, keys, values) * 1.3,
    "flipped": lambda forward: lambda queries, keys, values: forward(queries.flip(-2), keys, values),
    "uniform": lambda forward: lambda queries, keys, values: forward(queries * 0, keys * 0, values),
}
CASES = [  # the weights of additive attention are so even that rounding to bfloat16 hides another order of queries
    (scorer, implementation, mistake, dtype)
    for scorer, implementations in {
        "scaled_dot": ["attncli", "textbook", "fused"], "dot": ["attncli"], "additive": ["attncli", "textbook"],
    }.items()
    for implementation in implementations
    for mistake in MISTAKES
    for dtype in ("bfloat16", "float16")
    if (scorer, implementation, mistake, dtype) != ("additive", "textbook", "flipped", "bfloat16")
]  # fmt: skip


@pytest.mark.parametrize(("scorer", "implementation", "mistake", "dtype"), CASES)
def test_wrong_outputs_of_short_numbers(
    scorer: str, implementation: str, mistake: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where scores are large, so that rounding of short numbers changes weights a lot."""
    right = bench_calls.MAKERS[implementation]
    monkeypatch.setitem(bench_calls.MAKERS, implementation, lambda *given: MISTAKES[mistake](right(*given)))
    sizes = {"n": [16], "m": [16], "d": [64]}
    result = result_of(scorers=[{"scorer": scorer}], measure=["output"], dtype=dtype, **sizes)
    assert by_name(result, "output")[f"{scorer}/{implementation}"]["status"] == "disagrees"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("backward", [False, True])
def test_short_numbers_agree_at_usual_sizes(dtype: str, backward: bool) -> None:
    measures = ["scores", "weights", "output"]
    result = result_of(measure=measures, dtype=dtype, backward=backward, n=[64], m=[48], d=[64])
    assert [row["reason"] for row in result.records if row["status"] != "timed"] == []


def test_how_far_it_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, lambda scores: scores * 1.5)
    expected = "differs from float64 in scores by 0.5 of the largest number; rounding explains 0.0001"
    assert textbook_of()["reason"] == expected


def test_the_last_matrix_and_the_last_row_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(scores: Tensor) -> Tensor:
        last = torch.zeros_like(scores)
        last[-1, -1, -1] = 1.0
        return scores + last

    plant(monkeypatch, change)
    assert textbook_of()["status"] == "disagrees"


def test_another_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, lambda scores: scores[..., :-1])
    assert textbook_of()["reason"] == "gives scores of shape [2, 3, 4] where [2, 3, 5] is right"


def test_rounding_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, lambda scores: scores * (1 + 1e-5))
    assert textbook_of()["status"] == "timed"


class Halved(torch.autograd.Function):
    """Right forward, wrong backward."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        return scores.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0] / 2


@pytest.mark.parametrize("measure", ["scores", "output"])
def test_wrong_gradients(measure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, Halved.apply)
    assert textbook_of(measure)["status"] == "timed"
    row = textbook_of(measure, backward=True)
    assert row["status"] == "disagrees"
    assert row["reason"].startswith("differs from float64 in the gradient of queries by ")


def test_wrong_gradients_of_parameters_only(monkeypatch: pytest.MonkeyPatch) -> None:
    original = bench_calls.own_copy

    def own_copy(scorer: nn.Module, implementation: str, like: Tensor) -> nn.Module:
        own = original(scorer, implementation, like)
        for parameter in own.parameters() if implementation == "textbook" else ():
            parameter.register_hook(lambda gradient: gradient * 2)  # type: ignore[no-untyped-call]
        return own

    monkeypatch.setattr("attncli.studies.bench.job.own_copy", own_copy)
    assert textbook_of(backward=True)["reason"].startswith("differs from float64 in the gradient of a parameter by ")


def test_rows() -> None:
    queries = torch.arange(2.0 * 3 * 7 * 4).reshape(2, 3, 7, 4)
    rows = Rows.of(queries)
    assert (rows.matrices, rows.rows) == ([0, 5], [0, 3, 6])
    few = rows.within(queries)
    torch.testing.assert_close(few[1, 2], queries[1, 2, 6], rtol=0, atol=0)
    torch.testing.assert_close(few[0, 1], queries[0, 0, 3], rtol=0, atol=0)
    spread = rows.spread(few, queries)
    torch.testing.assert_close(rows.within(spread), few, rtol=0, atol=0)
    assert int((spread != 0).sum()) == int((few != 0).sum())
    assert Rows.of(queries[0, 0, :1]) == Rows([0], [0])
