"""Colour scales: their ends, linear or logarithmic colours, and values beyond the ends."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import LogNorm

from attncli.show.scales import Numbers, colour_scale, spans_decades

NAN, INF = math.nan, math.inf


def arrays(*panels: list[float]) -> list[Numbers]:
    return [np.array(panel) for panel in panels]


@pytest.mark.parametrize(
    ("panels", "options", "ends"),
    [
        ([[0.5, 0.9], [0.2]], {}, (0, 0.9)),
        ([[3.0, 5.0]], {"is_signed": True}, (3, 5)),
        ([[-3.0, 5.0]], {}, (-3, 5)),
        ([[-3.0, -1.0]], {}, (-3, 0)),
        ([[5.0, 5.0]], {"is_signed": True}, (0, 5)),
        ([[0.0, NAN]], {}, (0, 1)),
        ([[NAN]], {}, (0, 1)),
        ([[], [2.0, INF]], {}, (0, 2)),
        ([[0.2, 0.5]], {"is_weight": True}, (0, 1)),
        ([[0.02, 0.05]], {"is_weight": True}, (0, 0.05)),
        ([[0.5, 3.0]], {"is_weight": True}, (0, 3)),
        ([[-3.0, 1.0]], {"is_difference": True}, (-3, 3)),
        ([[0.0] * 99 + [1.0]], {"is_difference": True}, (-1, 1)),
        ([[0.0]], {"is_difference": True}, (-1, 1)),
        ([[1.0, 5.0]], {"high": 2.0}, (0, 2)),
        ([[4.0, 5.0]], {"high": 2.0, "is_signed": True}, (0, 2)),
        ([[1.0, -5.0]], {"high": 2.0, "is_difference": True}, (-2, 2)),
        ([[0.0] * 99 + [1.0]], {}, (0, 1)),
        ([[0.001] * 9 + [1.0]], {"kind": "linear"}, (0, 1)),
    ],
)
def test_linear_colours(panels: list[list[float]], options: Any, ends: tuple[float, float]) -> None:
    scale = colour_scale(arrays(*panels), **options)
    assert (scale.kind, scale.low, scale.high) == ("linear", *ends)
    assert (scale.norm.vmin, scale.norm.vmax) == ends


@pytest.mark.parametrize(("count", "kind"), [(50, "linear"), (51, "log")])
def test_more_than_half_below_a_twentieth_of_the_largest_make_colours_logarithmic(count: int, kind: str) -> None:
    values = np.array([0.0199] * count + [0.4] * (100 - count))
    assert colour_scale(values).kind == kind
    assert colour_scale(values, is_weight=True).kind == kind
    assert colour_scale(-values).kind == colour_scale([values, np.array([-1e-9])]).kind == "linear"


def test_logarithmic_colours_cover_the_decades_of_nearly_all_values() -> None:
    """Zeros, or a single value far below the others, are shown by an arrow."""
    values = np.array([1e-9, 0.0, *np.geomspace(0.03, 90, 60)])
    scale = colour_scale(values)
    assert isinstance(scale.norm, LogNorm)
    assert scale.low == pytest.approx(0.03, rel=0.5)
    assert (scale.high, scale.extend) == (90, "min")
    assert np.isfinite(scale.norm(scale.clip(values))).all()
    scale = colour_scale([np.geomspace(1e-30, 1, 50)])
    assert scale.low == pytest.approx(1e-6)


@pytest.mark.parametrize("kind", ["linear", "root", "log"])
def test_explicit_kinds_take_values_of_any_sign(kind: Any) -> None:
    for values in ([0.0], [-9.0, 0.0, 16.0], [-3.0, -1.0], [0.0, 1e-30, 5.0], [NAN], [INF, -INF, 1.0], [7.0, 7.0]):
        for options in ({}, {"is_signed": True}, {"is_difference": True}, {"is_weight": True}, {"high": 2.0}):
            scale = colour_scale(np.array(values), kind=kind, **options)
            assert scale.low < scale.high
            places = scale.norm(scale.clip(np.array([scale.low, scale.high])))
            assert np.asarray(places) == pytest.approx([0, 1])
    signed = colour_scale(np.array([-9.0, 16.0]), kind="root")
    assert np.asarray(signed.norm(np.array([-9.0, 0.0, 4.0]))) == pytest.approx([0, 3 / 7, 5 / 7])


def test_arrows() -> None:
    for values, extend in [([1.0], "neither"), ([-1.0], "min"), ([3.0], "max"), ([-1.0, 3.0], "both"), ([INF], "max")]:
        assert colour_scale(np.array(values), kind="linear", low=0.0, high=2.0).extend == extend
    assert colour_scale(np.array([2.0 + 1e-9]), low=0.0, high=2.0).extend == "neither"


@given(st.lists(st.floats(1e-12, 1e12), min_size=1, max_size=200))
def test_few_values_lie_beyond_and_the_largest_never(values: list[float]) -> None:
    scale = colour_scale(np.array(values))
    assert scale.high == max(values)
    beyond = sum(value < scale.low * (1 - 1e-9) for value in values)
    assert beyond <= 0.05 * len(values) or scale.high / scale.low >= 1e6 * (1 - 1e-9)
    is_pale = sum(value < 0.05 * max(values) for value in values) > len(values) / 2
    assert scale.kind == "linear" or is_pale


def test_axes() -> None:
    assert spans_decades([1.0, 101.0, NAN])
    assert not any(spans_decades(values) for values in ([1.0, 99.0], [0.0, 1000.0], [-1.0, 5.0], [], [NAN]))
