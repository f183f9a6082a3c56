"""What an expectation asks about: its rows, and the rows that they are compared with. Before the work and after it."""

from collections.abc import Sequence
from typing import Any

from attncli.config.expectations import Expectation
from attncli.errors import Collector, InputError, below, show
from attncli.studies.expectations.metric_names import INTERVAL, meant
from attncli.studies.expectations.outlook import Outlook, Table, pick, same
from attncli.studies.expectations.stage_shapes import STAGES, check_stage
from attncli.studies.study import Record

SYMMETRIC = ("js_divergence", "top1_agreement", "max_abs_difference")  # the same for a pair in either order

Asked = Sequence[tuple[Record, Sequence[Record]]]  # rows, each with those that it must be above or below


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

    Where both sides have a list for a column, each row is compared with the one of its own value.

    Raises:
        InputError: an unknown metric or column, values that no row has, several rows where one is asked for, text where
            a number is needed, numbers of another shape than the stage that they are to equal.
    """
    table, metric, where = table_of(expectation, outlook), expectation.metric, expectation.where
    with below("where"):
        rows = pick(table, in_order(table, where, metric))
    if metric in STAGES:
        for row in rows:
            check_stage(expectation, outlook.shapes, row["label"])
    other = other_of(expectation)
    if other is None:
        found: Asked = [(row, []) for row in rows]
    else:
        with below(expectation.kind):
            paired = _paired(where, other)
            others = pick(table, in_order(table, other, metric), beside=True)
        found = [(row, [each for each in others if _agree(row, each, paired)]) for row in rows]
    for row in (row for one, others in found for row in (one, *others)):
        _check_number(expectation, row.get(metric))
    return found


def other_of(expectation: Expectation) -> dict[str, Any] | None:
    """The row to be above or below, if it is one."""
    other = getattr(expectation, expectation.kind) if expectation.kind in ("above", "below") else None
    return other if isinstance(other, dict) else None


def _paired(where: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The columns that have a list on both sides."""
    columns = [name for name, value in other.items() if isinstance(value, list) and isinstance(where.get(name), list)]
    for name in columns:
        if not all(value in where[name] for value in other[name]) or len(other[name]) != len(where[name]):
            message = f"got {show(other[name])} beside {show(where[name])} in `where`; rows are compared value by value"
            raise InputError.of(f"{message}; expected the same list, or one value", [name])
    return columns


def _agree(row: Record, other: Record, columns: Sequence[str]) -> bool:
    """Whether two rows have the same values, as far as they are known yet."""
    return all(same(row[name], other[name]) for name in columns if name in row and name in other)


def in_order(table: Table, where: dict[str, Any], metric: str) -> dict[str, Any]:
    """The pair of scorers that `where` names, as the table has it, where the metric is the same both ways.

    Raises:
        InputError: it is not.
    """
    a, b = where.get("a"), where.get("b")
    pairs = [(row.get("a"), row.get("b")) for row in table.rows]
    if a is None or b is None or (a, b) in pairs or (b, a) not in pairs:
        return where
    if metric in SYMMETRIC:
        return where | {"a": b, "b": a}
    message = f"got a: {a}, b: {b}; {metric} is relative to a, and of these two"
    raise InputError.of(f"{message} it is known as a: {b}, b: {a}; swap them, or the scorers")


def _check_number(expectation: Expectation, figure: Any) -> None:
    if expectation.kind != "equal" and isinstance(figure, str | bool):
        message = f'got "{expectation.metric}", which is {show(figure)} and no number; expected `equal`'
        raise InputError.of(f"{message}, or another metric", ["metric"])


def table_of(expectation: Expectation, outlook: Outlook) -> Table:
    """The table that has the metric."""
    metric = expectation.metric
    if metric in outlook.left_out:
        option = outlook.left_out[metric]
        raise InputError.of(f'got "{metric}", which {option} leaves out; expected a run without it', ["metric"])
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
        raise InputError.of(f'got "{metric}"; unknown metric; {meant(metric, outlook)}', ["metric"])
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
    named = {*expectation.where, *(other_of(expectation) or {})}
    return expectation.metric in summary and not named & (set(records) - set(summary))
