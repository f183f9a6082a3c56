"""Every study has the same parts, predicts its rows, and has a column for each of their keys."""

from typing import Any

import pytest

from attncli.results import Column, Row
from attncli.stopping import Progress
from attncli.studies import STUDIES, load_study, options_model
from tests.studies.bench.small import hurry

SMALL: dict[str, dict[str, Any]] = {
    "attention": {"data": {"queries": {"shape": [2, 3, 4]}, "keys": {"shape": [1, 5, 4]}}},
    "variance": {"d": [2, 4], "samples": 100},
    "saturation": {"d": [2, 4], "rows": 3, "keys": 4},
    "bench": {"n": [2, 3], "d": 2, "measure": ["scores"]},
    "swap": {"model": "tests.studies.swap.models:tower", "by": ["all", "head", "from"]},
    "fit": {"model": "tests.studies.swap.models:tower", "steps": 2},
    "doctor": {
        "data": {"queries": {"shape": [1, 3, 9, 4]}, "keys": {"shape": [1, 3, 9, 4]}},
        "scorers": [{"scorer": "dot"}, {"scorer": "scaled_dot"}],
    },
    "train": {"d": [2, 3], "steps": 2, "seeds": 2, "test_keys": 5},
}
ENTRIES = [{"scorer": "dot"}, {"scorer": "additive", "label": "mine"}]


@pytest.mark.parametrize("name", STUDIES)
def test_rows_are_as_expected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    study = load_study(name)
    model = options_model(name)
    keys = {"name": "test", "device": "cpu", "scorers": ENTRIES, **SMALL.get(name, {})}
    prepared = study.prepare(model.model_validate(model.normalised(keys)), Progress())
    expected, result = study.expected_rows(prepared), study.run(prepared, Progress())
    check(expected.columns, expected.records, result.records)
    check(expected.comparison_columns, expected.comparisons, result.comparisons)
    check(expected.head_columns, expected.heads, result.heads)
    check(expected.head_comparison_columns, expected.head_comparisons, result.head_comparisons)


def check(columns: Any, known: Any, rows: Any) -> None:
    """Assert that the rows have these columns, and the values that were known before the run."""
    if rows:
        assert {tuple(row) for row in rows} == {tuple(column.key for column in columns)}
    names = list(known[0]) if known else []
    assert sorted(map(str, known)) == sorted(str({name: row[name] for name in names}) for row in rows)
    for column in columns:
        check_column(column, rows)


def check_column(column: Column, rows: list[Row]) -> None:
    """Assert that values can be formatted, are words if `text` is set, and that `about` is a sentence."""
    assert not column.about[0].islower(), column.key
    assert column.about.endswith("."), column.key
    values = [row[column.key] for row in rows if row[column.key] is not None]
    assert all(isinstance(column.format(value), str) for value in values)
    assert {isinstance(value, str | bool) for value in values} <= {column.text}, column.key


def test_rows_of_an_attention_experiment_without_weights() -> None:
    study = load_study("attention")
    keys = {"name": "test", "scorers": ENTRIES, "weights": False, **SMALL["attention"]}
    prepared = study.prepare(options_model("attention").model_validate(keys), Progress())
    result = study.run(prepared, Progress())
    unknown = {key for rows in (result.records, result.comparisons) for key, value in rows[0].items() if value is None}
    assert unknown | {"scores", "capped", "biased", "weights", "dropped"} == set(study.expected_rows(prepared).left_out)
