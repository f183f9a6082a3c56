"""Fills against the closed forms of their distributions; every statistic within five standard errors."""

import math
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor

from attncli.core.seeding import generator
from attncli.sources.fills import student_t
from tests.combinations import varied
from tests.experiments import call_inputs
from tests.margins import Sampled, sampled

N = 200_000
SHAPE = [100, 100, 20]  # N entries
RANDOM: dict[str, tuple[dict[str, Any], Any]] = {
    "normal": ({"fill": "normal"}, stats.norm()),
    "shifted": ({"fill": "normal", "mean": -3.0, "std": 0.5}, stats.norm(-3, 0.5)),
    "uniform": ({"fill": "uniform"}, stats.uniform()),
    "wide": ({"fill": "uniform", "low": -2.0, "high": 10.0}, stats.uniform(-2, 12)),
    **{f"t{df}": ({"fill": "student_t", "df": df}, stats.t(df)) for df in (1, 2, 10)},
}
SOURCES = {name: source for name, (source, _) in RANDOM.items()}
SOURCES |= {name: {"fill": name} for name in ("rademacher", "ones", "zeros", "arange", "eye")}
SOURCES["constant"] = {"fill": "constant", "value": -0.1}


def queries(name: str, shape: list[int], **keys: Any) -> Tensor:
    data = {"queries": {"shape": shape, **SOURCES[name]}, "keys": {"shape": [1, 2, shape[-1]]}}
    return call_inputs(data=data, **keys).queries


def five(standard_error: float) -> Sampled:
    return sampled(5 * standard_error, standard_error)


@pytest.mark.parametrize("name", RANDOM)
def test_distribution(name: str) -> None:
    """Entries follow the distribution, and neighbours are independent."""
    distribution = RANDOM[name][1]
    drawn = queries(name, SHAPE, dtype="float64").flatten()[: N // 4]
    distance = stats.kstest(drawn.numpy(), distribution.cdf).statistic
    assert distance * math.sqrt(len(drawn)) < 2.5  # Kolmogorov: beyond 2.5 in one of 130 000 samples
    shares = torch.from_numpy(distribution.cdf(drawn.numpy())) - 0.5  # uniform, of variance 1/12
    assert abs(float((shares[1:] * shares[:-1]).mean())) < five(1 / 12 / math.sqrt(len(drawn)))


def test_rademacher() -> None:
    drawn = queries("rademacher", SHAPE, dtype="float64").flatten()
    assert set(drawn.tolist()) == {-1.0, 1.0}
    assert abs(float(drawn.mean())) < five(1 / math.sqrt(N))
    assert abs(float((drawn[1:] * drawn[:-1]).mean())) < five(1 / math.sqrt(N))


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
        assert torch.equal(queries("eye", [2, rows, columns]), torch.eye(rows, columns).expand(2, -1, -1))
        assert torch.equal(queries("eye", [rows, columns]), torch.eye(rows, columns)[None])
    assert torch.equal(queries("ones", [2, 3, 4]), torch.ones(2, 3, 4))
    assert torch.equal(queries("zeros", [2, 3, 4]), torch.zeros(2, 3, 4))
    assert queries("constant", [1, 1, 2], dtype="float64").tolist() == [[[-0.1, -0.1]]]
    assert queries("arange", [2, 2, 3]).tolist() == [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]]


@varied(name=[*SOURCES], dtype=["float32", "float16", "bfloat16"])
def test_a_dtype_rounds_and_changes_no_draw(name: str, dtype: str) -> None:
    exact, rounded = (queries(name, [2, 30, 4], dtype=stored) for stored in ("float64", dtype))
    assert rounded.dtype == getattr(torch, dtype)
    assert torch.equal(rounded, exact.to(rounded.dtype))
    if name in RANDOM:
        assert not torch.equal(exact, exact.float().double()), "drawn with all digits"
    keys = {"fill": "correlated", "with": "queries", "rho": 1.0}  # uses the other tensor after rounding
    same = call_inputs(data={"queries": {"shape": [2, 30, 4], **SOURCES[name]}, "keys": keys}, dtype=dtype)
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
