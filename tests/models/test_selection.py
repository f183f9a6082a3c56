"""The layers of a model that a number, ranges, a name or a pattern choose."""

import pytest

from attncli.models.selection import calls_of, choice_of

NAMES = ["a.attention", "a.attention#2", "b.attention", "b.cross"]


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
        ("2-4", []),
        ("2-1", []),
    ],
)
def test_calls_of_a_choice(choice: int | str, expected: list[int]) -> None:
    assert calls_of(choice_of(choice), NAMES) == [NAMES[index] for index in expected]
