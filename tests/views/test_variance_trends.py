"""What the view of `variance` says of the way of a variance with d: as theory has it, or as far as intervals allow."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from attncli.runs.records import SweepResult
from attncli.views.sweep_tables import by_label
from attncli.views.variance_trends import trends
from tests.views.sweep_samples import FIVE, changed, variance_result


def said(result: SweepResult, label: str) -> str:
    """The sentence of this label."""
    (found,) = trends(by_label(result.records)[label])
    return found.removeprefix(f"{label}: the variance ").removesuffix(".")


def with_figures(
    variances: Sequence[float], intervals: Sequence[Any], theory: Sequence[float] | None = None, z: float | None = 0.5
) -> SweepResult:
    """`dot` with these variances and intervals at d = 8, 16, ...; exact theory where one is given."""
    result = variance_result([8 * 2**power for power in range(len(variances))], {"dot": "dot"})
    records = [
        record | {"variance": variance, "variance_ci": interval, "theory": None, "theory_variance": None, "z": None}
        for record, variance, interval in zip(result.records, variances, intervals, strict=True)
    ]
    if theory is not None:
        known = [{"theory": "exact", "theory_variance": value, "z": z} for value in theory]
        records = [record | figures for record, figures in zip(records, known, strict=True)]
    return replace(result, records=records)


def test_how_the_variance_changes_with_d() -> None:
    result = variance_result(scorers=FIVE)
    assert said(result, "dot") == "grows like d^1.00: 1026 at d = 1024"
    assert said(result, "scaled_dot") == "stays at 1 at every d from 1 to 1024 (measured 1.002)"
    assert said(result, "scaled_dot_1_over_d") == "falls like d^-1.00: 0.0009785 at d = 1024"
    assert said(result, "additive") == "hardly depends on d, but is not 1 (0.1002)"


def test_an_exponent_is_told_only_of_power_laws() -> None:
    result = variance_result([8, 64, 512], {"dot": "dot"})
    bent = [
        record | {"variance": value, "theory_variance": value}
        for record, value in zip(result.records, [1.0, 1.1, 9.0], strict=True)
    ]
    assert said(replace(result, records=bent), "dot") == "grows from 1 at d = 8 to 9 at d = 512"


def test_theory_decides_where_measurements_are_noise() -> None:
    noise, wide = [2.2, 1.0, 0.8], [(0.5, 10.0), (0.4, 3.0), (0.4, 1.6)]
    stays = "stays at 1 at every d from 8 to 32 (measured 0.8 to 2.2)"
    assert said(with_figures(noise, wide, [1.0, 1.0, 1.0]), "dot") == stays
    level = "hardly depends on d, but is not 1 (measured 0.8 to 2.2)"
    assert said(with_figures(noise, wide, [1.02, 1.02, 1.02]), "dot") == level
    assert said(with_figures(noise, wide, [8.0, 16.0, 32.0]), "dot") == "grows like d^1.00: 0.8 at d = 32"
    assert said(with_figures(noise, wide, [1.0, 0.5, 0.25]), "dot") == "falls like d^-1.00: 0.8 at d = 32"


@pytest.mark.parametrize("z", [7.0, -7.0, None, math.nan])
def test_a_theory_that_the_measurement_refutes_decides_nothing(z: float | None) -> None:
    result = with_figures([0.1, 0.2, 0.4], [(0.09, 0.11), (0.19, 0.21), (0.39, 0.41)], [1.0, 1.0, 1.0], z)
    assert said(result, "dot") == "grows like d^1.00: 0.4 at d = 32"


def test_without_theory_one_must_lie_inside_every_interval() -> None:
    around = [(0.9, 1.2), (0.9, 1.2)]
    assert said(with_figures([1.05, 1.05], around), "dot") == "cannot be told from 1 at any d from 8 to 16 (1.05)"
    apart = with_figures([1.05, 1.05], [(0.9, 1.2), (1.04, 1.06)])
    assert said(apart, "dot") == "hardly depends on d, but is not 1 (1.05)"
    assert said(with_figures([1.6, 1.6], [(0.0, 9.0)] * 2), "dot").startswith("cannot be told from 1")
    assert said(with_figures([1.6, 1.6], [None, (math.nan, 1.0)]), "dot").startswith("cannot be told from 1")


def test_many_sizes_widen_the_intervals() -> None:
    low, high = 1.01, 1.21  # 1 is a z of 2.16 away: outside of 95 %, inside of 99.5 %
    middle = math.sqrt(low * high)
    assert "cannot be told from 1" in said(with_figures([middle] * 10, [(low, high)] * 10), "dot")
    assert said(with_figures([middle], [(low, high)]), "dot").startswith("is 1.105 at d = 8; a scale of")


def test_without_theory_it_changes_only_beyond_its_error() -> None:
    apart = with_figures([2.0, 8.0], [(1.5, 2.5), (7.0, 9.0)])
    assert said(apart, "dot") == "grows like d^2.00: 8 at d = 16"
    wide = with_figures([2.0, 8.0], [(1.5, 7.5), (7.0, 9.0)])
    assert said(wide, "dot") == "does not change beyond its error, but is not 1 (2 to 8)"
    falling = with_figures([8.0, 2.0], [(7.0, 9.0), (1.5, 2.5)])
    assert said(falling, "dot") == "falls like d^-2.00: 2 at d = 16"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_variances_that_are_no_numbers(value: float) -> None:
    assert said(with_figures([value, value], [None, None]), "dot") == "is not a finite number"


def test_one_size_is_one_only_if_theory_has_it() -> None:
    def of(variance: float, interval: tuple[float, float], theory: Sequence[float] | None) -> str:
        return said(with_figures([variance], [interval], theory), "dot").split(";")[0]

    assert of(1.341, (1.147, 1.573), [1.5]) == "is 1.341 at d = 8"
    assert of(1.005, (0.9, 1.1), [1.02]) == "is 1.005 (1.02 in theory) at d = 8"
    assert of(1.005, (0.9, 1.1), [1.0]) == "is 1.005 (1 within its error) at d = 8"
    assert of(1.1, (1.05, 1.15), [1.0]) == "is 1.1 (1 in theory) at d = 8"
    assert of(1.005, (0.9, 1.1), None) == "is 1.005 (it cannot be told from 1) at d = 8"
    assert of(1.1, (1.05, 1.15), None) == "is 1.1 at d = 8"


def test_an_interval_without_width_holds_what_differs_by_rounding() -> None:
    assert "cannot be told" in said(with_figures([1.0], [(1 + 1e-12, 1 + 1e-12)]), "dot")
    assert "cannot be told" not in said(with_figures([1.0], [(1 + 1e-6, 1 + 1e-6)]), "dot")


def test_sizes_without_a_number_are_counted() -> None:
    result = variance_result([8, 64, 512], {"dot": "dot"})
    lost = [record | ({"variance": math.nan} if record["d"] == 8 else {}) for record in result.records]
    assert said(replace(result, records=lost), "dot").endswith("at 1 of 3 sizes it is not a finite number")


def test_a_single_size_is_told_with_the_scale_it_needs() -> None:
    result = variance_result([512], curve=[1, 2, 512])
    assert said(result, "dot") == "is 513 at d = 512; a scale of 0.04415 in place of 1 would make it 1"
    assert said(result, "scaled_dot") == "is 1.002 (1 within its error) at d = 512"
    constant = changed(result, "dot", variance=0.0, unit_scale=None)
    assert said(constant, "dot") == "is 0 at d = 512"


def test_sizes_may_come_in_any_order() -> None:
    assert said(variance_result([512, 8]), "dot") == "grows like d^1.00: 513 at d = 512"
