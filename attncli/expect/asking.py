"""Which rows and figures an expectation asks about: before the work, as far as rows are known, and after it."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attncli.config.expectations import Expectation
from attncli.errors import Collector, InputError, Problem, below, did_you_mean, plain, show
from attncli.studies.study import STAGES, Record, Rows

SYMMETRIC = ("js_divergence", "top1_agreement", "max_abs_difference")  # the same for a pair in either order
INTERVAL = "_ci"  # the end of the names of columns that are intervals
MOST_SAID = 4  # columns that a message names
Asked = Sequence[tuple[Record, Sequence[Record]]]  # rows, each with those that it must be above or below


def check_expectations(expectations: Sequence[Expectation], rows: Rows) -> None:
    """Refuse expectations about what no result of this kind will have; all of them at once.

    Raises:
        InputError: see `asked`; paths begin with `expect`.
    """
    collector = Collector()
    for index, expectation in enumerate(expectations):
        with collector.under("expect", index):
            asked(expectation, rows)
    collector.check()


def asked(expectation: Expectation, rows: Rows) -> Asked:
    """The rows of an expectation.

    Where both sides have a list for a column, each row is compared with the one of its own value.

    Raises:
        InputError: an unknown metric or column, values that no row has, several rows where one is asked for, text where
            a number is needed, numbers of another shape than the stage that they are to equal.
    """
    table, metric, where = table_of(expectation, rows), expectation.metric, expectation.where
    with below("where"):
        picked = _pick(table, _in_order(table, where, metric), rows)
    if metric in STAGES:
        for row in picked:
            _check_stage(expectation, rows, row["label"])
    other = other_of(expectation)
    if other is None:
        found: Asked = [(row, []) for row in picked]
    else:
        with below(expectation.kind):
            paired = _paired(where, other)
            others = _pick(table, _in_order(table, other, metric), rows, beside=True)
        found = [(row, [each for each in others if _agree(row, each, paired)]) for row in picked]
    for row in (row for one, others in found for row in (one, *others)):
        _check_number(expectation, row.get(metric))
    return found


def other_of(expectation: Expectation) -> dict[str, Any] | None:
    """The row to be above or below, if it is one."""
    other = getattr(expectation, expectation.kind) if expectation.kind in ("above", "below") else None
    return other if isinstance(other, dict) else None


def table_of(expectation: Expectation, rows: Rows) -> Sequence[Record]:
    """The records or the comparisons, whichever have the metric."""
    metric = expectation.metric
    if metric in rows.left_out:
        message = f'got "{metric}", which {rows.left_out[metric]} leaves out; expected a run without it'
        raise InputError.of(message, ["metric"])
    if rows.shapes and metric in STAGES:
        if not isinstance(expectation.equal, list):
            message = f'got "{metric}", a stage with many numbers; expected `equal` with nested lists of numbers'
            raise InputError.of(f"{message}, or a column such as entropy", ["metric"])
        return rows.records
    if metric in rows.record_keys and not _of_summary(expectation, rows):
        table = rows.records
    elif metric in rows.comparison_keys:
        table = rows.comparisons
    else:
        raise InputError.of(f'got "{metric}"; unknown metric; {_meant(metric, rows)}', ["metric"])
    if isinstance(expectation.equal, list):
        raise InputError.of(f'got a list for "{metric}", which is no stage; expected one value', ["equal"])
    if metric.endswith(INTERVAL):
        cure = f"such as {metric.removesuffix(INTERVAL)}"
        raise InputError.of(f'got "{metric}", an interval; expected a metric of one number, {cure}', ["metric"])
    if not table:
        raise InputError.of(f'got "{metric}", a figure of comparisons; {rows.no_comparisons}', ["metric"])
    return table


def _of_summary(expectation: Expectation, rows: Rows) -> bool:
    """Whether both tables have it, and it is asked of no column that only the records have, such as seed."""
    named = {*expectation.where, *(other_of(expectation) or {})}
    only_records = set(rows.record_keys) - set(rows.comparison_keys)
    return expectation.metric in rows.comparison_keys and not named & only_records


def _meant(metric: str, rows: Rows) -> str:
    """The nearest of all metrics, or the list of those that are numbers."""
    stages = [stage for stage in STAGES if any(stage in shapes for shapes in rows.shapes.values())]
    columns = {column.key: column.text for column in (*rows.columns, *rows.comparison_columns)}
    columns |= dict.fromkeys(stages, False)
    known = {key: text for key, text in columns.items() if key not in rows.left_out and not key.endswith(INTERVAL)}
    near = difflib.get_close_matches(metric, known, n=1)
    return did_you_mean(metric, near or [key for key, text in known.items() if not text])


def _pick(table: Sequence[Record], where: Mapping[str, Any], rows: Rows, *, beside: bool = False) -> list[Record]:
    """The row that `where` asks for; where lists stand in it, one row for every combination of their values.

    `beside` says that it is the row that others are compared with, of which one is wanted.

    Raises:
        InputError: columns that do not exist, values that no row has, one row asked for where there are several.
    """
    columns = rows.record_keys if table is rows.records else rows.comparison_keys
    known = [column for column in columns if column not in rows.left_out]
    for column in where:
        if column not in known:
            raise InputError([Problem(f"no such column; {did_you_mean(column, known)}", (column,), at_key=True)])
    return list(_narrowed(table, list(where.items()), {}, beside))


def _narrowed(
    rows: Sequence[Record], where: Sequence[tuple[str, Any]], before: Record, beside: bool
) -> Iterator[Record]:
    """The rows that have these values, column by column; `before` are the columns looked at already."""
    if not where:
        if len(rows) > 1 and all(column in rows[0] for column in before):  # else they are not all known yet
            raise InputError.of(_too_many(rows, before, beside))
        yield from rows
        return
    (column, wanted), *rest = where
    for index, value in enumerate(wanted if isinstance(wanted, list) else [wanted]):
        found = [row for row in rows if column not in row or same(row[column], value)]
        if not found:
            path = (column, index) if isinstance(wanted, list) else (column,)
            raise InputError.of(_nothing(rows, column, value, before), path)
        yield from _narrowed(found, rest, before | {column: value}, beside)


def same(value: Any, wanted: Any) -> bool:
    """Whether a value is the one that is wanted: 1 is 1.0, but not true."""
    return isinstance(value, bool) == isinstance(wanted, bool) and bool(value == wanted)


def _nothing(rows: Sequence[Record], column: str, value: Any, before: Record) -> str:
    among = f" of those with {described(before)}" if before else ""
    known = dict.fromkeys(plain(row[column]) for row in rows if column in row)
    return f"got {show(value)}; no row{among} has this {column}; {did_you_mean(plain(value), known)}"


def _too_many(rows: Sequence[Record], where: Mapping[str, Any], beside: bool) -> str:
    kinds = (str, int, type(None))
    differ = [name for name in rows[0] if len({row[name] for row in rows if isinstance(row[name], kinds)}) > 1]
    named = f", which differ in {', '.join(_values(rows, name) for name in differ[:MOST_SAID])}" if differ else ""
    cure = "expected one, or a list of values to ask it of several"
    if beside:
        cure = f"expected one; name its {differ[0]}, too" if differ else "expected one"
    return f"got {described(where) if where else 'no `where`'}; {len(rows)} rows match{named}; {cure}"


def _values(rows: Sequence[Record], name: str) -> str:
    """`measure (scores, output)`: a column, and what it has, or the first of that."""
    values = list(dict.fromkeys(plain(row[name]) for row in rows))
    return f"{name} ({', '.join(values[:MOST_SAID])}{', ...' if len(values) > MOST_SAID else ''})"


def described(where: Mapping[str, Any]) -> str:
    """`scorer = dot, d = 512`."""
    return ", ".join(f"{column} = {plain(value)}" for column, value in where.items())


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


def _in_order(table: Sequence[Record], where: dict[str, Any], metric: str) -> dict[str, Any]:
    """The pair of scorers that `where` names, as the table has it, where the metric is the same both ways.

    Raises:
        InputError: it is not.
    """
    a, b = where.get("a"), where.get("b")
    pairs = [(row.get("a"), row.get("b")) for row in table]
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


def _check_stage(expectation: Expectation, rows: Rows, label: str) -> None:
    """Refuse a stage that the label does not have, and numbers of another shape than it has."""
    metric, shapes = expectation.metric, rows.shapes[label]
    if metric not in shapes:
        known = did_you_mean(metric, [stage for stage in STAGES if stage in shapes])
        raise InputError.of(f'got "{metric}", a stage that {label} does not have; {known}', ["metric"])
    given, there = _sizes(expectation.equal), shapes[metric]
    if without_ones(given) != without_ones(there):
        message = f"got numbers of shape {given}; expected {list(there)}, as the {metric} of {label} have"
        raise InputError.of(f"{message}; leading sizes of 1 may be left out", ["equal"])


def _sizes(numbers: Any) -> list[int]:
    """The shape of nested lists that are known to be regular."""
    return [len(numbers), *_sizes(numbers[0])] if isinstance(numbers, list) else []


def without_ones(shape: Sequence[int]) -> list[int]:
    """The shape without leading axes of size 1."""
    sizes = list(shape)
    while sizes and sizes[0] == 1:
        sizes.pop(0)
    return sizes
