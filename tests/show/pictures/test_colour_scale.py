"""Colour scales: their norms and ends, and values beyond the ends."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.show.pictures.scales import Limit, Numbers, colour_scale, spans_decades

NAN, INF = math.nan, math.inf


def arrays(*panels: list[float]) -> list[Numbers]:
    return [np.array(panel) for panel in panels]


@pytest.mark.parametrize(
    ("panels", "stage", "options", "ends"),
    [
        ([[0.5, 0.9], [0.2]], "", {}, (0, 0.9)),
        ([[0.0, NAN]], "", {}, (0, 1)),
        ([[], [2.0, INF]], "", {}, (0, 2)),
        ([[0.5, 3.0]], "dropped", {}, (0, 3)),
        ([[-3.0, -1.0]], "biased", {}, (-3, 3)),
        ([[-3.0, 5.0]], "", {}, (-5, 5)),
        ([[0.0] * 99 + [1.0]], "weights", {"is_difference": True}, (-1, 1)),
        ([[NAN]], "capped", {}, (-1, 1)),
        ([[1.0, -5.0]], "scores", {"high": 2.0}, (-2, 2)),
    ],
)
def test_linear_colours_begin_at_0_or_are_around_it(
    panels: Any, stage: str, options: Any, ends: tuple[float, float]
) -> None:
    """Scores, differences and values of both signs are around 0."""
    scale = colour_scale(arrays(*panels), stage, **options)
    assert (scale.kind, scale.low, scale.high, scale.is_diverging) == ("linear", *ends, ends[0] < 0)
    assert [*np.asarray(scale.norm(np.array([*ends, sum(ends) / 2])))] == pytest.approx([0, 1, 0.5])
    assert scale.label("weight") == "weight"


@pytest.mark.parametrize("stage", ["", "weights"])
@pytest.mark.parametrize(("count", "kind"), [(50, "linear"), (51, "root")])
def test_more_than_half_below_a_twentieth_of_the_largest_make_a_square_root(count: int, kind: str, stage: str) -> None:
    values = [0.0199] * count + [0.4] * (100 - count)
    scale = colour_scale(arrays(values[:30], [NAN] * 300, values[30:]), stage)
    assert scale.kind == kind
    assert colour_scale(arrays(values), "scores").kind == "linear"
    assert scale.label("weight") == f"weight{' (colours by square root)' if kind == 'root' else ''}"


@pytest.mark.parametrize("kind", ["linear", "root", "log"])
def test_explicit_kinds_take_values_of_any_sign(kind: Any) -> None:
    for values in ([0.0], [-9.0, 0.0, 16.0], [-3.0, -1.0], [0.0, 1e-30, 5.0], [NAN], [INF, -INF, 1.0], [7.0, 7.0]):
        for options in ({}, {"stage": "scores"}, {"is_difference": True}, {"stage": "weights"}, {"high": 2.0}):
            scale = colour_scale(arrays(values), kind=kind, **options)
            assert scale.low < scale.high
            places = scale.norm(scale.clip(np.array([scale.low, scale.high])))
            assert np.asarray(places) == pytest.approx([0, 1])


def test_arrows() -> None:
    cases = {"neither": [2.0 + 1e-9], "max": [1.0, INF], "min": [-3.0, 1.0], "both": [-3.0, 3.0]}
    for extend, values in cases.items():
        assert colour_scale(arrays(values), kind="linear", high=2.0).extend == extend


@given(st.lists(st.floats(1e-12, 1e12), min_size=1, max_size=200))
def test_few_values_lie_beyond_and_the_largest_never(values: list[float]) -> None:
    scale = colour_scale(arrays(values), kind="log")
    assert scale.high == max(values)
    beyond = sum(value < scale.low * (1 - 1e-9) for value in values)
    assert beyond <= 0.05 * len(values) or scale.high / scale.low >= 1e6 * (1 - 1e-9)
    assert (scale.extend == "min") == (min(values) < scale.low * (1 - 1e-5))


def test_axes() -> None:
    assert spans_decades([1.0, 101.0, NAN])
    assert not any(spans_decades(values) for values in ([1.0, 99.0], [0.0, 1000.0], [-1.0, 5.0], [], [NAN]))


@pytest.mark.parametrize(
    ("values", "limit", "high", "label", "extend"),
    [
        ([0.0, 0.007], "bits", 0.1, "JS divergence (bits, 0 to 0.1)", "neither"),
        ([0.05, 0.1], "bits", 1.0, "JS divergence (bits, 0 to 1)", "neither"),
        ([0.0, 0.0, 0.9], "bits", 1.0, "JS divergence (bits, 0 to 1, colours by square root)", "neither"),
        ([0.3, 0.77], "change", 0.77, "JS divergence (bits)", "neither"),
        ([0.5, 0.77, 10.0], "change", 1.0, "JS divergence (bits)", "max"),
        ([0.0], "change", 1.0, "JS divergence (bits)", "neither"),
    ],
)
def test_ends_of_divergences_and_of_changes(
    values: list[float], limit: Limit, high: float, label: str, extend: str
) -> None:
    scale = colour_scale(arrays(values), limit=limit)
    assert (scale.low, scale.high, scale.extend) == (0.0, high, extend)
    assert scale.label("JS divergence (bits)") == label
    assert colour_scale(arrays(values), limit=limit, high=0.5).high == 0.5
