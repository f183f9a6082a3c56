"""The rows of a result for expectations, independent of its study: every key of its rows is a column."""

from collections.abc import Sequence
from typing import Any

from attncli.config.expectations import Expectation
from attncli.engine.expect.judging import Verdict, judge
from attncli.results import Column, Result, Row, Rows


def columns_of(rows: Sequence[Row]) -> list[Column]:
    """Return a column for every key, in the order of the rows."""
    values = {key: value for row in rows for key, value in row.items()}
    return [Column(key, key, "", text=isinstance(value, str)) for key, value in values.items()]


def rows_of(result: Result) -> Rows:
    """Return all rows of a result with their columns, and for attention also its stages."""
    shapes: dict[str, dict[str, Sequence[int]]] = {}
    for name, tensor in result.tensors.items():
        label, _, stage = name.rpartition("/")
        shapes.setdefault(label, {})[stage] = tensor.shape
    pairs = result.comparisons
    return Rows(columns_of(result.records), result.records, columns_of(pairs), pairs, shapes=shapes)


def verdicts(result: Result, *expectations: dict[str, Any]) -> list[Verdict]:
    """Return the verdicts on expectations; their metric is `x` unless they name another."""
    asked = [Expectation.model_validate({"metric": "x", **each}) for each in expectations]
    return judge(result, asked, rows_of(result))
