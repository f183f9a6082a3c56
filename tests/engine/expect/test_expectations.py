"""Each kind of expectation holds for right numbers and fails for planted mistakes."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from attncli.engine.expect.judging import Verdict
from attncli.results import Result
from tests.engine.expect.rows import verdicts
from tests.show.samples import result_of, run_of

PLACE = {"scorer": "dot", "head": None}


def result(**figures: Sequence[Any]) -> Result:
    """Return rows of the label `dot` for d = 0, 1, 2, ... with these metrics."""
    count = len(next(iter(figures.values())))
    rows = [
        {**PLACE, "label": "dot", "d": d, **{key: column[d] for key, column in figures.items()}} for d in range(count)
    ]
    return Result("variance", "test", rows)


def holds(got: Any, *others: Any, **keys: Any) -> bool | None:
    """Whether `got`, in the row d = 0, meets the expectation in `keys`; the rows d = 1, ... have the `others`."""
    (verdict,) = verdicts(result(x=[got, *others]), {"where": {"d": 0}, **keys})
    assert verdict.got is got
    return verdict.holds


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
    assert holds(got, **keys) is expected


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
    assert holds(got, other, **{kind: {"d": 1}}, **keys) is expected, "another row"
    assert holds(got, **{kind: other}, **keys) is expected, "a constant"


@pytest.mark.parametrize("got", [None, math.nan, math.inf])
def test_no_figure_fails(got: Any) -> None:
    (verdict,) = verdicts(result(x=[got]), {"equal": 1})
    assert (verdict.holds, verdict.reason) == (False, "no value")
    (verdict,) = verdicts(result(x=[1, got]), {"where": {"d": 0}, "above": {"d": 1}})
    assert (verdict.holds, verdict.reason) == (False, "no value to compare with")


def test_a_list_asks_every_row() -> None:
    found = verdicts(result(x=[1, 5, 1]), {"where": {"d": [0, 1, 2]}, "between": [0, 2], "claim": "c", "source": "s"})
    assert [verdict.holds for verdict in found] == [True, False, True]
    assert [verdict.where for verdict in found] == [{"d": 0}, {"d": 1}, {"d": 2}]
    assert [verdict.index for verdict in found] == [0, 0, 0]
    assert found[1].record == {
        "claim": "c",
        "source": "s",
        "where": {"d": 1},
        "metric": "x",
        "expected": {"between": [0, 2]},
        "got": 5,
        "holds": False,
        "reason": None,
    }


def test_lists_on_both_sides_are_compared_value_by_value() -> None:
    rows = [{"label": label, "d": d, "x": d + (label == "b")} for label in "ab" for d in (1, 5)]
    table = Result("variance", "test", rows)
    found = verdicts(table, {"where": {"label": "b", "d": [1, 5]}, "above": {"label": "a", "d": [5, 1]}})
    assert [verdict.holds for verdict in found] == [True, True]
    assert [verdict.expected for verdict in found] == [{"above": {"label": "a", "d": d}, "value": d} for d in (1, 5)]
    found = verdicts(table, {"where": {"label": "b", "d": [1, 5]}, "above": {"label": "a", "d": 5}})
    assert [verdict.holds for verdict in found] == [False, True], "one value is compared with all"


def test_a_text_is_no_metric() -> None:
    (verdict,) = verdicts(result(x=["timed"]), {"where": {"d": 0}, "equal": 1})
    assert str(verdict.problem) == 'metric: got "x", which is "timed", not a number; expected another metric'


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
    assert verdict.reason.startswith("got label = a; 2 rows match, which differ in seed (0, 1)")


def test_every_combination_of_lists_must_be_there() -> None:
    rows = [{"label": "a", "d": 1, "x": 1}, {"label": "a", "d": 2, "x": 1}, {"label": "b", "d": 1, "x": 1}]
    (verdict,) = verdicts(Result("variance", "test", rows), {"where": {"label": ["a", "b"], "d": [1, 2]}, "equal": 1})
    assert verdict.holds is None
    assert verdict.reason == "got 2; no row with label = b has this d; known: 1"


def test_nothing_is_judged_where_the_work_was_interrupted() -> None:
    (verdict,) = verdicts(replace(result(x=[1]), interrupted=True), {"where": {"d": 0}, "equal": 1})
    assert (verdict.holds, verdict.problem) == (None, None)
    assert verdict.reason == "interrupted before it was measured"


def stages(weights: Any, dtype: torch.dtype = torch.float32) -> Result:
    tensor = torch.tensor(weights, dtype=dtype)
    return replace(result_of(run_of(tensor)), inputs={"queries": tensor})


WEIGHTS = [[[0.5, 0.5, 0.0]], [[0.1, 0.2, 0.7]]]
ULP = 2**-23


def equal(result: Result, numbers: Any, **keys: Any) -> Verdict:
    (verdict,) = verdicts(result, {"metric": "weights", "equal": numbers, **keys})
    return verdict


def test_stages_are_equal_up_to_rounding_in_their_dtype() -> None:
    assert equal(stages(WEIGHTS), WEIGHTS).holds is True
    near, further = ([[[0.5, 0.5, 0.0]], [[0.1, 0.2, 0.7 + count * ULP]]] for count in (3, 20))
    assert equal(stages(near), WEIGHTS).holds is True
    assert equal(stages(near, torch.float64), WEIGHTS).holds is False
    assert equal(stages(further), WEIGHTS).holds is False
    assert equal(stages(further, torch.float64), further).holds is True
    coarse = stages([[[0.5, 0.5, 0.0]], [[0.1, 0.2, 0.702]]])
    assert equal(coarse, WEIGHTS).holds is False
    assert equal(replace(coarse, inputs={"queries": torch.zeros(1, dtype=torch.bfloat16)}), WEIGHTS).holds is True


def test_the_largest_difference_is_named() -> None:
    verdict = equal(stages(WEIGHTS), [[[0.5, 0.5, 0.25]], [[0.1, 0.3, 0.7]]])
    assert verdict.holds is False
    assert verdict.reason == "2 of 6 numbers differ, most at [0, 0, 2]: got 0, expected 0.25"
    assert verdict.got[0] == [[0.5, 0.5, 0.0]]


def test_within_is_an_amount() -> None:
    off = stages([[[0.5, 0.5, 0.0]], [[0.1, 0.2, 0.75]]])
    assert [equal(off, WEIGHTS, within=within).holds for within in (0.06, 0.04)] == [True, False]


def test_nan_is_only_equal_to_nan() -> None:
    assert equal(stages([[math.nan, 1.0]]), [math.nan, 1]).holds is True
    assert equal(stages([[0.0, 1.0]]), [math.nan, 1], within=1).holds is False
    assert equal(stages([[math.inf, 1.0]]), [math.inf, 1]).holds is True


def test_leading_ones_may_be_left_out_or_added() -> None:
    one = stages([[[0.25, 0.75]]])
    for numbers in ([0.25, 0.75], [[0.25, 0.75]], [[[0.25, 0.75]]], [[[[0.25, 0.75]]]]):
        assert equal(one, numbers).holds is True
        assert equal(one, [0.75, 0.25]).holds is False
