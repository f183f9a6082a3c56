"""Implementations take turns on copies; wrong implementations are detected, right ones are accepted."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attncli import textbook
from attncli.normalizers.softmax import Softmax
from attncli.scorers import SCORERS
from attncli.studies.bench import implementations
from attncli.studies.bench.implementations import BenchTask, make_call
from attncli.studies.bench.measure import draw_inputs
from attncli.studies.bench.plan import Case
from tests.studies.bench.small import CPU, by_name, hurry, options_of, result_of

LARGE: dict[str, Any] = {"n": [7], "m": [5], "batch": [2], "heads": [3], "d": [4]}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


def plant(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Change the additive scores of the textbook code, except in float64, the reference."""
    right = textbook.additive_scores

    def additive_scores(*tensors: Tensor) -> Tensor:
        scores = right(*tensors)
        return scores if scores.dtype == torch.float64 else change(scores)

    monkeypatch.setattr(textbook, "additive_scores", additive_scores)


SHORT: dict[str, Any] = {"n": [64], "m": [48], "d": [64]}


@pytest.mark.parametrize(
    ("dtype", "backward", "sizes"), [("float64", True, LARGE), ("float16", True, LARGE), ("bfloat16", False, SHORT)]
)
def test_everything_that_there_is_agrees(dtype: str, backward: bool, sizes: dict[str, Any]) -> None:
    result = result_of(measure=["scores", "weights", "output"], dtype=dtype, backward=backward, **sizes)
    assert {row["scorer"] for row in result.records} == set(SCORERS)
    assert [row["reason"] for row in result.records if row["status"] != "timed"] == []


@pytest.mark.parametrize("measure", ["scores", "weights", "output"])
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda scores: scores * 1.01, "differs from float64 in "),
        (lambda scores: scores * torch.nan, "differs from float64 in "),
        (lambda scores: scores.flip(-1), "differs from float64 in "),
        (lambda scores: torch.cat([scores[:-1], scores[-1:].flip(-1)]), "differs from float64 in "),  # the last matrix
        (lambda scores: scores * (1 + 1e-5), None),
    ],
)
def test_what_is_a_mistake_and_what_is_rounding(
    change: Any, reason: str | None, measure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, change)
    result = result_of(scorers=[{"scorer": "additive"}], measure=[measure], **LARGE)
    row = by_name(result, measure)["additive/textbook"]
    assert row["status"] == ("disagrees" if reason else "timed")
    assert str(row["reason"]).startswith(str(reason))
    if reason:
        assert {row[figure] for figure in ("seconds", "peak_bytes", "gflops", "ratio", "ratio_ci", "rounds")} == {None}


MISTAKES: dict[str, Any] = {
    "zero": lambda forward: lambda queries, keys, values: (forward(queries, keys, values)[0] * 0,),
    "factor": lambda forward: lambda queries, keys, values: (forward(queries, keys, values)[0] * 1.3,),
    "flipped": lambda forward: lambda queries, keys, values: forward(queries.flip(-2), keys, values),
    "uniform": lambda forward: lambda queries, keys, values: forward(queries * 0, keys * 0, values),
}
OFFERED = [({"scorer": name}, by) for name in ("scaled_dot", "additive") for by in ("attncli", "textbook")]
OFFERED += [({"scorer": "scaled_dot"}, "fused"), ({"scorer": "dot"}, "attncli")]
OFFERED += [({"scorer": "scaled_dot", "normalizer": name}, "attncli") for name in ("relu", "sparsemax", "ssmax")]
CASES = [(*offered, "uniform", "bfloat16") for offered in OFFERED]
CASES += [(*OFFERED[0], mistake, "float16") for mistake in MISTAKES]


@pytest.mark.parametrize(("entry", "implementation", "mistake", "dtype"), CASES)
def test_wrong_outputs_of_short_numbers(
    entry: dict[str, str], implementation: str, mistake: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong outputs are detected even if scores are large, where rounding in short dtypes changes weights a lot."""
    right = implementations.task_forward
    monkeypatch.setattr(implementations, "task_forward", lambda *given: MISTAKES[mistake](right(*given)))
    sizes: dict[str, Any] = {"n": [16], "m": [16], "d": [64], "measure": ["output"]}
    (row,) = result_of(scorers=[entry], implementations=implementation, dtype=dtype, **sizes).records
    assert row["status"] == "disagrees"


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
