"""The layers of a model that a number, ranges, a name or a pattern choose."""

import pytest

from attncli.errors import InputError
from attncli.models.selection import matching_calls

NAMES = ["a.attention", "a.attention#2", "b.attention", "b.cross"]
NUMBERS = {name: number for number, name in enumerate(NAMES)}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (2, [2]),
        ("1-2", [1, 2]),
        ("0, 2-3", [0, 2, 3]),
        ("a.attention", [0]),
        ("a.attention#2", [1]),
        ("*.attention", [0, 1, 2]),  # later calls of a layer, too
        ("b.*", [2, 3]),
    ],
)
def test_calls_of_a_choice(choice: int | str, expected: list[int]) -> None:
    assert matching_calls(choice, NUMBERS) == [NAMES[index] for index in expected]


@pytest.mark.parametrize(
    ("choice", "names", "message"),
    [
        ("2-4", NAMES, 'got "2-4"; expected 0 to 3, of 4 layers with attention'),
        (4, NAMES, "got 4; expected 0 to 3, of 4 layers with attention"),
        ("2-1", NAMES, 'got "2-1"; no layer with attention; known: '),
        ("b.cros", NAMES, 'got "b.cros"; no layer with attention; did you mean `b.cross`'),
        ("b.*", [], r'got "b.\*"; no attention was recognised'),
    ],
)
def test_a_choice_of_no_calls(choice: int | str, names: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        matching_calls(choice, {name: number for number, name in enumerate(names)})
