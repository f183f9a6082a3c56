"""Numbers, lengths and words written out in YAML as nested lists: are they regular, and where are they not?"""

from collections.abc import Callable, Sequence
from typing import Any

from attncli import errors
from attncli.config.strict import problem

LENGTHS = "expected integers such as [2, 6], one list of them per example, {random: [1, 10]} or {file: ...}"
ROWS = "Rows"  # of the JSON Schema: rows of numbers at any depth


def check_regular(value: Any, place: Sequence[str | int] = ()) -> tuple[int, ...]:
    """The sizes of nested lists of numbers, or the first place where they are not that."""
    if isinstance(value, bool) or not isinstance(value, int | float | list):
        raise problem(f"got {errors.show(value)}; expected a number", under=place)
    if not isinstance(value, list):
        return ()
    if not value:
        raise problem("got an empty list; sizes must be at least 1", under=place)
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


def nested_numbers(value: list[Any]) -> list[Any]:
    """Numbers in nested lists of equal lengths, at least two levels deep."""
    if len(check_regular(value)) < 2:
        cure = f"for one row write [{errors.show(value)}]"
        raise problem(f"got {errors.show(value)}; expected lists within lists: one inner list per row", cure=cure)
    return value


def _rows(value: list[Any], is_good: Callable[[Any], bool], expected: Callable[[Any], str]) -> list[list[Any]]:
    """One list, or one per example, of good entries: as a list of lists."""
    nested = any(isinstance(item, list) for item in value)
    for i, row in enumerate(value if nested else [value]):
        if not isinstance(row, list):
            raise problem(f"got {errors.show(row)}; expected a list, as its neighbours are", under=[i])
        for j, item in enumerate(row):
            if not is_good(item):
                raise problem(errors.got(item, expected(item)), under=[i, j] if nested else [j])
    return value if nested else [value]


def nested_lengths(value: list[Any]) -> list[Any]:
    """Valid lengths: one integer per example, or one list of them per example."""
    rows = _rows(value, lambda item: type(item) is int and item >= 0, lambda item: "expected an integer of at least 0")
    for i, row in enumerate(rows):
        if len(row) != len(rows[0]):
            message = f"got a list of {len(row)} beside a list of {len(rows[0])}; expected one length per query in each"
            raise problem(message, under=[i])
    if not rows[0]:
        raise problem("got an empty list; " + LENGTHS)
    return value


def nested_words(value: list[Any]) -> list[Any]:
    """Tokens: one list, or one list per example."""
    _rows(
        value,
        lambda item: isinstance(item, str),
        lambda item: "expected text" + ("" if isinstance(item, dict | list) else "; put it in quotes"),
    )
    return value
