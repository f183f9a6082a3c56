"""Fills against the closed forms of their distributions; every statistic within five standard errors."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from attncli.core.seeding import generator
from attncli.sources.fills import student_t
from tests.combinations import varied
from tests.experiments import call_inputs
from tests.margins import Sampled, sampled

N = 200_000
SHAPE = [100, 100, 20]  # N entries
RANDOM: dict[str, dict[str, Any]] = {
    "normal": {"fill": "normal"},
    "shifted": {"fill": "normal", "mean": -3.0, "std": 0.5},
    "uniform": {"fill": "uniform"},
    "wide": {"fill": "uniform", "low": -2.0, "high": 10.0},
    "rademacher": {"fill": "rademacher"},
    "t1": {"fill": "student_t", "df": 1},
    "t2": {"fill": "student_t", "df": 2},
    "t10": {"fill": "student_t", "df": 10},
}
FIXED: dict[str, dict[str, Any]] = {
    **{name: {"fill": name} for name in ("ones", "zeros", "arange", "eye")},
    "constant": {"fill": "constant", "value": -0.1},
}


def queries(source: dict[str, Any], shape: list[int], **keys: Any) -> Tensor:
    data = {"queries": {"shape": shape, **source}, "keys": {"shape": [1, 2, shape[-1]]}}
    return call_inputs(data=data, **keys).queries


def draws(name: str) -> Tensor:
    return queries(RANDOM[name], SHAPE, dtype="float64").flatten()


def normal_cdf(x: float) -> float:
    return (1 + math.erf(x / math.sqrt(2))) / 2


CDFS: dict[str, Callable[[float], float]] = {
    "normal": normal_cdf,
    "shifted": lambda x: normal_cdf((x + 3) / 0.5),
    "uniform": lambda x: x,
    "wide": lambda x: (x + 2) / 12,
    "t1": lambda x: 0.5 + math.atan(x) / math.pi,
    "t2": lambda x: 0.5 + x / (2 * math.sqrt(2 + x * x)),
}


def five(standard_error: float) -> Sampled:
    return sampled(5 * standard_error, standard_error)


@pytest.mark.parametrize("name", CDFS)
def test_distribution(name: str) -> None:
    ordered = draws(name)[: N // 4].sort().values.tolist()
    expected = [CDFS[name](x) for x in ordered]
    distance = max(max(abs(p - i / len(ordered)), abs(p - (i + 1) / len(ordered))) for i, p in enumerate(expected))
    assert distance * math.sqrt(len(ordered)) < 2.5  # Kolmogorov: beyond 2.5 in one of 130 000 samples


@pytest.mark.parametrize(
    ("name", "mean", "variance", "kurtosis"),
    [("shifted", -3, 0.25, 3), ("wide", 4, 12, 9 / 5), ("rademacher", 0, 1, 1), ("t10", 0, 10 / 8, 3 + 6 / (10 - 4))],
)
def test_mean_and_variance(name: str, mean: float, variance: float, kurtosis: float) -> None:
    drawn = draws(name)
    squares = (drawn - mean).square()
    assert abs(float(drawn.mean()) - mean) < five(math.sqrt(variance / N))
    if kurtosis > 1:
        assert abs(float(squares.mean()) - variance) < five(variance * math.sqrt((kurtosis - 1) / N))
    neighbours = ((drawn[1:] - mean) * (drawn[:-1] - mean)).mean()
    assert abs(float(neighbours)) < five(variance / math.sqrt(N))
    if name == "rademacher":
        assert set(drawn.tolist()) == {-1.0, 1.0}
    if name == "wide":
        assert -2 <= float(drawn.min()) < -1.99 < 9.99 < float(drawn.max()) <= 10


@pytest.mark.parametrize("rho", [-1.0, -0.6, 0.0, 0.3, 0.999, 1])
def test_correlated(rho: float) -> None:
    data = {"queries": {"shape": SHAPE}, "keys": {"fill": "correlated", "with": "queries", "rho": rho}}
    inputs = call_inputs(data=data, dtype="float64")
    x, y = inputs.queries.flatten(), inputs.keys.flatten()
    noise = math.sqrt(1 - rho**2)
    residual = y - rho * x
    # Of x * residual and of residual^2: independent normal numbers of variance 1 and 1 - rho^2.
    if noise:
        assert abs(float((x * residual).mean())) < five(noise / math.sqrt(N))
        assert abs(float(residual.square().mean()) - noise**2) < five(noise**2 * math.sqrt(2 / N))
    else:
        assert torch.equal(y, rho * x)


def test_values_that_never_vary() -> None:
    for rows, columns in ((2, 4), (4, 2), (1, 1)):
        one = [[float(i == j) for j in range(columns)] for i in range(rows)]
        assert queries(FIXED["eye"], [2, rows, columns]).tolist() == [one, one]
        assert queries(FIXED["eye"], [rows, columns]).tolist() == [one]
    assert queries(FIXED["ones"], [2, 3, 4]).tolist() == [[[1.0] * 4] * 3] * 2
    assert queries(FIXED["zeros"], [2, 3, 4]).tolist() == [[[0.0] * 4] * 3] * 2
    assert queries(FIXED["constant"], [1, 1, 2], dtype="float64").tolist() == [[[-0.1, -0.1]]]
    assert queries(FIXED["arange"], [2, 2, 3]).tolist() == [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]]


@varied(name=[*RANDOM, *FIXED], dtype=["float32", "float16", "bfloat16"])
def test_a_dtype_rounds_and_changes_no_draw(name: str, dtype: str) -> None:
    source = {**RANDOM, **FIXED}[name]
    exact = queries(source, [2, 30, 4], dtype="float64")
    rounded = queries(source, [2, 30, 4], dtype=dtype)
    assert rounded.dtype == getattr(torch, dtype)
    assert torch.equal(rounded, exact.to(rounded.dtype))
    if name in RANDOM and name != "rademacher":
        assert not torch.equal(exact, exact.float().double()), "drawn with all digits"
    keys = {"fill": "correlated", "with": "queries", "rho": 1.0}  # uses the other tensor after rounding
    same = call_inputs(data={"queries": {"shape": [2, 30, 4], **source}, "keys": keys}, dtype=dtype)
    assert torch.equal(same.keys, same.queries)


def test_every_tensor_has_a_generator_of_its_own() -> None:
    torch.manual_seed(1)  # of no interest

    def drawn(seed: int = 0, **queries: Any) -> list[Tensor]:
        data = {"queries": {"shape": [2, 30, 4], **queries}, "keys": {"shape": [2, 30, 4]}}
        inputs = call_inputs(data=data, seed=seed)
        return [inputs.queries, inputs.keys, inputs.values]

    first = drawn()
    assert not any(map(torch.equal, first, drawn(seed=1)))
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[1], first[2])
    for changed in (drawn(shape=[2, 7, 4]), drawn(fill="student_t", df=3)):
        assert all(map(torch.equal, first[1:], changed[1:]))


def test_student_t_is_finite_where_the_generator_draws_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uniform numbers include 0, whose logarithm is infinite."""
    monkeypatch.setattr(Tensor, "uniform_", lambda tensor, *ends, generator: tensor.zero_())
    assert student_t([4], 5.0, generator(0, "x")).tolist() == [0.0] * 4
