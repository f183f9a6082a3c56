"""The grammar of sweeps: ranges against NumPy, axes on the command line and in files, and mistakes in both."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.config.document import read_document
from attncli.config.sweep import swept_values, typed_axes
from attncli.errors import InputError
from tests.config.documents import GOOD, problems_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5..1:-2", [5, 3, 1]),
        ("0.1..0.5:0.1", [0.1, 0.2, 0.3, 0.4, 0.5]),
        ("8..1:x0.5", [8, 4, 2, 1]),
        ("1, 8..32:x2, 100", [1, 8, 16, 32, 100]),
        ("softmax, {normalizer: entmax, alpha: 1.3}", ["softmax", {"normalizer": "entmax", "alpha": 1.3}]),
        ("[2, 3], [4, 5]", [[2, 3], [4, 5]]),
        ("../a.npy, 1/d, true, null", ["../a.npy", "1/d", True, None]),
    ],
)
def test_values(text: str, expected: list[Any]) -> None:
    found = swept_values(text)
    assert found == expected
    assert [type(value) for value in found] == [type(value) for value in expected]


FIRST = st.integers(-50, 50)


@given(FIRST, st.integers(1, 40), st.integers(1, 7))
def test_steps_are_those_of_numpy(first: int, length: int, step: int) -> None:
    assert swept_values(f"{first}..{first + length}:{step}") == np.arange(first, first + length + 1, step).tolist()
    assert swept_values(f"{first}..{first + length}") == np.arange(first, first + length + 1).tolist()


@given(st.floats(-100, 100), st.floats(0.125, 100), st.floats(1e-6, 1e3), st.floats(1.01, 1e4), st.integers(2, 40))
def test_equal_distances_and_ratios_are_those_of_numpy(
    first: float, length: float, least: float, ratio: float, count: int
) -> None:
    for kind, spaced, ends in (
        ("lin", np.linspace, (f"{first:.6f}", f"{first + length:.6f}")),
        ("log", np.geomspace, (f"{least:e}", f"{least * ratio:e}")),
    ):
        found, (low, high) = swept_values(f"{'..'.join(ends)}:{kind}{count}"), map(float, ends)
        np.testing.assert_allclose(found, spaced(low, high, count), rtol=1e-13, atol=1e-13 * (kind == "lin"))
        assert (found[0], found[-1]) == (low, high)


@given(st.integers(1, 20), st.integers(2, 5), st.integers(0, 8), st.integers(0, 3))
def test_factors(first: int, factor: int, power: int, beyond: int) -> None:
    last = first * factor**power + beyond * (first * factor**power * (factor - 1) - 1) // 3
    assert swept_values(f"{first}..{last}:x{factor}") == [first * factor**each for each in range(power + 1)]


def test_axes_as_typed() -> None:
    axes = typed_axes([("over", "seed=0..1"), ("over", "d = 16,64"), ("with", "steps=100, 400")])
    assert [axis.values for axis in axes] == [{"seed": [0, 1]}, {"d": [16, 64], "steps": [100, 400]}]
    assert [change.text for change in axes[1].changes[0].values()] == ["d = 16", "steps = 100"]


def test_axes_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(GOOD + "sweep:\n  over:\n    - seed: 0..1\n    - {batch: [[0], [1]], train: [true, false]}\n")
    axes = read_document(path).sweep()[0]
    assert [axis.values for axis in axes] == [{"seed": [0, 1]}, {"batch": [[0], [1]], "train": [True, False]}]
    assert [change.where for place in axes[0].changes for change in place.values()] == [f"{path}:8:13"] * 2
    assert [change.where for change in axes[1].changes[1].values()] == [f"{path}:9:21", f"{path}:9:41"]


STEPS = "0.5..2 1..2.5 1..2:0 1..1:0 2..1 2..1:1 1..8:x1 8..1:x2 8..7:x2 1..8:x0 0..8:x2 -8..-1:x0.5 0..1000000 0..x"
NUMBERS = "1..8:lin1 1..8:lin2.5 8..8:lin3 -1..8:log3"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *((f"a={each}", f'got "{each}"; expected A..B of whole numbers, ') for each in f"{STEPS} {NUMBERS}".split()),
        ("seed", 'got "seed"; expected KEY=VALUES, for instance seed=0..4 or d=16,64'),
        ("a[=1", 'got "a["; expected names and indices such as scorers[0].num_hiddens'),
        ("a={", 'got "{"; expected a YAML list without its brackets, such as 16, 64'),
    ],
)
def test_mistakes_on_the_command_line(options: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        typed_axes([("over", options)])
    assert str(caught.value).startswith(f"--over {options}: {message}")


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ("{over: []}", "6:15: sweep.over: got []; expected at least 1 entry"),
        ("{ovr: []}", "6:8: sweep.over: this key is missing"),
        ("{over: [{seed: [1, 2..1]}]}", '6:27: sweep.over[0].seed[1]: got "2..1"; expected A..B of'),
        ("{over: [{seed: []}]}", "6:23: sweep.over[0].seed: got no values; expected at least one"),
        ("{over: [{seed: 1}, {seed: 2}]}", "6:34: sweep.over[1].seed: got `seed` on two axes"),
        ("{over: [{a: [1, 2], b: 3}]}", "6:31: sweep.over[0].b: got 1 values of b beside 2 of a"),
        (
            f"{{over: {[{f'k{i}': 1} for i in range(101)]}}}",
            "6:15: sweep.over: got 101 keys to sweep over; expected at",
        ),
    ],
)
def test_mistakes_in_a_file(tmp_path: Path, sweep: str, message: str) -> None:
    assert problems_of(tmp_path, f"{GOOD}sweep: {sweep}")[0].startswith(message)
