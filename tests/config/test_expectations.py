"""`expect:` in YAML: allowed and wrong values, and the same values in the resolved config."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from attncli.config.expectations import Expectation, by_factor, relative_share
from attncli.engine.runs.resolved import config_data, dump_yaml
from tests.config.documents import GOOD, options_of

SAID: dict[str, dict[str, Any]] = {
    "between": {"between": [0.95, 1.05]},
    "about": {"about": 1, "within": "5 %"},
    "about a negative number": {"about": -1.5, "within": 0.25},
    "above by a factor": {"above": {"scorer": "dot", "d": 4}, "by": "2 x"},
    "below by an amount": {"below": {"scorer": "dot", "head": None}, "by": 0.5},
    "equal to numbers": {"equal": [[1, 2.5], [3, 4]], "within": 1e-3},
}


@pytest.mark.parametrize("keys", SAID.values(), ids=SAID)
def test_the_resolved_config_says_the_same(keys: dict[str, Any], tmp_path: Path) -> None:
    said = [{"metric": "entropy", "where": {"label": ["dot"], "head": None}, "claim": "c", "source": "s", **keys}]
    options = options_of(tmp_path, GOOD + yaml.safe_dump({"expect": said}))
    again = yaml.safe_load(dump_yaml(config_data(options)))["expect"]
    assert [Expectation.model_validate(each) for each in again] == options.expect
    assert options.expect[0].expected == keys
    assert again[0]["where"] == said[0]["where"]


def test_no_expectations_leave_no_trace(tmp_path: Path) -> None:
    assert "expect" not in config_data(options_of(tmp_path, f"{GOOD}expect: []\n"))


def test_shares_and_factors_in_all_forms() -> None:
    texts = ("5 %", "5%", ".5%", "1e-1 %"), ("2 x", "2x", "1.5 ×", "1e3 x")
    assert [relative_share(text) for text in texts[0]] == pytest.approx([0.05, 0.05, 0.005, 0.001])
    assert [by_factor(text) for text in texts[1]] == [2.0, 2.0, 1.5, 1000.0]
