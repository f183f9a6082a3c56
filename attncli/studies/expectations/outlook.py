"""The rows that a result has, or will have: as far as they are known before the work."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from attncli.errors import InputError, Problem, did_you_mean, plain, show
from attncli.studies.expectations.stage_shapes import Shapes
from attncli.studies.study import Record

if TYPE_CHECKING:
    pass

MOST_SAID = 4  # columns that a message names


@dataclass(frozen=True)
class Table:
    """Rows with the columns that are known so far, of all the `columns` that they have in the end.

    `empty` says why there are none, where there could be some.
    """

    rows: Sequence[Record] = ()
    columns: Sequence[str] = ()
    empty: str = ""


@dataclass(frozen=True)
class Outlook:
    """The tables of a result, and the shapes of its stages where it has any.

    `left_out` has metrics that an option of the experiment leaves out, each with that option.
    """

    records: Table
    comparisons: Table = Table()
    shapes: Shapes = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)


def outlook_of(result: Any) -> Outlook:
    """All that a result has."""
    shapes: dict[str, dict[str, Sequence[int]]] = {}
    for name, tensor in result.tensors.items() if result.study == "attention" else ():
        label, _, stage = name.rpartition("/")
        shapes.setdefault(label, {})[stage] = tensor.shape
    return Outlook(_whole(result.records), _whole(result.comparisons), shapes)


def _whole(rows: Sequence[Record]) -> Table:
    columns = list(dict.fromkeys(chain.from_iterable(rows)))
    return Table([dict.fromkeys(columns) | row for row in rows], columns)


def pick(table: Table, where: Mapping[str, Any], *, beside: bool = False) -> list[Record]:
    """The row that `where` asks for; where lists stand in it, one row for every combination of their values.

    `beside` says that it is the row that others are compared with, of which one is wanted.

    Raises:
        InputError: columns that do not exist, values that no row has, one row asked for where there are several.
    """
    for column in where:
        if column not in table.columns:
            raise InputError(
                [Problem(f"no such column; {did_you_mean(column, table.columns)}", (column,), at_key=True)]
            )
    return list(_narrowed(table.rows, list(where.items()), {}, beside))


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
            raise InputError.of(
                _nothing(rows, column, value, before), (column, index) if isinstance(wanted, list) else (column,)
            )
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
    given = described(where) if where else "no `where`"
    cure = "expected one, or a list of values to ask it of several"
    if beside:
        cure = f"expected one; name its {differ[0]}, too" if differ else "expected one"
    return f"got {given}; {len(rows)} rows match{named}; {cure}"


def _values(rows: Sequence[Record], name: str) -> str:
    """`measure (scores, output)`: a column, and what it has, or the first of that."""
    values = list(dict.fromkeys(plain(row[name]) for row in rows))
    return f"{name} ({', '.join(values[:MOST_SAID])}{', ...' if len(values) > MOST_SAID else ''})"


def described(where: Mapping[str, Any]) -> str:
    """`scorer = dot, d = 512`."""
    return ", ".join(f"{column} = {plain(value)}" for column, value in where.items())
