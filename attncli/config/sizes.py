"""Sizes d in YAML: one, a list of them, or a geometric range."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from attncli import errors
from attncli.config.strict import Model, problem

Size = Annotated[int, Field(ge=1, le=2**20)]


class SizeRange(Model):
    """`from`, `from` x factor, ... up to `to`, which is included where it is met."""

    first: Annotated[Size, Field(alias="from")]
    last: Annotated[Size, Field(alias="to")]
    factor: Annotated[int, Field(ge=2)] = 2

    @model_validator(mode="after")
    def _ordered(self) -> "SizeRange":
        if self.first > self.last:
            raise problem(f"got from {self.first} and to {self.last}; expected `from` up to `to`", under=["to"])
        return self


def powers(first: int, last: int, factor: int = 2) -> list[int]:
    """first, first * factor, ... up to last."""
    sizes = [first]
    while sizes[-1] * factor <= last:
        sizes.append(sizes[-1] * factor)
    return sizes


def _listed(value: Any, info: ValidationInfo) -> Any:
    if value is None or isinstance(value, str):
        raise problem("expected an integer, a list such as [64, 512], or a range such as {from: 1, to: 1024}")
    if isinstance(value, dict):
        sizes = SizeRange.model_validate(value, context=info.context)
        return powers(sizes.first, sizes.last, sizes.factor)
    return value if isinstance(value, list) else [value]


def _once(sizes: list[int]) -> list[int]:
    for index, size in enumerate(sizes):
        if size in sizes[:index]:
            raise problem(f"got {errors.show(size)} twice; expected different sizes", under=[index])
    return sizes


SizeList = Annotated[list[Size], Field(min_length=1)]
Sizes = Annotated[
    SizeList, AfterValidator(_once), BeforeValidator(_listed, json_schema_input_type=Size | SizeList | SizeRange)
]
