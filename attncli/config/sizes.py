"""Sizes d in YAML: one, a list of them, or a geometric range."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from attncli import errors
from attncli.config.strict import Model, problem

LARGEST = 2**20
Size = Annotated[int, Field(ge=1, le=LARGEST)]


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


def _kind(value: Any) -> str:
    """The branch of Sizes, in angle brackets so that it is told from a key in an error's path."""
    return "<SizeRange>" if isinstance(value, dict | SizeRange) else "<sizes>" if isinstance(value, list) else "<size>"


def _listed(value: Any) -> list[int]:
    if isinstance(value, SizeRange):
        return powers(value.first, value.last, value.factor)
    sizes: list[int] = value if isinstance(value, list) else [value]
    for index, size in enumerate(sizes):
        if size in sizes[:index]:
            raise problem(f"got {errors.show(size)} twice; expected different sizes", under=[index])
    return sizes


def _no_text(value: Any) -> Any:
    if value is None or isinstance(value, str):
        raise problem("expected an integer, a list such as [64, 512], or a range such as {from: 1, to: 1024}")
    return value


Sizes = Annotated[
    Annotated[Size, BeforeValidator(_no_text), Tag("<size>")]
    | Annotated[list[Size], Field(min_length=1), Tag("<sizes>")]
    | Annotated[SizeRange, Tag("<SizeRange>")],
    Discriminator(_kind),
    AfterValidator(_listed),
]
