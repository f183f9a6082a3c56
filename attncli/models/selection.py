"""The choice of layers: by number, ranges of numbers, name, or a pattern of names."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from attncli.core.numbers import ranges_in, several
from attncli.errors import InputError, did_you_mean, got

Choice = int | str | list[range]  # of layers
WILD = re.compile(r"[*?\[]")


def picks(choice: Choice, name: str, number: int) -> bool:
    """Whether a choice of layers includes the attention call `name`, given its number among all calls.

    A choice is a number, ranges of numbers, the name of a call, or a pattern of names of layers, such as `decoder.*`.
    """
    if isinstance(choice, int):
        return number == choice
    if isinstance(choice, str):
        return choice == name or bool(WILD.search(choice) and fnmatchcase(re.sub(r"#\d+$", "", name), choice))
    return any(number in numbers for numbers in choice)


def choice_of(layers: int | str) -> Choice:
    """Return the choice for a number, a name or a pattern; `5-7` and `0,2` become ranges, the text `5` is a name."""
    return layers if isinstance(layers, int) or layers.isdecimal() else ranges_in(layers) or layers


def calls_of(layer: int | str, names: Sequence[str]) -> list[str]:
    """Return the names of the calls that a number, ranges of numbers, a name or a pattern chooses.

    `names` has the names of all calls in their order.

    Raises:
        InputError: it chooses none, or a range ends beyond the last.
    """
    choice = choice_of(layer)
    calls = [name for number, name in enumerate(names) if picks(choice, name, number)]
    if isinstance(choice, list) and max(numbers[-1] for numbers in choice) >= len(names):
        calls = []
    if calls:
        return calls
    if not names:
        raise InputError.of(got(layer, "no attention was recognised"))
    if isinstance(choice, str):
        raise InputError.of(got(layer, "no layer with attention", did_you_mean(choice, names)))
    raise InputError.of(got(layer, f"expected 0 to {len(names) - 1}, of {several(len(names), 'layer')} with attention"))
