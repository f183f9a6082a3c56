"""Types of fields that several models use: names, files, sizes, and numbers in nested lists."""

import re
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, ValidationInfo, model_validator
from typing_extensions import TypeAliasType

from attncli import errors
from attncli.config.strict import Model, checked_by, problem, worded
from attncli.core.numbers import ranges_in

PLAIN = r"""^[^\s./\\:*?"<>|][^/\\:*?"<>|]*$"""
LONGEST_NAME = 200  # bytes in UTF-8
LONGEST_SENTENCE = 200  # characters


def _plain_name(name: str) -> str:
    if not re.match(PLAIN, name) or not name.isprintable():
        raise problem('expected a name without / \\ : * ? " < > | that does not begin with a dot or a space')
    if len(name.encode()) > LONGEST_NAME:
        raise problem(f"expected at most {LONGEST_NAME} bytes in UTF-8, since it becomes a file's name")
    return name


def relative_to_config(file: str, info: ValidationInfo) -> str:
    """Return the path of a file, which is relative to the folder of the config."""
    folder = (info.context or {}).get("folder")
    return str(Path(folder) / file) if folder else file


Name = Annotated[
    str, AfterValidator(_plain_name), Field(json_schema_extra={"pattern": PLAIN, "maxLength": LONGEST_NAME})
]
Sentence = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_SENTENCE),
    AfterValidator(lambda text: " ".join(text.split())),
]
FileName = Annotated[str, StringConstraints(min_length=1), AfterValidator(relative_to_config)]
Size = Annotated[int, Field(ge=1, le=2**20)]


class SizeRange(Model):
    """The sizes `from`, `from` x factor, ... that are at most `to`."""

    first: Annotated[Size, Field(alias="from", description="first size")]
    last: Annotated[Size, Field(alias="to", description="largest size")]
    factor: Annotated[int, Field(ge=2, description="ratio of a size to the one before")] = 2

    @model_validator(mode="after")
    def _ordered(self) -> "SizeRange":
        if self.first > self.last:
            raise problem(f"got from {self.first} and to {self.last}; expected `from` up to `to`", under=["to"])
        return self


def powers(first: int, last: int, factor: int = 2) -> list[int]:
    """Return first, first * factor, ... up to last."""
    sizes = [first]
    while sizes[-1] * factor <= last:
        sizes.append(sizes[-1] * factor)
    return sizes


def _listed(value: object, info: ValidationInfo) -> Any:
    if value is None or isinstance(value, str):
        raise problem("expected an integer, a list such as [64, 512], or a range such as {from: 1, to: 1024}")
    if isinstance(value, dict):
        sizes = SizeRange.model_validate(value, context=info.context)
        return powers(sizes.first, sizes.last, sizes.factor)
    return value if isinstance(value, list) else [value]


def each_once(values: list[Any]) -> list[Any]:
    """Return the values; raise a `problem` if a value appears twice. True and 1 count as different."""
    earlier = set[tuple[bool, Any]]()
    for index, value in enumerate(values):
        if (isinstance(value, bool), value) in earlier:
            raise problem(f"got {errors.show(value)} twice; expected each once", under=[index])
        earlier.add((isinstance(value, bool), value))
    return values


def ordered(bounds: list[Any]) -> list[Any]:
    """Return [low, high]; raise ValueError if low is above high."""
    if bounds[0] > bounds[1]:
        raise ValueError
    return bounds


SizeList = Annotated[list[Size], Field(min_length=1)]
Sizes = Annotated[
    SizeList, AfterValidator(each_once), BeforeValidator(_listed, json_schema_input_type=Size | SizeList | SizeRange)
]


def as_list(value: object) -> Any:
    """Return text or an integer as a list of one item, and anything else unchanged."""
    return [value] if isinstance(value, str | int) and not isinstance(value, bool) else value


def _indices(value: object) -> Any:
    """Return numbers and ranges such as `0,5-7`, alone or in a list, as a list of numbers; anything else unchanged."""
    if not isinstance(items := as_list(value), list):
        return items
    ranges = [isinstance(item, str) and ranges_in(item) for item in items]
    numbers = ([item] if not found else chain(*found) for item, found in zip(items, ranges, strict=True))
    return [*chain(*numbers)]


def layer_choice(layer: Any) -> Any:
    """Return the number for digits in text, as in a flag or a key of a plan, and anything else unchanged."""
    return int(layer) if isinstance(layer, str) and layer.isdecimal() else layer


def _layers(value: object) -> Any:
    """Return layers as a list, with numbers in place of digits in text; anything else unchanged."""
    layers = as_list(value)
    return [layer_choice(layer) for layer in layers] if isinstance(layers, list) else layers


Index = Annotated[int, Field(ge=0)]
Indices = Annotated[
    list[Index],
    Field(min_length=1),
    AfterValidator(each_once),
    BeforeValidator(_indices, json_schema_input_type=Annotated[list[Index | str], Field(min_length=1)] | Index | str),
]
Layer = Annotated[str | Index, worded("expected the name of a layer, or its number from 0")]
LayerList = Annotated[  # numbers, ranges of numbers, names and patterns of names
    list[Layer], Field(min_length=1), AfterValidator(each_once), BeforeValidator(as_list)
]
Layers = Annotated[
    LayerList,
    BeforeValidator(_layers, json_schema_input_type=Annotated[list[Layer], Field(min_length=1)] | Layer),
]

Row = Annotated[list[float], Field(min_length=1)]
Rows = TypeAliasType("Rows", "Annotated[list[Row | Rows], Field(min_length=1)]")  # lists in lists at any depth


def check_regular(value: object) -> Any:
    """Return nested lists of numbers unchanged; raise a `problem`, with the place, if lengths at one level differ."""
    array_sizes(value)
    return value


def array_sizes(value: object, path: Sequence[str | int] = ()) -> tuple[int, ...]:
    """Return the shape of nested lists of numbers; raise a `problem` if lists of one level differ in length.

    `path` is the path of `value` inside the outermost list.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | list):
        raise problem(f"got {errors.show(value)}; expected a number", under=path)
    if not isinstance(value, list):
        if isinstance(value, int) and abs(value) > 2**1023:  # in Python only: in YAML they have 64 bits
            raise problem("got an integer that no floating-point number can hold; expected numbers up to 1.8e308")
        return ()
    if not value:
        raise problem("got an empty list; sizes must be at least 1", under=path)
    first = array_sizes(value[0], [*path, 0])
    for index, item in enumerate(value[1:], start=1):
        if array_sizes(item, [*path, index]) != first:
            message = f"got {errors.show(item)} beside {errors.show(value[0])}; expected rows of equal length"
            raise problem(message, under=[*path, index])
    return (len(value), *first)


def _at_least_two_levels(value: object) -> Any:
    if len(array_sizes(value)) < 2:
        expected = "expected lists within lists: one inner list per row"
        raise problem(f"{expected}; for one row write [{errors.show(value)}]")
    return value


Numbers = Annotated[Rows, checked_by(_at_least_two_levels)]
