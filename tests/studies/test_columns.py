"""Every study has a column for each key of its rows, and its rows have the labels of its entries."""

from collections.abc import Sequence
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
def test_rows_have_the_columns_of_the_study_and_its_labels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    study = load_study(name)
    model = options_model(name)
    keys = {"name": "test", "device": "cpu", "scorers": ENTRIES, **SMALL.get(name, {})}
    options = model.model_validate(model.normalised(keys))
    result = study.run(study.prepare(options, Progress()), Progress())
    for kind, rows in result.rows.items():
        columns = {column.key: column for column in study.columns.get(kind, ())}
        assert len({tuple(row) for row in rows}) <= 1, "every row has the same keys"
        assert all([key for key in columns if key in row] == [*row] for row in rows), "in the order of the columns"
        for key in rows[0] if rows else ():
            check_column(columns[key], rows)
    labels = {row[key] for rows in result.rows.values() for row in rows for key in ("label", "a", "b") if key in row}
    assert labels == {*(entry.label for entry in options.scorers), *study.references}


def check_column(column: Column, rows: Sequence[Row]) -> None:
    """Assert that values can be formatted, are words if `text` is set, and that `about` is a sentence."""
    assert not column.about[0].islower(), column.key
    assert column.about.endswith("."), column.key
    values = [row[column.key] for row in rows if row[column.key] is not None]
    assert all(isinstance(column.format(value), str) for value in values)
    assert {isinstance(value, str | bool) for value in values} <= {column.text}, column.key
