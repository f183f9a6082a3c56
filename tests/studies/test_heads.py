"""Metrics by batch element and head against their definitions, and the choice of listed heads."""

import math
from typing import Any

import pytest

from attncli.results import Result, Row
from tests.experiments import result_of
from tests.studies.slow import slow_record, slow_rows

SCORERS: list[dict[str, Any]] = [
    {"scorer": "scaled_dot"},
    {"scorer": "additive", "normalizer": "sigmoid"},
    {"scorer": "dot", "normalizer": "relu"},
    {"scorer": "gaussian", "normalizer": "softmax_plus_one"},
]
HEADS: dict[str, Any] = {
    "queries": {"shape": [2, 3, 4, 5]},
    "keys": {"shape": [2, 3, 6, 5]},
    "values": {"shape": [2, 3, 6, 2]},
}
RANDOM = " (random parameters)"


def close(found: Row, expected: Row) -> None:
    numbers = {name: value for name, value in expected.items() if isinstance(value, float)}
    assert {name: found[name] for name in numbers} == pytest.approx(numbers, rel=1e-9, abs=1e-12)
    others = {name: value for name, value in expected.items() if name not in numbers}
    assert {name: found[name] for name in others} == others


def of_heads(**keys: Any) -> Result:
    return result_of(**{"data": HEADS, "scorers": SCORERS, "dtype": "float64", **keys})


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"data": {**HEADS, "valid_lens": [[0, 1, 2, 6], [0, 0, 0, 0]]}},
        {"data": {**HEADS, "valid_lens": [0, 3]}, "mask": {"empty_row": "uniform"}},
        {"data": {**HEADS, "valid_lens": [0, 3]}, "mask": {"empty_row": "nan", "causal": "bottom_right"}},
        {"data": {"queries": {"shape": [2, 1, 5]}, "keys": {"shape": [2, 6, 5]}, "valid_lens": [1, 4]}},
        {"data": {"queries": {"shape": [3, 5]}, "keys": {"shape": [6, 5]}}},
        {"data": {"queries": {"shape": [2, 2, 3, 4, 5]}, "keys": {"shape": [2, 2, 3, 6, 5]}}},
        {"dtype": "float32"},
        {"data": {**HEADS, "valid_lens": [0, 0]}},
    ],
)
def test_every_figure_of_every_head(keys: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attncli.studies.attention.rows.AT_A_TIME", 20)  # several rows at a time, not one head's
    result = of_heads(**keys)
    valid = result.inputs["valid"]
    for record in result.records:
        scores, weights = (result.tensors[f"{record['label']}/{stage}"].double() for stage in ("scores", "weights"))
        close(record, slow_record(scores, weights.masked_fill(~valid.any(-1, keepdim=True), 0.0), valid))
    heads, comparisons = slow_rows(result)
    for found, expected in zip(result.heads, heads, strict=True):
        close(found, expected)
    for found, expected in zip(result.head_comparisons, comparisons, strict=True):
        close(found, expected)
    normalizers = {record["label"]: (record["scorer"], record["normalizer"]) for record in result.records}
    assert all((row["scorer"], row["normalizer"]) == normalizers[row["label"]] for row in result.heads)


def test_heads_of_nothing_but_zeros() -> None:
    data = {"queries": [[[[-1.0]], [[1.0]]]], "keys": [[[[1.0]], [[1.0]]]], "values": [[[[1.0]], [[1.0]]]]}
    result = result_of(data=data, scorers=[{"scorer": "dot", "normalizer": "relu"}, {"scorer": "cosine"}])
    zero, one = result.heads[:2]
    assert (zero["entropy"], zero["effective_keys"], zero["max_weight"], zero["weight_sum"]) == (None, None, 0.0, 0.0)
    assert (one["entropy"], one["effective_keys"], one["max_weight"], one["weight_sum"]) == (0.0, 1.0, 1.0, 1.0)
    zero, one = result.head_comparisons
    assert list(zero.values())[2:] == [0, 0, None, None, 1.0, None, 1.0]
    assert list(one.values())[2:] == [0, 1, 0.0, 1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_head_with_numbers_that_are_not_finite_spoils_no_other(bad: float) -> None:
    keys = [[[[bad], [1.0]], [[1.0], [2.0]]]]
    data = {"queries": [[[[1.0]], [[1.0]]]], "keys": keys, "values": [[[[1.0], [2.0]], [[1.0], [2.0]]]]}
    result = result_of(data=data, scorers=[{"scorer": "dot"}, {"scorer": "gaussian"}])
    assert list(result.head_comparisons[0].values())[4:] == [None] * 5
    assert result.heads[0]["score_mean"] is None
    assert result.records[0]["entropy"] == result.heads[1]["entropy"], "of the other head"
    assert all(math.isfinite(figure) for figure in list(result.heads[1].values())[3:])
    assert all(math.isfinite(figure) for figure in list(result.head_comparisons[1].values())[3:])


def test_chosen_heads_are_listed_and_records_stay_over_all() -> None:
    everything, chosen = of_heads(), of_heads(heads=[2, 0], batch=[1])
    places = [(row["batch"], row["head"]) for row in chosen.heads]
    assert places == [(1, 0), (1, 2)] * len(SCORERS)
    for rows, every in ((chosen.heads, everything.heads), (chosen.head_comparisons, everything.head_comparisons)):
        assert list(rows) == [row for row in every if row["batch"] == 1 and row["head"] != 1]
    assert chosen.comparisons == everything.comparisons
    assert chosen.findings == everything.findings


def test_the_head_that_differs_most() -> None:
    result = of_heads()
    furthest = max(result.head_comparisons, key=lambda row: float(row["js_divergence"]))
    finding = result.findings[-1]
    assert finding.numbers == {key: furthest[key] for key in ("a", "b", "batch", "head", "js_divergence")}
    where = f"head {furthest['head']} of batch element {furthest['batch']}"
    text = f"{furthest['a']} and {furthest['b']} differ most in {where}: JS divergence"
    assert text in finding.text.replace(RANDOM, "")
    one = result_of(data={"queries": {"shape": [1, 2, 3, 4]}, "keys": {"shape": [1, 2, 3, 4]}}, scorers=SCORERS)
    assert "batch" not in one.findings[-1].text
    without = result_of(data={"queries": {"shape": [2, 3, 4]}, "keys": {"shape": [2, 3, 4]}}, scorers=SCORERS)
    assert not any("head" in finding.text for finding in without.findings)
