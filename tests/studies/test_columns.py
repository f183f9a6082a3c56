"""Every study has a column for each key of its rows, has the labels of its entries, and prints on any screen."""

from collections.abc import Sequence
from functools import cache

import pytest
from rich.cells import cell_len

from attncli.engine.views import result_tables
from attncli.results import Column, Result, Row
from attncli.runtime import Progress
from attncli.show.terminal.tables import SCREEN, findings, recorded
from attncli.studies import STUDIES, load_study, options_model
from tests.studies.bench.small import hurry
from tests.test_python import STUDIES as SMALL

ENTRIES = [{"scorer": "dot"}, {"scorer": "additive", "label": "mine"}]


@cache
def result_of(name: str) -> Result:
    """Return the result of a small experiment."""
    with pytest.MonkeyPatch.context() as patch:
        hurry(patch)
        study, model = load_study(name), options_model(name)
        keys = {"name": "test", "device": "cpu", **SMALL.get(name, {}), "scorers": ENTRIES}
        return study.run(study.prepare(model.model_validate(model.normalised(keys)), Progress()), Progress())


@pytest.mark.parametrize("name", STUDIES)
def test_rows_have_the_columns_of_the_study_and_its_labels(name: str) -> None:
    study, result = load_study(name), result_of(name)
    for kind, rows in result.rows.items():
        columns = {column.key: column for column in study.columns.get(kind, ())}
        assert len({tuple(row) for row in rows}) <= 1, "every row has the same keys"
        assert all([key for key in columns if key in row] == [*row] for row in rows), "in the order of the columns"
        for key in rows[0] if rows else ():
            check_column(columns[key], rows)
    labels = {row[key] for rows in result.rows.values() for row in rows for key in ("label", "a", "b") if key in row}
    assert labels == {"dot", "mine", *study.references}


def check_column(column: Column, rows: Sequence[Row]) -> None:
    """Assert that values can be formatted, are words if `text` is set, and that `about` is a sentence."""
    assert not column.about[0].islower(), column.key
    assert column.about.endswith("."), column.key
    values = [row[column.key] for row in rows if row[column.key] is not None]
    assert all(isinstance(column.format(value), str) for value in values)
    assert {isinstance(value, str | bool) for value in values} <= {column.text}, column.key


@pytest.mark.parametrize("most", [SCREEN, None])
@pytest.mark.parametrize("study", STUDIES)
def test_narrow_screens(study: str, most: int | None) -> None:
    """Numbers may be cut where there is no room, but every table and every finding is printed."""
    result = result_of(study)
    for width in (1, 10, 20, 47):
        printed = [*result_tables(result, width, most)]
        text = recorded([*printed, *findings(result.findings)], width).export_text()
        assert text.count("\n") > len(printed)
        assert max(map(cell_len, text.splitlines())) <= width
