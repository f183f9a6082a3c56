"""The choice of layers: by number, ranges of numbers, name, or a pattern of names."""

import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from torch import Tensor

from attncli.config.strict import Model, validated
from attncli.config.values import Indices, LayerList, layer_choice
from attncli.core.numbers import ranges_in, several
from attncli.errors import InputError, did_you_mean, got, in_ranges

Several = int | str | Collection[int | str]  # layers or heads, as users give them in Python
WILD = re.compile(r"[*?\[]")


class Choice(Model):
    """The layers and heads that a user chooses in Python: text, a number, or a list of these; None for all."""

    layers: LayerList | None = None
    heads: Indices | None = None

    @classmethod
    def of(cls, **choices: Any) -> "Choice":
        """Return the validated choice, with a number for text of digits; raise an InputError if a value is wrong."""
        return validated(cls, {key: listed(layer_choice(value)) for key, value in choices.items()}, {})


def listed(value: Any) -> Any:
    """Return a collection as a list; numbers of NumPy become numbers, and anything else, such as text, is unchanged."""
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, Collection) or isinstance(value, str | bytes | Mapping | Tensor):
        return value
    return [item.item() if isinstance(item, np.generic) else item for item in value]


def picks(layer: int | str, name: str, number: int, prefix: str = "") -> bool:
    """Whether a choice of layers includes the attention call `name`, given its number among all calls.

    A choice is a number, ranges of numbers such as `0,5-7`, the name of a call, such as the text `5`, or a pattern of
    names of layers, such as `decoder.*`. Names and patterns may begin with the prefix of a model with a head.
    """
    if ranges := _ranges(layer):
        return any(number in numbers for numbers in ranges)
    assert isinstance(layer, str)
    names = [name, *([f"{prefix}.{name}"] if prefix else [])]
    is_like = [bool(WILD.search(layer)) and fnmatchcase(re.sub(r"#\d+$", "", each), layer) for each in names]
    return layer in names or any(is_like)


def matching_calls(layer: int | str, numbers: Mapping[str, int], prefix: str = "") -> list[str]:
    """Return the names of the calls that a number, ranges of numbers, a name or a pattern chooses.

    `numbers` has the numbers of all calls by name; below 0 for a call without a number.

    Raises:
        InputError: it chooses none, or a range has a number of no call.
    """
    calls = [name for name, number in numbers.items() if picks(layer, name, number, prefix)]
    ranges = _ranges(layer)
    if calls and not (ranges and {number for each in ranges for number in each} - {*numbers.values()}):
        return calls
    recognised = sorted(number for number in numbers.values() if number >= 0)
    if not numbers or (ranges and not recognised):
        raise InputError.of(got(layer, "no attention was recognised"))
    if ranges is None:
        raise InputError.of(got(layer, "no layer with attention", did_you_mean(layer, numbers)))
    digits = {name: re.findall(r"\d+", name) for name, number in numbers.items() if number >= 0}
    unlike = [f"{numbers[name]} is {name}" for name, of in digits.items() if of and str(numbers[name]) not in of]
    expected = f"expected {in_ranges(recognised)}, of {several(len(recognised), 'layer')} with attention"
    raise InputError.of(got(layer, expected, ", ".join(unlike[:3])))  # a file may have some layers only


def _ranges(layer: int | str) -> list[range] | None:
    """Return the ranges of a choice by number; None for a name, also of digits, or a pattern."""
    if isinstance(layer, int):
        return [range(layer, layer + 1)]
    return None if layer.isdecimal() else ranges_in(layer)


def matching_call(layer: int | str, numbers: Mapping[str, int]) -> str:
    """Return the name of the one call that a number, a name or a pattern chooses.

    A name or pattern that begins with any other word is one of a model with a head.

    Raises:
        InputError: it chooses none, or several.
    """
    first, *others = matching_calls(layer, numbers, str(layer).partition(".")[0])
    if others:
        raise InputError.of(got(layer, f"which chooses {several(len(others) + 1, 'layer')}; expected one"))
    return first
