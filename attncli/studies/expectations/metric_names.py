"""The names of metrics: which there are, and which is meant by one that is unknown."""

import difflib

from attncli.errors import did_you_mean
from attncli.studies.expectations.outlook import Outlook, Table
from attncli.studies.expectations.stage_shapes import STAGES

TEXTS = ("a", "b", "theory", "status", "reason", "against")  # columns of text, which rows need not show before the work
INTERVAL = "_ci"  # the end of the names of columns that are intervals


def meant(metric: str, outlook: Outlook) -> str:
    """The nearest of all metrics, or the list of those that are numbers."""
    stages = [stage for stage in STAGES if any(stage in shapes for shapes in outlook.shapes.values())]
    columns = dict.fromkeys([*outlook.records.columns, *outlook.comparisons.columns, *stages])
    known = [column for column in columns if not column.endswith(INTERVAL)]
    words = {*TEXTS, *(name for table in (outlook.records, outlook.comparisons) for name in _texts(table))}
    near = difflib.get_close_matches(metric, known, n=1)
    return did_you_mean(metric, near or [column for column in known if column not in words])


def _texts(table: Table) -> set[str]:
    """The columns that are known to have no numbers."""
    return {name for row in table.rows for name, value in row.items() if isinstance(value, str | bool)}
