"""Sizes d: one, a list, a range; which numbers they stand for."""

from pathlib import Path

import pytest

from attncli.config.sizes import powers
from tests.config.documents import options_of, problems_of


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("64", [64]),
        ("1", [1]),
        ("1048576", [1048576]),
        ("[8]", [8]),
        ("[512, 64, 3]", [512, 64, 3]),
        ("{from: 1, to: 1024}", [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]),
        ("{from: 1, to: 1023}", [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]),
        ("{from: 5, to: 500, factor: 10}", [5, 50, 500]),
        ("{from: 7, to: 7, factor: 100}", [7]),
        ("{from: 7, to: 13}", [7]),
    ],
)
@pytest.mark.parametrize("study", ["variance", "saturation"])
def test_sizes(study: str, text: str, sizes: list[int], tmp_path: Path) -> None:
    assert options_of(tmp_path, f"study: {study}\nd: {text}\n").d == sizes


def test_the_default_is_one_to_1024(tmp_path: Path) -> None:
    assert options_of(tmp_path, "study: variance").d == [2**power for power in range(11)]


def test_powers() -> None:
    assert powers(1, 1) == [1]
    assert powers(3, 30, 3) == [3, 9, 27]


KINDS = "expected an integer, a list such as [64, 512], or a range such as {from: 1, to: 1024}"


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("0", ["2:4: d: got 0; expected an integer of at least 1"]),
        ("1048577", ["2:4: d: got 1048577; expected an integer of at most 1048576"]),
        ("'64'", [f'2:4: d: got "64"; {KINDS}']),
        ("null", [f"2:4: d: got nothing; {KINDS}"]),
        ("64.0", ["2:4: d: got 64.0; expected an integer; write 64"]),
        ("true", ["2:4: d: got true; expected an integer"]),
        ("[]", ["2:4: d: got []; expected at least 1 entry"]),
        (
            "[0, 2, x]",
            ["2:5: d[0]: got 0; expected an integer of at least 1", '2:11: d[2]: got "x"; expected an integer'],
        ),
        ("[4, 2, 4]", ["2:11: d[2]: got 4 twice; expected different sizes"]),
        ("{from: 4, to: 2}", ["2:18: d.to: got from 4 and to 2; expected `from` up to `to`"]),
        ("{from: 4, to: 8, factor: 1}", ["2:29: d.factor: got 1; expected an integer of at least 2"]),
        ("{from: 0, to: 1048577}", [
            "2:11: d.from: got 0; expected an integer of at least 1",
            "2:18: d.to: got 1048577; expected an integer of at most 1048576",
        ]),
        ("{by: 2}", [
            "2:4: d.from: this key is missing",
            "2:4: d.to: this key is missing",
            "2:5: d.by: unknown key; known: from, to, factor",
        ]),
    ],
)  # fmt: skip
def test_wrong_sizes(text: str, problems: list[str], tmp_path: Path) -> None:
    assert problems_of(tmp_path, f"study: variance\nd: {text}\n") == problems
