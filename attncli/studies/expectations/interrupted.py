"""What can be said of a result where the user ended the work before all rows were there."""

from collections.abc import Mapping
from typing import Any

from attncli.config.expectations import Expectation
from attncli.studies.expectations.asking import other_of, table_of
from attncli.studies.expectations.outlook import Outlook, same
from attncli.studies.study import Record


def lacks_rows(expectation: Expectation, outlook: Outlook, foreseen: Outlook) -> bool:
    """Whether rows are missing that an expectation may ask about, as far as that was known before the work.

    Then a row that it finds need not be the only one, and the whole result might have refused it.
    """
    there = table_of(expectation, outlook).rows
    wheres = [where for where in (expectation.where, other_of(expectation)) if where is not None]
    return any(
        not any(_agree(row, found) for found in there)
        for row in table_of(expectation, foreseen).rows
        if any(_may_be(row, where) for where in wheres)
    )


def _agree(row: Record, found: Record) -> bool:
    """Whether this is the row that was foreseen."""
    return all(found.get(column) == value for column, value in row.items())


def _may_be(row: Record, where: Mapping[str, Any]) -> bool:
    """Whether a row has the values that are asked for; columns that are not known yet may."""
    return all(
        any(same(row[column], value) for value in (wanted if isinstance(wanted, list) else [wanted]))
        for column, wanted in where.items()
        if column in row
    )
