"""What an expectation asks about: its rows, and the rows that they are compared with. Before the work and after it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attncli.config.expectations import Expectation
from attncli.errors import Collector, InputError, below, did_you_mean
from attncli.results.records import Record
from attncli.studies.outlook import Outlook, Table, pick

STAGES = ("scores", "capped", "weights", "dropped", "output")
INTERVAL = "_ci"  # the end of the names of columns that are intervals


@dataclass(frozen=True)
class Asked:
    """The rows whose metric is looked at, and those that it must be above or below."""

    rows: Sequence[Record]
    others: Sequence[Record]


def check_expectations(expectations: Sequence[Expectation], outlook: Outlook) -> None:
    """Refuse expectations about what no result of this kind will have; all of them at once.

    Raises:
        InputError: see `asked`; paths begin with `expect`.
    """
    collector = Collector()
    for index, expectation in enumerate(expectations):
        with collector.under("expect", index):
            asked(expectation, outlook)
    collector.check()


def asked(expectation: Expectation, outlook: Outlook) -> Asked:
    """The rows of an expectation.

    Raises:
        InputError: an unknown metric or column, values that no row has, several rows where one is asked for, numbers of
            another shape than the stage that they are to equal.
    """
    table = _table(expectation, outlook)
    with below("where"):
        rows = pick(table, expectation.where)
    if expectation.metric in STAGES:
        for row in rows:
            _check_stage(expectation, outlook, row["label"])
    other = getattr(expectation, expectation.kind) if expectation.kind in ("above", "below") else None
    if not isinstance(other, dict):
        return Asked(rows, [])
    with below(expectation.kind):
        return Asked(rows, pick(table, other))


def _table(expectation: Expectation, outlook: Outlook) -> Table:
    """The table that has the metric."""
    metric = expectation.metric
    if outlook.shapes and metric in STAGES:
        if not isinstance(expectation.equal, list):
            message = f'got "{metric}", a stage with many numbers; expected `equal` with nested lists of numbers'
            raise InputError.of(f"{message}, or a column such as entropy", ["metric"])
        return outlook.records
    if metric in outlook.records.columns and not _of_summary(expectation, outlook):
        table = outlook.records
    elif metric in outlook.comparisons.columns:
        table = outlook.comparisons
    else:
        columns = [*outlook.records.columns, *outlook.comparisons.columns, *(STAGES if outlook.shapes else ())]
        numbers = [column for column in columns if not column.endswith(INTERVAL)]
        raise InputError.of(f'got "{metric}"; unknown metric; {did_you_mean(metric, numbers)}', ["metric"])
    if isinstance(expectation.equal, list):
        message = f'got a list for "{metric}", which is no stage; expected one value'
        raise InputError.of(message, ["equal"])
    if metric.endswith(INTERVAL):
        cure = f"such as {metric.removesuffix(INTERVAL)}"
        raise InputError.of(f'got "{metric}", an interval; expected a metric of one number, {cure}', ["metric"])
    if not table.rows:
        raise InputError.of(f'got "{metric}", a figure of comparisons; {table.empty or "there are none"}', ["metric"])
    return table


def _of_summary(expectation: Expectation, outlook: Outlook) -> bool:
    """Whether it stands in both tables, and is asked of no column that only the records have, such as seed."""
    records, summary = outlook.records.columns, outlook.comparisons.columns
    return expectation.metric in summary and not set(expectation.where) & (set(records) - set(summary))


def _check_stage(expectation: Expectation, outlook: Outlook, label: str) -> None:
    metric, shapes = expectation.metric, outlook.shapes[label]
    if metric not in shapes:
        known = did_you_mean(metric, [stage for stage in STAGES if stage in shapes])
        raise InputError.of(f'got "{metric}", a stage that {label} does not have; {known}', ["metric"])
    given, there = sizes(expectation.equal), shapes[metric]
    if without_ones(given) != without_ones(there):
        message = f"got numbers of shape {given}; expected {list(there)}, as the {metric} of {label} have"
        raise InputError.of(f"{message}; leading sizes of 1 may be left out", ["equal"])


def sizes(numbers: Any) -> list[int]:
    """The shape of nested lists that are known to be regular."""
    return [len(numbers), *sizes(numbers[0])] if isinstance(numbers, list) else []


def without_ones(shape: Sequence[int]) -> list[int]:
    """The shape without leading axes of size 1."""
    kept = list(shape)
    while kept and kept[0] == 1:
        kept.pop(0)
    return kept
