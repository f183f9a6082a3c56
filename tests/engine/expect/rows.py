"""Verdicts on rows that no study has made."""

from typing import Any

from attncli.config.expectations import Expectation
from attncli.engine.expect.judging import Verdict, judge
from attncli.results import Result


def verdicts(result: Result, *expectations: dict[str, Any]) -> list[Verdict]:
    """Return the verdicts on expectations; their metric is `x` unless they name another."""
    return judge(result, [Expectation.model_validate({"metric": "x", **each}) for each in expectations])
