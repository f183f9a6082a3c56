"""Numbers written out in YAML as nested lists: are they regular, and where are they not?"""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypeAliasType

from attncli import errors
from attncli.config.strict import checked_by, problem

Row = Annotated[list[float], Field(min_length=1)]
Rows = TypeAliasType("Rows", "Annotated[list[Row | Rows], Field(min_length=1)]")  # lists in lists at any depth


def check_regular(value: Any) -> Any:
    """Nested lists of numbers as they are, unless they are no such thing: then the first place where they are not."""
    sizes_of(value)
    return value


def sizes_of(value: Any, place: Sequence[str | int] = ()) -> tuple[int, ...]:
    """The sizes of nested lists of numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float | list):
        raise problem(f"got {errors.show(value)}; expected a number", under=place)
    if not isinstance(value, list):
        return ()
    if not value:
        raise problem("got an empty list; sizes must be at least 1", under=place)
    first = sizes_of(value[0], [*place, 0])
    for index, item in enumerate(value[1:], start=1):
        sizes = sizes_of(item, [*place, index])
        if sizes != first:
            message = f"got {errors.show(item)} beside {errors.show(value[0])}; expected rows of equal length"
            raise problem(message, under=[*place, index])
    return (len(value), *first)


def _at_least_two_levels(value: Any) -> Any:
    if len(sizes_of(value)) < 2:
        expected = "expected lists within lists: one inner list per row"
        raise problem(f"{expected}; for one row write [{errors.show(value)}]")
    return value


Numbers = Annotated[Rows, checked_by(_at_least_two_levels)]
