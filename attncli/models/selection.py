"""The choice of layers, heads and calls to keep."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Literal, get_args

from attncli.errors import InputError, did_you_mean, got
from attncli.models.call import AttentionCall
from attncli.numbers import ranges_in, several

Calls = Literal["first", "all"]
Choice = int | str | list[range]  # of layers
WILD = re.compile(r"[*?\[]")


class Selection:
    """The layers, heads and calls to keep.

    Layers are numbers such as `0,5-7`, in the order of their first calls, or a glob of names; heads are numbers.

    Raises:
        InputError: heads are not numbers, or calls are neither `first` nor `all`.
    """

    def __init__(self, layers: str | None, heads: str | None, calls: Calls) -> None:
        self.layers: Choice | None = None if layers is None else ranges_in(layers) or layers
        self.heads = None if heads is None else ranges_in(heads)
        self.calls = calls
        if heads is not None and self.heads is None:
            raise InputError.of(got(heads, "expected numbers of heads, such as 0-3 or 0,5-7"), ["heads"])
        if calls not in get_args(Calls):
            raise InputError.of(got(calls, "expected first or all"), ["calls"])

    def takes(self, layer: str, number: int, call: int) -> bool:
        """Whether to keep a call, given its layer, the number of the layer, and the number of the call in the layer."""
        if call and self.calls == "first":
            return False
        return self.layers is None or picks(self.layers, layer, number)

    def check(self, layers: Sequence[str]) -> None:
        """Raise an InputError if a layer was chosen by a number that none of `layers`, the layers that ran, has."""
        for numbers in self.layers if isinstance(self.layers, list) else ():
            if numbers[-1] >= len(layers):
                last = len(layers) - 1
                raise InputError.of(
                    got(numbers[-1], f"expected at most {last}, the number of the last layer"), ["layers"]
                )

    def of_heads(self, call: AttentionCall) -> AttentionCall:
        """Return the call with the chosen heads only.

        Raises:
            InputError: the call has none of the chosen heads.
        """
        if self.heads is None:
            return call
        h = call.queries.shape[1]
        chosen = [head for head in range(h) if any(head in numbers for numbers in self.heads)]
        if not chosen:
            raise InputError.of(f"it has {h} head{'s' * (h > 1)}, none of them chosen")
        return call.of_heads(chosen)


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
