"""Each kind of expectation holds for right numbers and fails for planted mistakes."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from attncli.config.expectations import Expectation
from attncli.engine.expect.judging import Verdict, judge
from attncli.results import Result
from tests.show.samples import result_of, run_of


def verdicts(result: Result, *expectations: dict[str, Any]) -> list[Verdict]:
    """Return the verdicts on expectations; their metric is `x` unless they name another."""
    return judge(result, [Expectation.model_validate({"metric": "x", **each}) for each in expectations])


def result(*figures: Any) -> Result:
    """Return rows of the label `dot` for d = 0, 1, 2, ... with these values of the metric x."""
    rows = [{"scorer": "dot", "head": None, "label": "dot", "d": d, "x": figure} for d, figure in enumerate(figures)]
    return Result("variance", "test", rows)


def one(got: Any, *others: Any, **keys: Any) -> Verdict:
    """Return the verdict on `got`, in the row d = 0, by the expectation in `keys`; further rows have the `others`."""
    (verdict,) = verdicts(result(got, *others), {"where": {"d": 0}, **keys})
    assert verdict.got is got or verdict.problem is not None
    return verdict


@pytest.mark.parametrize(
    ("got", "keys", "expected"),
    [
        (0.95, {"between": [0.95, 1.05]}, True),
        (1.05, {"between": [0.95, 1.05]}, True),
        (0.9499, {"between": [0.95, 1.05]}, False),
        (1.0501, {"between": [0.95, 1.05]}, False),
        (-1.04, {"about": -1, "within": "5 %"}, True),
        (-1.06, {"about": -1, "within": "5 %"}, False),
        (104.1, {"about": 100, "within": 4}, False),
        (95.9, {"about": 100, "within": 4}, False),
        (0.8, {"about": 0.7, "within": 0.1}, True),  # False in binary fractions
        (184.0, {"equal": 184}, True),
        (0.1 + 0.2, {"equal": 0.3}, False),
    ],
)
def test_a_figure_and_its_bounds(got: Any, keys: dict[str, Any], expected: bool) -> None:
    assert one(got, **keys).holds is expected


ABOVE = [
    (2.0, 1.0, None, True),
    (1.0, 1.0, None, False),
    (0.3, 0.2, 0.1, True),  # False in binary fractions
    (1.49, 1.0, 0.5, False),
    (1.0, 1.0, 0, True),
    (2.0, 1.0, "2 x", True),
    (1.99, 1.0, "2 x", False),
    (1.0, 0.0, "2 x", True),
    (0.0, 0.0, "2 x", False),
    (-1.5, -1.0, "2 x", False),
]
KINDS = [("above", *case) for case in ABOVE] + [("below", other, got, *rest) for got, other, *rest in ABOVE]


@pytest.mark.parametrize(("kind", "got", "other", "by", "expected"), KINDS)
def test_above_and_below(kind: str, got: float, other: float, by: Any, expected: bool) -> None:
    keys = {} if by is None else {"by": by}
    assert one(got, other, **{kind: {"d": 1}}, **keys).holds is expected, "another row"
    assert one(got, **{kind: other}, **keys).holds is expected, "a constant"


@pytest.mark.parametrize("got", [None, math.nan, math.inf, "timed", True])
def test_no_figure_fails(got: Any) -> None:
    first, second = one(got, equal=1), one(1, got, above={"d": 1})
    assert (first.holds, first.reason) == (False, "no value")
    assert (second.holds, second.reason) == (False, "no value to compare with")


def test_a_list_asks_every_row() -> None:
    found = verdicts(result(1, 5, 1), {"where": {"d": [0, 1, 2]}, "between": [0, 2]})
    records = [({"d": 0}, 1, True), ({"d": 1}, 5, False), ({"d": 2}, 1, True)]
    assert [(each.record["where"], each.record["got"], each.record["holds"]) for each in found] == records


def test_lists_on_both_sides_are_compared_value_by_value() -> None:
    rows = [{"label": label, "d": d, "x": d + (label == "b")} for label in "ab" for d in (1, 5)]
    table = Result("variance", "test", rows)
    found = verdicts(table, {"where": {"label": "b", "d": [1, 5]}, "above": {"label": "a", "d": [5, 1]}})
    assert [verdict.holds for verdict in found] == [True, True]
    assert [verdict.expected for verdict in found] == [{"above": {"label": "a", "d": d}, "value": d} for d in (1, 5)]
    found = verdicts(table, {"where": {"label": "b", "d": [1, 5]}, "above": {"label": "a", "d": 5}})
    assert [verdict.holds for verdict in found] == [False, True], "one value is compared with all"


@pytest.mark.parametrize("metric", ["js_divergence", "top1_agreement", "max_abs_difference", "output_difference"])
def test_a_pair_may_be_named_in_either_order_where_that_does_not_matter(metric: str) -> None:
    pair = Result("attention", "test", [{"label": "one"}], [{"a": "one", "b": "two", metric: 0.5}])
    (verdict,) = verdicts(pair, {"metric": metric, "where": {"a": "two", "b": "one"}, "equal": 0.5})
    if metric != "output_difference":
        assert (verdict.holds, verdict.where) == (True, {"a": "one", "b": "two"})
    else:
        assert (verdict.holds, str(verdict.problem)) == (None, 'where.a: got "two"; no row has this a; known: one')


def test_columns_of_the_other_row_choose_the_table_too() -> None:
    """Each seed has one row, and the mean over the seeds has another."""
    rows = [{"label": label, "seed": seed, "x": seed} for label in "ab" for seed in (0, 1)]
    means = [{"label": label, "x": 0.5} for label in "ab"]
    table = Result("train", "test", rows, means)
    (verdict,) = verdicts(table, {"where": {"label": "a"}, "above": {"label": "b"}})
    assert verdict.got == 0.5
    (verdict,) = verdicts(table, {"where": {"label": "a"}, "above": {"label": "b", "seed": 1}})
    assert verdict.reason is not None
    assert verdict.reason.startswith("got label = a; 2 rows match, which differ in seed")


def test_nothing_is_judged_where_the_work_was_interrupted() -> None:
    (verdict,) = verdicts(replace(result(1), interrupted=True), {"where": {"d": 0}, "equal": 1})
    assert (verdict.holds, verdict.problem, verdict.reason) == (None, None, "interrupted before it was measured")


ULP = 2**-23


def weights(last: float = 0.7) -> list[Any]:
    return [[[0.5, 0.5, 0.0]], [[0.1, 0.2, last]]]


STAGES: list[tuple[Any, str, str, Any, float | None, bool]] = [  # weights, dtype, of queries, expected, within, holds
    (weights(), "float32", "float32", weights(), None, True),
    (weights(0.7 + 3 * ULP), "float32", "float32", weights(), None, True),
    (weights(0.7 + 3 * ULP), "float64", "float64", weights(), None, False),
    (weights(0.7 + 20 * ULP), "float32", "float32", weights(), None, False),
    (weights(0.702), "float32", "bfloat16", weights(), None, True),
    (weights(0.75), "float32", "float32", weights(), 0.06, True),
    (weights(0.75), "float32", "float32", weights(), 0.04, False),
    ([[math.nan, 1.0]], "float32", "float32", [math.nan, 1], None, True),
    ([[0.0, 1.0]], "float32", "float32", [math.nan, 1], 1, False),
    ([[math.inf, 1.0]], "float32", "float32", [math.inf, 1], None, True),
    *(([[[0.25, 0.75]]], "float32", "float32", equal, None, True) for equal in ([0.25, 0.75], [[[[0.25, 0.75]]]])),
]


@pytest.mark.parametrize(("got", "dtype", "of_queries", "equal", "within", "expected"), STAGES)
def test_stages_are_equal_up_to_rounding_or_an_amount(
    got: Any, dtype: str, of_queries: str, equal: Any, within: float | None, expected: bool
) -> None:
    """NaN equals NaN alone, and leading axes of size 1 may be left out or added."""
    run = result_of(run_of(torch.tensor(got, dtype=getattr(torch, dtype))))
    run = replace(run, inputs={"queries": torch.zeros(1, dtype=getattr(torch, of_queries))})
    (verdict,) = verdicts(run, {"metric": "weights", "equal": equal, "within": within})
    assert verdict.holds is expected


def test_the_largest_difference_is_named() -> None:
    run = replace(result_of(run_of(torch.tensor(weights()))), inputs={"queries": torch.zeros(1)})
    (verdict,) = verdicts(run, {"metric": "weights", "equal": [[[0.5, 0.5, 0.25]], [[0.1, 0.3, 0.7]]]})
    assert verdict.reason == "2 of 6 numbers differ, most at [0, 0, 2]: got 0, expected 0.25"
    assert verdict.got[0] == [[0.5, 0.5, 0.0]]
