"""Find the rows of an expectation: before the work, as far as they are known, and after it."""

import difflib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from attncli.common.study import INTERVAL, STAGES, Column, Record, Rows
from attncli.config.expectations import Expectation
from attncli.config.values import sizes_of
from attncli.errors import Collector, InputError, Problem, below, did_you_mean, plain, show

SYMMETRIC = ("js_divergence", "top1_agreement", "max_abs_difference")  # the same for a pair in either order
MOST_NAMED = 4  # columns, and values of a column, in a message


class Table(NamedTuple):
    """Rows of one kind, known or still to come; `places` are keys that select another kind."""

    columns: Sequence[Column]
    rows: Sequence[Record]
    places: Sequence[str] = ()

    @property
    def keys(self) -> list[str]:
        """The keys of its columns."""
        return [column.key for column in self.columns]


def check_expectations(expectations: Sequence[Expectation], rows: Rows) -> None:
    """Raise an InputError, with paths below `expect`, for all expectations about rows that will not exist."""
    collector = Collector()
    for index, expectation in enumerate(expectations):
        with collector.under("expect", index):
            asked(expectation, rows)
    collector.check()


def asked(expectation: Expectation, rows: Rows) -> list[tuple[Record, list[Record]]]:
    """Return the rows of an expectation, each with the rows that it must be above or below.

    If both sides have a list for a column, each row is compared with the row with the same value.

    Raises:
        InputError: an unknown metric or column, values without a row, several rows in place of one, text in place of a
            number, or numbers of another shape than the stage.
    """
    table, metric, where, kind = _table_of(expectation, rows), expectation.metric, expectation.where, expectation.kind
    other = _other_row(expectation)
    with below(kind):
        paired = _paired(where, other)
    found = list[tuple[Record, list[Record]]]()
    with below("where"):
        picked = list(_pick(table, where, expectation, rows))
    for wanted, row in picked:
        others = list[Record]()
        if other:
            with below(kind):
                same_values = other | {column: wanted[column] for column in paired}
                others = [each for _, each in _pick(table, same_values, expectation, rows)]
        found.append((row, others))
        if rows.shapes and metric in STAGES:
            _check_stage(expectation, rows.shapes[row["label"]], row["label"])
        for figure in (each.get(metric) for each in (row, *others)):
            if kind != "equal" and isinstance(figure, str | bool):
                message = f'got "{metric}", which is {show(figure)}, not a number; expected `equal`, or another metric'
                raise InputError.of(message, ["metric"])
    return found


def _other_row(expectation: Expectation) -> dict[str, Any]:
    """Return the keys of the row to be above or below, if any."""
    bound = getattr(expectation, expectation.kind)
    return bound if isinstance(bound, dict) else {}


def _tables(expectation: Expectation, rows: Rows) -> tuple[Table, Table]:
    """Return records and comparisons; by head if `batch` or `head` is named, which no other rows have."""
    known = {column.key for column in (*rows.columns, *rows.comparison_columns)}
    places = [column.key for column in rows.head_columns if column.key not in known]
    if set(places) & {*expectation.where, *_other_row(expectation)}:
        return Table(rows.head_columns, rows.heads), Table(rows.head_comparison_columns, rows.head_comparisons)
    return Table(rows.columns, rows.records, places), Table(rows.comparison_columns, rows.comparisons, places)


def _table_of(expectation: Expectation, rows: Rows) -> Table:
    """Return the records or the comparisons with the metric."""
    metric = expectation.metric
    if metric in rows.left_out:
        message = f'got "{metric}", which is not computed with {rows.left_out[metric]}; expected a run without it'
        raise InputError.of(message, ["metric"])
    if rows.shapes and metric in STAGES:
        if not isinstance(expectation.equal, list):
            message = f'got "{metric}", a stage with many numbers; expected `equal` with nested lists of numbers'
            raise InputError.of(f"{message}, or a column such as entropy", ["metric"])
        return Table(rows.columns, rows.records)
    records, comparisons = _tables(expectation, rows)
    in_records, in_comparisons = metric in records.keys, metric in comparisons.keys
    if not in_records and not in_comparisons:
        if metric in (column.key for column in (*rows.columns, *rows.comparison_columns)):
            message = f'got "{metric}", a figure of whole scorers; expected one that each head has, such as entropy'
            raise InputError.of(f"{message}, or no batch and head", ["metric"])
        raise InputError.of(f'got "{metric}"; unknown metric; {_meant(metric, rows)}', ["metric"])
    if in_records and in_comparisons:  # for example of seeds and their mean: a column of records alone decides
        only_records = set(records.keys) - set(comparisons.keys)
        in_records = bool(only_records & {*expectation.where, *_other_row(expectation)})
    table = records if in_records else comparisons
    if isinstance(expectation.equal, list):
        raise InputError.of(f'got a list for "{metric}", which is not a stage; expected one value', ["equal"])
    if metric.endswith(INTERVAL):
        cure = f"such as {metric.removesuffix(INTERVAL)}"
        raise InputError.of(f'got "{metric}", an interval; expected a metric of one number, {cure}', ["metric"])
    if not table.rows:
        raise InputError.of(f'got "{metric}", a column of comparisons; {rows.no_comparisons}', ["metric"])
    return table


