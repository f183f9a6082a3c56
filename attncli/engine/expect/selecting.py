"""Find the rows of a result that an expectation refers to: after a run, or before a run as far as rows are known."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attncli.config.expectations import Expectation
from attncli.config.values import sizes_of
from attncli.errors import Collector, InputError, Problem, below, did_you_mean, nearest, plain, show
from attncli.results import INTERVAL, STAGES, Row, Rows

SYMMETRIC = ("js_divergence", "top1_agreement", "max_abs_difference")  # the order of a pair does not matter
MOST_NAMED = 4  # columns in a message, and values of each column


def check_expectations(expectations: Sequence[Expectation], rows: Rows) -> None:
    """Raise an InputError if expectations fit no rows of the result; the paths of its problems begin with `expect`."""
    collector = Collector()
    for index, expectation in enumerate(expectations):
        with collector.under("expect", index):
            select_rows(expectation, rows)
    collector.check()


def select_rows(expectation: Expectation, rows: Rows) -> list[tuple[Row, Row | None]]:
    """Return the rows that an expectation selects, each with the row that its metric must be above or below, if any.

    If the expectation lists values of one column both in `where` and for the rows to compare with, each selected row
    is compared with the row of the same value.

    Raises:
        InputError: a metric or column is unknown, values match no row or several rows, the metric is not a number, or
            the numbers of `equal` have another shape than the stage.
    """
    metric, kind = expectation.metric, expectation.kind
    where, other = (_with_layers(columns, rows.layers) for columns in (expectation.where, expectation.other_row))
    table = _table_of(expectation, rows)
    paired = [name for name, values in other.items() if isinstance(values, list)]
    for name in paired:
        beside = where.get(name)
        if not isinstance(beside, list) or sorted(map(str, other[name])) != sorted(map(str, beside)):
            message = f"got {show(other[name])} beside {show(beside)} in `where`; rows are compared value by value"
            raise InputError.of(f"{message}; expected the same list, or one value", [kind, name])
    with below("where"):
        picked = list(_pick(table, where, metric))
    selected = list[tuple[Row, Row | None]]()
    for wanted, row in picked:
        with below(kind):
            same_values = other | {column: wanted[column] for column in paired}
            beside_it = next((pair[1] for pair in _pick(table, same_values, metric)), None) if other else None
        if rows.shapes and metric in STAGES:
            _check_stage(expectation, rows.shapes[row["label"]], row["label"])
        for figure in (row.get(metric), (beside_it or {}).get(metric)):
            if isinstance(figure, str | bool):
                message = f'got "{metric}", which is {show(figure)}, not a number; expected another metric'
                raise InputError.of(message, ["metric"])
        selected.append((row, beside_it))
    return selected


def _with_layers(columns: Row, layers: Mapping[int, str]) -> Row:
    """Return a copy of `columns` in which numbers of layers are replaced by the names of the layers."""
    if not layers or "layer" not in columns:
        return {**columns}

    def name(value: object) -> Any:
        return layers.get(value, value) if isinstance(value, int) and not isinstance(value, bool) else value

    value = columns["layer"]
    return {**columns, "layer": list(map(name, value)) if isinstance(value, list) else name(value)}


def _table_of(expectation: Expectation, rows: Rows) -> Sequence[Row]:
    """Return the table with the metric of an expectation: records or comparisons, of whole scorers or by head.

    If several tables have the metric, return the table with most of the columns that the expectation names.
    """
    metric, named = expectation.metric, {*expectation.where, *expectation.other_row}
    if metric in rows.left_out:
        message = f'got "{metric}", which is not computed with {rows.left_out[metric]}; expected a run without it'
        raise InputError.of(message, ["metric"])
    tables = [
        ([column.key for column in columns if column.key not in rows.left_out], table)
        for columns, table in (
            (rows.comparison_columns, rows.comparisons),
            (rows.columns, rows.records),
            (rows.head_comparison_columns, rows.head_comparisons),
            (rows.head_columns, rows.heads),
        )
    ]
    is_stage, is_list = bool(rows.shapes) and metric in STAGES, isinstance(expectation.equal, list)
    fitting = tables[1:2] if is_stage else [(keys, table) for keys, table in tables if metric in keys]
    if not fitting:
        raise InputError.of(f'got "{metric}"; unknown metric; {_meant(metric, rows)}', ["metric"])
    keys, table = max(fitting, key=lambda choice: len(named.intersection(choice[0])))
    of_heads = {*tables[3][0]}.difference(tables[0][0], tables[1][0])
    message = ""
    if is_stage and not is_list:
        message = (
            "a stage with many numbers; expected `equal` with nested lists of numbers, or a column such as entropy"
        )
    elif not is_stage and named & of_heads.difference(keys):
        message = "a metric of whole scorers; expected one that each head has, such as entropy, or no batch and head"
    elif is_list and not is_stage:
        raise InputError.of(f'got a list for "{metric}", which is not a stage; expected one value', ["equal"])
    elif metric.endswith(INTERVAL):
        message = f"an interval; expected a metric of one number, such as {metric.removesuffix(INTERVAL)}"
    elif not table:
        message = f"a column of comparisons; {rows.no_comparisons}"
    if message:
        raise InputError.of(f'got "{metric}", {message}', ["metric"])
    for side, columns in (("where", expectation.where), (expectation.kind, expectation.other_row)):
        for column in [column for column in columns if column not in keys]:
            known = dict.fromkeys([*keys, *(key for others, _ in fitting for key in others)])
            raise InputError([Problem(f"no such column; {did_you_mean(column, known)}", (side, column), at_key=True)])
    return table


def _meant(metric: str, rows: Rows) -> str:
    """Return a suggestion for an unknown metric: a similar one, or the list of all metrics that are numbers."""
    of_heads = [column for column in rows.head_columns if column.kind != "place"]  # all that is known before some runs
    stated = (*rows.columns, *rows.comparison_columns) or of_heads
    columns = {column.key: column.text for column in stated}
    columns |= {stage: False for stage in STAGES if any(stage in shapes for shapes in rows.shapes.values())}
    known = {key: text for key, text in columns.items() if key not in rows.left_out and not key.endswith(INTERVAL)}
    return did_you_mean(metric, known if nearest(metric, known) else [key for key, text in known.items() if not text])


def _pick(table: Sequence[Row], where: Row, metric: str) -> Iterator[tuple[Row, Row]]:
    """Yield (values, row) for every combination of the values in `where`; `values` has one value per column.

    Before the run some columns are unknown, so a combination may match several rows.

    Raises:
        InputError: a combination matches no row, or several rows although all columns are known.
    """
    pair = (where.get("b"), where.get("a"))
    if metric in SYMMETRIC and any((row["a"], row["b"]) == pair for row in table):
        where = where | {"a": where["b"], "b": where["a"]}
    for values in itertools.product(*(value if isinstance(value, list) else [value] for value in where.values())):
        wanted = dict(zip(where, values, strict=True))
        matching, before = table, Row()
        for column, value in wanted.items():
            having = [row for row in matching if column not in row or same(row[column], value)]
            if not having:
                path = (column, where[column].index(value)) if isinstance(where[column], list) else (column,)
                among = f" with {described(before)}" if before else ""
                known = dict.fromkeys(plain(row[column]) for row in matching if row.get(column) is not None)
                message = f"no row{among} has this {column}; {did_you_mean(plain(value), known)}"
                message = message if known else f"no row{among} has a {column}; leave it out"
                raise InputError.of(f"got {show(value)}; {message}", path)
            matching, before = having, before | {column: value}
        if len(matching) > 1 and all(column in matching[0] for column in wanted):
            raise InputError.of(_too_many(matching, wanted))
        yield from ((wanted, row) for row in matching)


def same(value: object, wanted: object) -> bool:
    """Whether two values are equal; 1 equals 1.0, but not True."""
    return isinstance(value, bool) == isinstance(wanted, bool) and bool(value == wanted)


def _too_many(rows: Sequence[Row], where: Row) -> str:
    """Return an error message: several rows match `where`, and differ in columns such as `measure (scores, output)`."""
    differ = list[str]()
    for column in rows[0]:
        values = list(dict.fromkeys(plain(row[column]) for row in rows if isinstance(row[column], str | int | None)))
        if len(values) > 1:
            differ.append(f"{column} ({', '.join(values[:MOST_NAMED])}{', ...' if len(values) > MOST_NAMED else ''})")
    named = f", which differ in {', '.join(differ[:MOST_NAMED])}" if differ else ""
    cure = "expected one row, or a list of values to select several"
    return f"got {described(where) if where else 'no `where`'}; {len(rows)} rows match{named}; {cure}"


def described(where: Row) -> str:
    """Return columns and values as text: `scorer = dot, d = 512`."""
    return ", ".join(f"{column} = {plain(value)}" for column, value in where.items())


def _check_stage(expectation: Expectation, shapes: Mapping[str, Sequence[int]], label: str) -> None:
    """Raise an InputError if `label` lacks the expectation's stage, or the stage has another shape than `equal`."""
    metric = expectation.metric
    if metric not in shapes:
        known = did_you_mean(metric, [stage for stage in STAGES if stage in shapes])
        raise InputError.of(f'got "{metric}", a stage that {label} does not have; {known}', ["metric"])
    shape = list(sizes_of(expectation.equal))
    if without_ones(shape) != without_ones(shapes[metric]):
        message = f"got numbers of shape {shape}; expected {list(shapes[metric])}, the shape of {metric} of {label}"
        raise InputError.of(f"{message}; leading sizes of 1 may be left out", ["equal"])


def without_ones(shape: Sequence[int]) -> list[int]:
    """Return the shape without leading axes of size 1."""
    return list(itertools.dropwhile(lambda size: size == 1, shape))
