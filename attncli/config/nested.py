"""Numbers, lengths and words written out in YAML as nested lists: are they regular, and where are they not?"""

from collections.abc import Sequence
from typing import Any

from attncli import errors
from attncli.config.strict import problem

LENGTHS = "expected integers such as [2, 6], one list of them per example, {random: [1, 10]} or {file: ...}"
ROWS = "Rows"  # of the JSON Schema: rows of numbers at any depth


def nested_numbers(value: Any) -> Any:
    """Numbers in nested lists of equal lengths, at least two levels deep."""
    check_regular(value)
    if not isinstance(value[0], list):
        raise problem(
            "expected lists within lists: one inner list per row", cure=f"for one row write [{errors.show(value)}]"
        )
    return value


def check_regular(value: Any, place: Sequence[str | int] = ()) -> tuple[int, ...]:
    """The sizes of nested lists of numbers, or the first place where they are not that."""
    if isinstance(value, bool) or not isinstance(value, int | float | list):
        raise problem(f"got {errors.show(value)}; expected a number", under=[*place])
    if not isinstance(value, list):
        return ()
    if not value:
        raise problem("got an empty list; sizes must be at least 1", under=[*place])
    first = check_regular(value[0], [*place, 0])
    for index, item in enumerate(value[1:], start=1):
        sizes = check_regular(item, [*place, index])
        if bool(sizes) != bool(first):
            kind = "a list" if first else "a number"
            raise problem(f"got {errors.show(item)}; expected {kind}, as its neighbours are", under=[*place, index])
        if sizes != first:
            message = f"got sizes {list(sizes)} beside {list(first)}; expected rows of equal length"
            raise problem(message, under=[*place, index])
    return (len(value), *first)


def nested_lengths(value: Any) -> Any:
    """Valid lengths: one integer per example, or one list of them per example."""
    rows = value if any(isinstance(item, list) for item in value) else [value]
    for i, row in enumerate(rows):
        under = [] if rows is not value else [i]
        if not isinstance(row, list):
            raise problem(f"got {errors.show(row)}; expected a list, as its neighbours are", under=[i])
        for j, item in enumerate(row):
            if isinstance(item, bool) or not isinstance(item, int) or item < 0:
                raise problem(f"got {errors.show(item)}; expected an integer of at least 0", under=[*under, j])
        if len(row) != len(rows[0]):
            message = f"got a list of {len(row)} beside a list of {len(rows[0])}; expected one length per query in each"
            raise problem(message, under=[i])
    if not value or not rows[0]:
        raise problem("got an empty list; " + LENGTHS)
    return value


def nested_words(value: Any) -> Any:
    """Tokens: one list, or one list per example."""
    nested = any(isinstance(item, list) for item in value)
    for i, row in enumerate(value if nested else [value]):
        if not isinstance(row, list):
            raise problem(f"got {errors.show(row)}; expected a list, as its neighbours are", under=[i])
        for j, item in enumerate(row):
            if not isinstance(item, str):
                cure = "; put it in quotes" if not isinstance(item, dict | list) else ""
                message = f"got {errors.show(item)}; expected text{cure}"
                raise problem(message, under=[i, j] if nested else [j])
    return value
