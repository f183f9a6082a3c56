"""The limit of additive scores for many hidden units and large sizes, by integrals and with real perceptrons."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from attncli.scorers import SCORERS
from tests.studies.pairs.samples import Array
from tests.studies.variance.test_theory import theory

PLACES: list[dict[str, float]] = [
    {},
    {"query_mean": 0.5, "key_mean": 0.5},
    {"query_mean": 2.0, "key_mean": -1.0},
    {"query_std": 3.0, "key_std": 0.5, "key_mean": 1.0},
]


def density(variance: float) -> tuple[Array, Array]:
    """Points across a normal density of mean 0 with their shares of it."""
    points = np.linspace(-9, 9, 1201) * math.sqrt(variance)
    shares = np.exp(-(points**2) / (2 * variance)) if variance else np.ones(1201)
    return points, shares / shares.sum()


def integral(query_mean: float = 0.0, key_mean: float = 0.0, query_std: float = 1.0, key_std: float = 1.0) -> float:
    """E[Var(tanh(c + z) | c)] / 3, where Var(W entry) = 1 / (3 size) makes the variances of c and z."""
    z, shares = density((query_std**2 + key_std**2) / 3)
    total = 0.0
    for c, share in zip(*density((query_mean**2 + key_mean**2) / 3), strict=True):
        hidden = np.tanh(c + z)
        total += share * float((shares * (hidden - (shares * hidden).sum()) ** 2).sum())
    return total / 3


@pytest.mark.parametrize("places", PLACES)
def test_the_integral(places: dict[str, float]) -> None:
    found = theory("additive", {}, 64, **places)
    assert found.limit
    assert found.variance == pytest.approx(integral(**places), rel=1e-5)
    assert found.mean == (None if "key_mean" in places else 0.0)


def test_the_digits_of_standard_entries() -> None:
    z, shares = density(2 / 3)
    assert float((shares * np.tanh(z) ** 2).sum()) / 3 == pytest.approx(0.107, abs=5e-4)
    assert theory("additive", {}, 1).variance == pytest.approx(0.107, abs=5e-4)


@pytest.mark.parametrize("places", PLACES[:3])
@pytest.mark.parametrize("distribution", ["normal", "rademacher"])
def test_many_hidden_units(distribution: str, places: dict[str, Any]) -> None:
    d, h, n = 1024, 4096, 1000
    measured = []
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(3)
        for _ in range(3):
            scorer: Any = SCORERS["additive"](d, d, num_hiddens=h)
            sides = [torch.randn(n, d) if distribution == "normal" else torch.randn(n, d).sign() for _ in range(2)]
            queries, keys = sides[0] + places.get("query_mean", 0.0), sides[1] + places.get("key_mean", 0.0)
            scores = torch.tanh(scorer.W_q(queries) + scorer.W_k(keys)) @ scorer.w_v.weight[0]
            measured.append(float(scores.var()))
    assert theory("additive", {}, d, **places).variance == pytest.approx(np.mean(measured), rel=0.08)
