"""Check expectations before a run, and find the rows that they are about after it."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attncli.config.expectations import Expectation
from attncli.config.values import array_sizes
from attncli.errors import Collector, InputError, Problem, below, did_you_mean, plain, show
from attncli.results import INTERVAL, LABEL, LAYER, PAIR, SCORER, Column, Result, Row, tensor_name

ARRAYS = ("scores", "weights", "output")  # stages that `equal` compares with nested lists
LABELS = ("label", "a", "b")  # columns with labels
SYMMETRIC = ("js_divergence", "top1_agreement", "max_abs_difference")  # the order of a pair does not matter
MOST_NAMED = 4  # columns in a message


def check_expectations(
    expectations: Sequence[Expectation], columns: Iterable[Column], labels: Collection[str], has_arrays: bool
) -> None:
    """Raise an InputError unless metrics and columns are known, and labels are among `labels`.

    `columns` are those that the rows may have. If `has_arrays`, the result has the stages of attention. Which rows have
    the values under `where` is only known after the run.
    """
    by_key = {column.key: column for column in (SCORER, LABEL, LAYER, *PAIR, *columns)}
    collector = Collector()
    for index, expectation in enumerate(expectations):
        with collector.under("expect", index):
            _check_metric(expectation, by_key, has_arrays)
            for side, wanted in (("where", expectation.where), (expectation.kind, expectation.other_row)):
                with below(side):
                    _check_columns(wanted, by_key, labels)
            _check_pairs(expectation)
    collector.check()


def _check_metric(expectation: Expectation, by_key: Mapping[str, Column], has_arrays: bool) -> None:
    metric, is_list, arrays = expectation.metric, isinstance(expectation.equal, list), ARRAYS if has_arrays else ()
    numbers = [key for key, column in by_key.items() if not column.text and not key.endswith(INTERVAL)]
    if metric in arrays:
        if not is_list:
            lists = "expected `equal` with nested lists of numbers, or a column such as entropy"
            raise InputError.of(f'got "{metric}", a stage with many numbers; {lists}', ["metric"])
    elif metric not in by_key:
        meant = [*(key for key in numbers if by_key[key].kind != "place"), *arrays]
        raise InputError.of(f'got "{metric}"; unknown metric; {did_you_mean(metric, meant)}', ["metric"])
    elif metric.endswith(INTERVAL):
        single = f"expected a metric of one number, such as {metric.removesuffix(INTERVAL)}"
        raise InputError.of(f'got "{metric}", an interval; {single}', ["metric"])
    elif metric not in numbers:
        raise InputError.of(f'got "{metric}", a column of words; expected one of numbers', ["metric"])
    elif is_list:
        raise InputError.of(f'got a list for "{metric}", which is not a stage; expected one value', ["equal"])


def _check_columns(wanted: Row, by_key: Mapping[str, Column], labels: Collection[str]) -> None:
    for column, values in wanted.items():
        if column not in by_key:
            raise InputError([Problem(f"no such column; {did_you_mean(column, by_key)}", (column,), at_key=True)])
        for index, value in enumerate(_listed(values) if column in LABELS else ()):
            if value not in labels:
                message = f"got {show(value)}; no row has this label; {did_you_mean(value, labels)}"
                raise InputError.of(message, [column, index] if isinstance(values, list) else [column])


def _check_pairs(expectation: Expectation) -> None:
    """Raise an InputError if rows to compare with have a list of values that `where` does not have."""
    for name, values in expectation.other_row.items():
        beside = expectation.where.get(name)
        if isinstance(values, list) and sorted(map(str, values)) != sorted(map(str, _listed(beside))):
            message = f"got {show(values)} beside {show(beside)} in `where`; rows are compared value by value"
            raise InputError.of(f"{message}; expected the same list, or one value", [expectation.kind, name])


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def select_rows(expectation: Expectation, result: Result) -> list[tuple[Row, Row | None]]:
    """Return the rows that an expectation selects, each with the row that its metric must be above or below, if any.

    If the expectation lists values of one column both in `where` and for the rows to compare with, each selected row
    is compared with the row of the same value.

    Raises:
        InputError: no row has the metric, values match no row or several rows, or the numbers of `equal` have another
            shape than the stage.
    """
    kind = expectation.kind
    where, other = (_with_layer_names(columns, result) for columns in (expectation.where, expectation.other_row))
    table = _table(expectation, result)
    paired = [name for name, values in other.items() if isinstance(values, list)]
    with below("where"):
        picked = list(_pick(table, where, expectation.metric))
    selected = list[tuple[Row, Row | None]]()
    for row in picked:
        with below(kind):
            same_values = other | {column: row[column] for column in paired}
            beside_it = next(_pick(table, same_values, expectation.metric)) if other else None
        selected.append((row, beside_it))
    if isinstance(expectation.equal, list):
        for row in picked:
            _check_shape(expectation, result, row)
    return selected


def _with_layer_names(columns: Row, result: Result) -> Row:
    """Return the columns with names of layers in place of their numbers."""
    names = {number: name for name, number in result.layers.items()}
    if "layer" not in columns:
        return columns
    layers = [names.get(value, value) for value in _listed(columns["layer"])]
    return {**columns, "layer": layers if isinstance(columns["layer"], list) else layers[0]}


def _table(expectation: Expectation, result: Result) -> Sequence[Row]:
    """Return the rows with the metric and most of the columns that an expectation names: means before single rows."""
    metric, columns = expectation.metric, {*expectation.where, *expectation.other_row}
    if isinstance(expectation.equal, list):
        return result.records
    kinds = (result.comparisons, result.records, result.head_comparisons, result.heads)
    tables = [rows for rows in kinds if any(metric in row for row in rows)]
    if not tables:
        raise InputError.of(f'got "{metric}", which no row of this run has', ["metric"])
    return max(tables, key=lambda rows: len(columns & {key for row in rows for key in row}))


def _pick(table: Sequence[Row], where: Row, metric: str) -> Iterator[Row]:
    """Yield the row of every combination of the values in `where`; raise an InputError if it is none or several."""
    pair = (where.get("b"), where.get("a"))
    if metric in SYMMETRIC and any((row.get("a"), row.get("b")) == pair for row in table):
        where = where | {"a": where["b"], "b": where["a"]}
    for values in itertools.product(*map(_listed, where.values())):
        matching, before = table, Row()
        for column, value in zip(where, values, strict=True):
            having = [row for row in matching if same(row.get(column), value)]
            if not having:
                path = (column, where[column].index(value)) if isinstance(where[column], list) else (column,)
                among = f" with {described(before)}" if before else ""
                choices = dict.fromkeys(plain(row[column]) for row in matching if row.get(column) is not None)
                message = f"no row{among} has this {column}; {did_you_mean(plain(value), choices)}"
                message = message if choices else f"no row{among} has a {column}; leave it out"
                raise InputError.of(f"got {show(value)}; {message}", path)
            matching, before = having, before | {column: value}
        if len(matching) > 1:
            raise InputError.of(_too_many(matching, before))
        yield from matching


def same(value: object, wanted: object) -> bool:
    """Whether two values are equal; 1 equals 1.0, but not True."""
    return isinstance(value, bool) == isinstance(wanted, bool) and bool(value == wanted)


def _too_many(rows: Sequence[Row], where: Row) -> str:
    """Return an error message: several rows match `where`, and differ in columns such as `measure`."""
    words = [column for column, value in rows[0].items() if isinstance(value, str | int | None)]
    differ = [column for column in words if len({row[column] for row in rows}) > 1]
    columns = f", which differ in {', '.join(differ[:MOST_NAMED])}" if differ else ""
    cure = "expected one row, or a list of values to select several"
    return f"got {described(where) if where else 'no `where`'}; {len(rows)} rows match{columns}; {cure}"


def described(where: Row) -> str:
    """Return columns and values as text: `scorer = dot, d = 512`."""
    return ", ".join(f"{column} = {plain(value)}" for column, value in where.items())


def _check_shape(expectation: Expectation, result: Result, row: Row) -> None:
    """Raise an InputError unless the row's label has the stage, in the shape of the numbers in `equal`."""
    metric, label = expectation.metric, row["label"]
    stage = result.tensors.get(tensor_name(label, metric, layer=row.get("layer")))
    if stage is None:
        raise InputError.of(f'got "{metric}", a stage that {label} does not have', ["metric"])
    shape = list(array_sizes(expectation.equal))
    if without_ones(shape) != without_ones(stage.shape):
        message = f"got numbers of shape {shape}; expected {list(stage.shape)}, the shape of {metric} of {label}"
        raise InputError.of(f"{message}; leading sizes of 1 may be left out", ["equal"])


def without_ones(shape: Sequence[int]) -> list[int]:
    """Return the shape without leading axes of size 1."""
    return list(itertools.dropwhile(lambda size: size == 1, shape))