def _meant(metric: str, rows: Rows) -> str:
    """Suggest a similar metric, or list all metrics that are numbers."""
    stages = [stage for stage in STAGES if any(stage in shapes for shapes in rows.shapes.values())]
    columns = {column.key: column.text for column in (*rows.columns, *rows.comparison_columns)}
    columns |= dict.fromkeys(stages, False)
    known = {key: text for key, text in columns.items() if key not in rows.left_out and not key.endswith(INTERVAL)}
    near = difflib.get_close_matches(metric, known, n=1)
    return did_you_mean(metric, near or [key for key, text in known.items() if not text])


def _paired(where: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the columns with a list on both sides."""
    columns = [name for name, value in other.items() if isinstance(value, list) and isinstance(where.get(name), list)]
    for name in columns:
        if not all(value in where[name] for value in other[name]) or len(other[name]) != len(where[name]):
            message = f"got {show(other[name])} beside {show(where[name])} in `where`; rows are compared value by value"
            raise InputError.of(f"{message}; expected the same list, or one value", [name])
    return columns


def _pick(table: Table, where: dict[str, Any], expectation: Expectation, rows: Rows) -> Iterator[tuple[Record, Record]]:
    """Yield every combination of the values in `where`, with its row.

    Before the work some columns are unknown, so several rows may match.

    Raises:
        InputError: unknown columns, values without a row, or several rows for one combination.
    """
    known = [column for column in table.keys if column not in rows.left_out]
    for column in where:
        if column not in known:
            message = f"no such column; {did_you_mean(column, [*known, *table.places])}"
            raise InputError([Problem(message, (column,), at_key=True)])
    pair = (where.get("b"), where.get("a"))
    if expectation.metric in SYMMETRIC and any((row["a"], row["b"]) == pair for row in table.rows):
        where = where | {"a": where["b"], "b": where["a"]}
    listed = [value if isinstance(value, list) else [value] for value in where.values()]
    for values in itertools.product(*listed):
        wanted = dict(zip(where, values, strict=True))
        found, before = table.rows, Record()
        for column, value in wanted.items():
            having = [row for row in found if column not in row or same(row[column], value)]
            if not having:
                path = (column, where[column].index(value)) if isinstance(where[column], list) else (column,)
                raise InputError.of(_nothing(found, column, value, before), path)
            found, before = having, before | {column: value}
        if len(found) > 1 and all(column in found[0] for column in wanted):
            raise InputError.of(_too_many(found, wanted))
        yield from ((wanted, row) for row in found)


def same(value: Any, wanted: Any) -> bool:
    """Whether two values are equal: 1 is 1.0, but not true."""
    return isinstance(value, bool) == isinstance(wanted, bool) and bool(value == wanted)


def _nothing(rows: Sequence[Record], column: str, value: Any, before: Record) -> str:
    among = f" with {described(before)}" if before else ""
    known = dict.fromkeys(plain(row[column]) for row in rows if row.get(column) is not None)
    if not known:
        return f"got {show(value)}; no row{among} has a {column}; leave it out"
    return f"got {show(value)}; no row{among} has this {column}; {did_you_mean(plain(value), known)}"


def _too_many(rows: Sequence[Record], where: Record) -> str:
    """Return a message with the columns in which the rows differ: `measure (scores, output)`."""
    differ = list[str]()
    for column in rows[0]:
        values = list(dict.fromkeys(plain(row[column]) for row in rows if isinstance(row[column], str | int | None)))
        if len(values) > 1:
            differ.append(f"{column} ({', '.join(values[:MOST_NAMED])}{', ...' if len(values) > MOST_NAMED else ''})")
    named = f", which differ in {', '.join(differ[:MOST_NAMED])}" if differ else ""
    cure = "expected one row, or a list of values to select several"
    return f"got {described(where) if where else 'no `where`'}; {len(rows)} rows match{named}; {cure}"


def described(where: Record) -> str:
    """Return `scorer = dot, d = 512`."""
    return ", ".join(f"{column} = {plain(value)}" for column, value in where.items())


def _check_stage(expectation: Expectation, shapes: Mapping[str, Sequence[int]], label: str) -> None:
    """Raise an InputError for a stage that the label lacks, or numbers of another shape."""
    metric = expectation.metric
    if metric not in shapes:
        known = did_you_mean(metric, [stage for stage in STAGES if stage in shapes])
        raise InputError.of(f'got "{metric}", a stage that {label} does not have; {known}', ["metric"])
    given = list(sizes_of(expectation.equal))
    if without_ones(given) != without_ones(shapes[metric]):
        message = f"got numbers of shape {given}; expected {list(shapes[metric])}, the shape of {metric} of {label}"
        raise InputError.of(f"{message}; leading sizes of 1 may be left out", ["equal"])


def without_ones(shape: Sequence[int]) -> list[int]:
    """Return the shape without leading axes of size 1."""
    return list(itertools.dropwhile(lambda size: size == 1, shape))
