"""The study `bench` as a whole: its rows, skipped measurements with their reasons, and Ctrl-C."""

import itertools
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
import torch
from torch import Tensor

from attncli import textbook
from attncli.errors import InputError
from attncli.studies.bench import implementations, study
from attncli.studies.bench.columns import raw_name
from attncli.studies.bench.measure import time_ratio
from tests.studies.bench.small import TWO, by_name, hurry, result_of

fast = pytest.fixture(hurry, autouse=True)


def test_columns_and_rows() -> None:
    named = {"scorer": "additive", "num_hiddens": 3, "label": "named"}
    result = result_of(n=[6, 3], d=[4, 2], num_hiddens=[5, 7], scorers=[*TWO["scorers"], named])
    rows = [(r["n"], r["d"], r["measure"], r["label"], r["implementation"], r["num_hiddens"]) for r in result.records]
    additive = [("additive", implementation, h) for implementation in ("attncli", "textbook") for h in (5, 7)]
    each = [*additive, ("dot", "attncli", None), ("named", "attncli", 3), ("named", "textbook", 3)]
    assert rows == [(n, d, m, *one) for n in (3, 6) for d in (2, 4) for m in ("scores", "output") for one in each]
    assert {record["status"] for record in result.records} == {"timed"}
    assert result.formulas["dot"].startswith("q . k")


def test_figures_belong_together() -> None:
    result = result_of(scorers=[*TWO["scorers"], {"scorer": "scaled_dot"}])
    for record in result.records:
        times = result.tensors[raw_name(record)]
        assert times.dtype == torch.float64
        assert (record["rounds"], record["seconds"]) == (len(times), times.quantile(0.5).item())
        spread = times.quantile(0.75) - times.quantile(0.25)
        assert record["seconds_iqr"] == pytest.approx(spread.item())
        base = result.tensors[f"scaled_dot/textbook/{record['measure']}/6x6x4x-x1x1"]
        count = min(len(times), len(base))
        assert record["ratio"] == pytest.approx((times[:count] / base[:count]).log().mean().exp().item())
        low, high = record["ratio_ci"]
        assert low <= record["ratio"] <= high
        if record["label"] == "dot" and record["measure"] == "scores":
            assert record["gflops"] == pytest.approx(6 * 6 * 8 / record["seconds"] / 1e9)
            assert record["gbytes_per_second"] == pytest.approx(4 * (6 * 4 * 2 + 36) / record["seconds"] / 1e9)
    assert len(result.tensors) == len(result.records)
    own = by_name(result)["scaled_dot/textbook"]
    assert (own["ratio"], own["ratio_ci"]) == (1.0, [1.0, 1.0])
    beside = [row for row in result.comparisons if row["measure"] == "scores"]
    assert [row["label"] for row in beside] == ["additive", "scaled_dot"], "of attncli's own code"
    ours, textbooks = (result.tensors[f"additive/{name}/scores/6x6x4x4x1x1"] for name in ("attncli", "textbook"))
    ratio, interval = time_ratio(textbooks.tolist(), ours.tolist())
    assert (beside[0]["times_as_fast"], *beside[0]["times_as_fast_ci"]) == pytest.approx((ratio, *interval))


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception, n: int, after: int) -> Iterator[int]:
    """Make textbook scores of this many queries or more fail after some calls, except in float64, the reference."""
    right, calls_made = textbook.additive_scores, itertools.count()

    def additive_scores(queries: Tensor, *others: Tensor) -> Tensor:
        if queries.shape[-2] >= n and queries.dtype == torch.float32 and next(calls_made) >= after:
            raise error
        return right(queries, *others)

    monkeypatch.setattr(textbook, "additive_scores", additive_scores)
    return calls_made


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (MemoryError(), "too large", "out of memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "too large", "out of memory"),
        (ValueError("no"), "failed", "it gave ValueError: no"),
        (InputError.of("no"), "failed", "no"),
    ],
)
@pytest.mark.parametrize("after", [0, 1, 4])
def test_a_trial_that_fails_says_so_and_others_are_complete(
    error: Exception, status: str, reason: str, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trial may fail at once, when memory is measured, or during timing."""
    calls_made = failing(monkeypatch, error, n=6, after=after)
    (lost,) = (row for row in result_of(n=[3, 6], measure=["scores"], **TWO).records if row["status"] != "timed")
    assert (lost["n"], lost["label"], lost["implementation"]) == (6, "additive", "textbook")
    assert (lost["status"], lost["seconds"], lost["peak_bytes"]) == (status, None, None)
    assert lost["reason"].startswith(reason)
    assert next(calls_made) == after + 1


def test_even_the_inputs_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "draw_inputs", lambda *args: pytest.fail("made"))
    result = result_of(n=[2**20], d=[2**20], measure=["output"], **TWO)
    assert {row["status"] for row in result.records} == {"too large"}
    (row,) = result.comparisons
    assert (row["implementation"], row["times_as_fast"], row["times_as_fast_ci"]) == ("attncli", None, None)


def test_a_size_is_not_tried_after_memory_ran_out_at_a_smaller_one(monkeypatch: pytest.MonkeyPatch) -> None:
    calls_made = failing(monkeypatch, MemoryError(), n=6, after=0)
    result = result_of(n=[12, 3, 6], d=[4, 8], measure=["scores"], **TWO)
    lost = {(row["n"], row["d"]): row for row in result.records if row["status"] != "timed"}
    assert {(row["label"], row["implementation"]) for row in lost.values()} == {("additive", "textbook")}
    assert [*lost] == [(6, 4), (6, 8), (12, 4), (12, 8)]
    assert {row["status"] for row in lost.values()} == {"too large"}
    assert lost[6, 4]["reason"] == "out of memory"
    assert lost[12, 8]["reason"] == "memory ran out at n = 6, m = 6, d = 4, batch = 1, heads = 1"
    assert next(calls_made) == 1, "only the smallest was tried"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse allocations by themselves")
def test_the_textbooks_hidden_units_do_not_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=192 * 2**20))
    keys = {"n": [64, 1024], "d": [4], "num_hiddens": [64], "measure": ["scores"], "scorers": [{"scorer": "additive"}]}
    small, _, large, lost = result_of(**keys).records
    assert (small["status"], large["status"]) == ("timed", "timed")
    assert (lost["implementation"], lost["status"], lost["reason"]) == ("textbook", "too large", "out of memory")
    assert torch.ones(320 * 2**20, dtype=torch.uint8).all(), "the limit has ended"


def test_a_compiler_that_fails_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_scorer(scorer: Any) -> None:
        scorer.forward = Mock(side_effect=RuntimeError("C++ compile error\nand much more"))

    monkeypatch.setattr(implementations, "compile_scorer", compile_scorer)
    rows = by_name(result_of(compile=True, measure=["scores"], **TWO))
    row = rows["additive/compiled"]
    assert row["status"] == "not available"
    assert row["reason"].startswith("it gave RuntimeError: C++ compile error")
    assert "much more" not in row["reason"]
    assert rows["additive/attncli"]["status"] == "timed", "the copy that is compiled is not the one that others have"


def test_a_peak_that_cannot_be_counted_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "MOST_PAIRS", 6 * 6 - 1)
    rows = result_of(n=[6], measure=["scores"], **TWO).records
    assert {(row["status"], row["peak_bytes"]) for row in rows} == {("timed", None)}
