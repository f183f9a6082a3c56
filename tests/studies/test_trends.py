"""Phrases about curves are true for curves of any shape."""

import re
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attncli.studies.trends import FLAT, trend

VALUES = st.lists(st.integers(1, 30), min_size=1, max_size=9)
NAMED = re.compile(r"([\d.e-]+) \(d = (\d+)\)")


def phrase(values: list[float], margin: float = 0.0, **more: bool) -> str:
    names = [f"d = {2**index}" for index in range(len(values))]
    return trend(values, names, lambda a, b: abs(values[a] - values[b]) > margin, **more)[0]


PHRASES: list[tuple[list[float], str]] = [
    ([0.148, 0.332, 0.0002766], "rises from 0.148 (d = 1) to 0.332 (d = 2), then falls to 2.8e-04 (d = 4)"),
    ([3.0, 1.0, 2.0], "falls from 3.00 (d = 1) to 1.00 (d = 2), then rises to 2.00 (d = 4)"),
    ([1.0, 1.00001, 0.99999], "stays at 1.00 (d = 1 to d = 4)"),
    ([0.126, 0.124, 0.129, 0.125], "stays between 0.124 and 0.129 (d = 1 to d = 8)"),
    ([0.126, 0.127], "stays between 0.126 and 0.127 (d = 1 to d = 2)"),
    ([1.0, 3.0, 0.5, 2.0], "ranges from 0.500 (d = 4) to 3.00 (d = 2)"),
    ([7.0], "is 7.00 (d = 1)"),
]
BY_CHANCE: list[tuple[list[float], str]] = [  # up to 0.2
    ([1.0, 2.0, 1.9], "rises from 1.00 (d = 1) to 1.90 (d = 4)"),
    ([1.0, 1.1, 1.0, 1.1], "lies between 1.00 and 1.10 (d = 1 to d = 8)"),
    ([1.0, 0.7, 1.0], "falls from 1.00 (d = 1) to 0.700 (d = 2), then rises to 1.00 (d = 4)"),
]


def test_phrases() -> None:
    for margin, curves in ((0.0, PHRASES), (0.2, BY_CHANCE)):
        for values, expected in curves:
            assert phrase(values, margin) == expected
    assert phrase([1.0, 3.0], ordered=False) == "ranges from 1.00 (d = 1) to 3.00 (d = 2)"
    assert phrase([1.0, 1.0], ordered=False) == "stays at 1.00 (d = 1 to d = 2)"


@given(values=VALUES, margin=st.sampled_from([0, 1, 4]))
def test_a_phrase_is_true_of_its_curve(values: list[int], margin: int) -> None:
    names = [f"d = {index}" for index in range(len(values))]
    text, told = trend(values, names, lambda a, b: abs(values[a] - values[b]) > margin)
    named = [(int(place), float(value)) for value, place in NAMED.findall(text)]
    assert all(values[place] == value for place, value in named)
    at, curve = [place for place, _ in named], np.array(values)
    if text.startswith(("rises", "falls")):
        assert (at, at[0], at[-1]) == (told, 0, len(values) - 1)
        up = text.startswith("rises")
        for start, end in pairwise(at):
            piece = curve[start : end + 1] * (1 if up else -1)
            assert piece[-1] - piece[0] > margin, "the ends are told apart"
            assert (np.maximum.accumulate(piece) - piece <= margin).all(), "no step back beyond chance"
            up = not up
        assert all(abs(value - curve[at]).min() <= margin for value in (curve.min(), curve.max()))
    elif " between " in text:
        assert tuple(map(int, re.findall(r"\d+", text)[:2])) == (curve.min(), curve.max())
        assert curve.max() - curve.min() <= margin or curve.max() <= FLAT * curve.min()
    elif text.startswith("ranges"):
        assert [value for _, value in named] == [curve.min(), curve.max()]
        assert curve.max() - curve.min() > margin
    else:
        assert curve.min() == curve.max()
