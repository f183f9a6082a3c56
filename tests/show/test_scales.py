"""One scale for a quantity: where its colours begin and end, when they follow the logarithm, and what lies beyond."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import LogNorm

from attncli.show.scales import Numbers, extend_of, norm_of, spans_decades, ticks_of, within


def arrays(*panels: list[float]) -> list[Numbers]:
    return [np.array(panel) for panel in panels]


@pytest.mark.parametrize(
    ("panels", "is_signed", "ends"),
    [
        ([[0.5, 0.9], [0.2]], False, (0, 0.9)),
        ([[3.0, 5.0]], True, (3, 5)),
        ([[-3.0, 5.0]], True, (-3, 5)),
        ([[5.0, 5.0]], True, (0, 5)),
        ([[0.0, math.nan]], False, (0, 1)),
        ([[math.nan]], False, (0, 1)),
        ([[], [2.0, math.inf]], False, (0, 2)),
    ],
)
def test_linear_colours(panels: list[list[float]], is_signed: bool, ends: tuple[float, float]) -> None:
    norm = norm_of(arrays(*panels), is_signed)
    assert not isinstance(norm, LogNorm)
    assert (norm.vmin, norm.vmax) == ends


def test_more_than_two_decades_follow_the_logarithm() -> None:
    norm = norm_of(arrays([1.0, 2.0, 50.0], [0.4]))
    assert isinstance(norm, LogNorm)
    assert (norm.vmin, norm.vmax) == (0.4, 50)
    assert not isinstance(norm_of(arrays([1.0, 2.0, 100.0])), LogNorm), "just two decades"
    assert not isinstance(norm_of(arrays([1.0] * 60 + [0.001])), LogNorm), "nearly all lie close together"


def test_one_value_far_below_the_others_has_an_arrow() -> None:
    """And so have zeros, which a logarithm has no place for."""
    values = np.array([1e-9, 0.0, *np.geomspace(0.3, 90, 60)])
    norm = norm_of([values])
    assert isinstance(norm, LogNorm)
    assert norm.vmin == pytest.approx(0.3, rel=0.5)
    assert extend_of(norm, values) == "min"
    assert extend_of(norm, values[values >= 1]) == "neither"
    assert np.isfinite(norm(within(norm, values))).all()
    assert ticks_of(norm)[1:-1] == [1, 10]


def test_arrows_at_both_ends_of_linear_colours() -> None:
    norm = norm_of(arrays([1.0, 2.0]))
    assert [extend_of(norm, np.array(values)) for values in ([1.0], [-1.0], [3.0], [-1.0, 3.0], [2.0 + 1e-9])] == [
        *("neither", "min", "max", "both", "neither")
    ]


@given(st.lists(st.floats(1e-12, 1e12), min_size=1, max_size=200))
def test_few_values_lie_beyond_and_the_largest_never(values: list[float]) -> None:
    norm = norm_of([np.array(values)])
    assert norm.vmax == max(values)
    assert norm.vmin is not None
    beyond = sum(value < norm.vmin * (1 - 1e-9) for value in values)
    reach = 1e6 if isinstance(norm, LogNorm) else math.inf
    assert beyond <= 0.05 * len(values) or max(values) / norm.vmin >= reach * (1 - 1e-9)


def test_axes() -> None:
    assert spans_decades([1.0, 101.0, math.nan])
    assert not any(spans_decades(values) for values in ([1.0, 99.0], [0.0, 1000.0], [-1.0, 5.0], [], [math.nan]))
