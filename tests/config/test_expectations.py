"""`expect:` in YAML: what it may say, and that it is kept as it was said."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from attncli.commands.experiments import config_of
from attncli.config.expectations import KINDS, Expectation, factor_of, share_of
from attncli.runs.resolved import dump_yaml
from tests.config.documents import GOOD, options_of

SAID: dict[str, dict[str, Any]] = {
    "between": {"between": [0.95, 1.05]},
    "at most": {"between": [None, 1]},
    "about": {"about": 1, "within": "5 %"},
    "about a negative number": {"about": -1.5, "within": 0.25},
    "above": {"above": 0},
    "above by a factor": {"above": {"scorer": "dot", "d": 4}, "by": "2 x"},
    "below by an amount": {"below": {"scorer": "dot", "head": None}, "by": 0.5},
    "equal": {"equal": "exact"},
    "equal to false": {"equal": False},
    "equal to numbers": {"equal": [[1, 2.5], [3, 4]], "within": 1e-3},
}


def expectation(**keys: Any) -> Expectation:
    return Expectation.model_validate({"metric": "entropy", **keys})


@pytest.mark.parametrize("keys", SAID.values(), ids=SAID)
def test_expected_is_what_was_said(keys: dict[str, Any]) -> None:
    made = expectation(**keys)
    assert made.expected == keys
    assert made.kind == next(key for key in keys if key in KINDS)


def test_equal_may_name_the_metric() -> None:
    named = Expectation.model_validate({"where": {"label": "dot"}, "equal": {"output": [[1, 2]]}, "within": 0.1})
    whole = {"where": {"label": "dot"}, "metric": "output", "equal": [[1, 2]], "within": 0.1}
    assert named == Expectation.model_validate(whole)


@pytest.mark.parametrize("keys", SAID.values(), ids=SAID)
def test_the_resolved_config_says_the_same(keys: dict[str, Any], tmp_path: Path) -> None:
    said = [{"metric": "entropy", "where": {"label": ["dot"], "head": None}, "claim": "c", "source": "s", **keys}]
    options = options_of(tmp_path, GOOD + yaml.safe_dump({"expect": said}))
    again = yaml.safe_load(dump_yaml(config_of(options)))["expect"]
    assert [Expectation.model_validate(each) for each in again] == options.expect
    assert again[0]["where"] == said[0]["where"]


def test_no_expectations_leave_no_trace(tmp_path: Path) -> None:
    options = options_of(tmp_path, f"{GOOD}expect: []\n")
    assert options.expect == []
    assert "expect" not in config_of(options)


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
def test_exactly_one_kind(first: str, second: str) -> None:
    values: dict[str, Any] = {"between": [0, 1], "about": 1, "above": 1, "below": 1, "equal": 1}
    keys = {first: values[first], second: values[second]}
    if "about" in keys:
        keys["within"] = 1
    if first == second:
        assert expectation(**keys).kind == first
    else:
        with pytest.raises(ValidationError):
            expectation(**keys)


@pytest.mark.parametrize("key", [*KINDS, "within", "by"])
def test_null_is_not_left_out(key: str) -> None:
    base: dict[str, Any] = {"equal": 1} if key not in ("equal", "within", "by") else {"above": 1}
    expectation(**base)
    with pytest.raises(ValidationError):
        expectation(**base, **{key: None})


@pytest.mark.parametrize(
    ("text", "share"), [("5 %", 0.05), ("5%", 0.05), ("0.1 %", 0.001), (".5%", 0.005), ("1e-1 %", 0.001)]
)
def test_shares(text: str, share: float) -> None:
    assert share_of(text) == pytest.approx(share, rel=1e-15)


@pytest.mark.parametrize("text", ["5", "%", "-5 %", "5 % ", "5 percent", "5 %%", "five %", 5, None, True])
def test_what_is_no_share(text: Any) -> None:
    assert share_of(text) is None


def test_factors() -> None:
    assert [factor_of(text) for text in ("2 x", "2x", "1.5 ×", "1e3 x")] == [2.0, 2.0, 1.5, 1000.0]
    assert [factor_of(text) for text in ("2", "x", "x 2", "-2 x", "2 x 3", 2)] == [None] * 6


def test_set_changes_one_key(tmp_path: Path) -> None:
    text = f"{GOOD}expect: [{{where: {{label: dot}}, metric: entropy, between: [0, 1]}}]\n"
    options = options_of(tmp_path, text, "expect[0].between=[null, 2]", "expect[0].where.label=[dot]")
    assert options.expect[0].between == [None, 2]
    assert options.expect[0].where == {"label": ["dot"]}
