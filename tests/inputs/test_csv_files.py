"""CSV: what is read as a matrix, and where the first thing stands that is no number."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from attncli.errors import InputError
from attncli.inputs.files import read_tensor
from attncli.inputs.formats import csv

INTEGERS = torch.tensor([[1, 2], [3, 4]])


@pytest.mark.parametrize(
    "text",
    [
        "1,2\n3,4\n",
        "1,2\n3,4",
        "1;2\n3;4\n",
        "1\t2\n3\t4\n",
        "1 2\n  3   4 \n",
        "1, 2\n3,\t4\n",
        "1,\t2\n3,4\n",
        "1,2\r\n3,4\r\n",
        "\ufeff1,2\n3,4\n",
        "# made by hand, é\n1,2 # first\n\n   \n3,4\n\n\n",
        '"1","2"\n"3","4"\n',
        "+1,02\n3,4\n",
    ],
)
def test_whole_numbers(tmp_path: Path, text: str) -> None:
    (tmp_path / "k.csv").write_text(text, encoding="utf-8", newline="")
    got = read_tensor(tmp_path / "k.csv")
    assert got.dtype == torch.int64
    assert_close(got, INTEGERS, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,2\n3,4.5\n", [[1, 2], [3, 4.5]]),
        ("1.5,2\n3,4\n", [[1.5, 2], [3, 4]]),
        ("1e-3;-2E5\n", [[0.001, -2e5]]),
        ("nan,inf,-inf\n", [[np.nan, np.inf, -np.inf]]),
        ("100000000000000000000,1\n", [[1e20, 1]]),
        ("1.\n.5\n", [[1.0], [0.5]]),
    ],
)
def test_other_numbers_are_float64(tmp_path: Path, text: str, expected: list[list[float]]) -> None:
    (tmp_path / "k.csv").write_text(text)
    assert_close(
        read_tensor(tmp_path / "k.csv"), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=0, equal_nan=True
    )


def test_the_largest_whole_numbers_stay_whole(tmp_path: Path) -> None:
    (tmp_path / "k.csv").write_text("9223372036854775807,-9223372036854775808\n")
    assert read_tensor(tmp_path / "k.csv").tolist() == [[9223372036854775807, -9223372036854775808]]


@pytest.mark.parametrize(("text", "shape"), [("1,2,3\n", (1, 3)), ("1\n2\n3\n", (3, 1)), ("7", (1, 1))])
def test_there_are_always_two_axes(tmp_path: Path, text: str, shape: tuple[int, int]) -> None:
    (tmp_path / "k.csv").write_text(text)
    assert read_tensor(tmp_path / "k.csv").shape == shape


@pytest.mark.parametrize("separator", [" ", ",", ";", "\t"])
def test_what_numpy_writes(tmp_path: Path, separator: str) -> None:
    written = np.random.default_rng(0).normal(size=(7, 5))
    np.savetxt(tmp_path / "k.csv", written, delimiter=separator, header="q0 q1")
    assert_close(read_tensor(tmp_path / "k.csv"), torch.from_numpy(written), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2\n3,x\n", 'got "x" in line 2, column 2 of "k.csv"; expected a number'),
        ("# a\n\n1,2\n3,4x\n", 'got "4x" in line 4, column 2 of "k.csv"; expected a number'),
        ("1 2\n3 \x1b[2J\n", 'got "\\u001b[2J" in line 2, column 2 of "k.csv"; expected a number'),
        ("1 2\n3 \x7f\n", 'got "\\x7f" in line 2, column 2 of "k.csv"; expected a number'),
        ("1,1_000\n", 'got "1_000" in line 1, column 2 of "k.csv"; expected a number'),
        ("1,0x10\n", 'got "0x10" in line 1, column 2 of "k.csv"; expected a number'),
        (
            "d0,d1\n1,2\n",
            'got "d0" in line 1, column 1 of "k.csv"; expected a number; '
            "there is no header line: remove it, or begin it with #",
        ),
        (
            ",d0,d1\n0,1,2\n",
            'got nothing in line 1, column 1 of "k.csv"; expected a number; '
            "there is no header line: remove it, or begin it with #",
        ),
        (
            "1,2\n,4\n",
            'got nothing in line 2, column 1 of "k.csv"; expected a number; '
            "give every cell a number (nan and inf are fine)",
        ),
        (
            "1,2,\n3,4,\n",
            'got nothing in line 1, column 3 of "k.csv"; expected a number; '
            "remove the separator at the end of the line",
        ),
        ("1,5;2,5\n", 'got "1,5" in line 1, column 1 of "k.csv"; expected a number; write decimals with a point'),
        ('"1,5","2"\n', 'got "1,5" in line 1, column 1 of "k.csv"; expected a number; write decimals with a point'),
        (
            "True,False\n",
            'got "True" in line 1, column 1 of "k.csv"; expected a number; write 1 for true and 0 for false',
        ),
        ("1,2\n\n3\n", 'got 1 number in line 3 of "k.csv"; expected 2, as in line 1; one matrix row a line'),
        ("#\n1,2\n3,4,5\n", 'got 3 numbers in line 3 of "k.csv"; expected 2, as in line 2; one matrix row a line'),
        ("\n# nothing\n", 'got "k.csv"; holds no numbers; write one matrix row a line'),
    ],
)
def test_message(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "k.csv").write_text(text)
    with pytest.raises(InputError) as caught:
        read_tensor(tmp_path / "k.csv")
    assert str(caught.value) == f"file: {message}"


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "k.csv").write_bytes("# caf\xe9\n1,2\n".encode("latin-1"))
    with pytest.raises(InputError, match=r'^file: got "k.csv"; not text in UTF-8; save it as UTF-8$'):
        read_tensor(tmp_path / "k.csv")


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "LONGEST_LINE", 1024)
    (tmp_path / "k.csv").write_text("1," * 2000)
    with pytest.raises(
        InputError, match=r'^file: got "k.csv"; has a line of more than 1.0 KiB; write one matrix row a line$'
    ):
        read_tensor(tmp_path / "k.csv")


def test_a_cell_without_end(tmp_path: Path) -> None:
    (tmp_path / "k.csv").write_text('1,"' + "2" * 200_000 + '"\n')
    with pytest.raises(InputError, match=r'^file: got "k.csv"; line 1 makes no sense \(field larger than field limit'):
        read_tensor(tmp_path / "k.csv")
