"""Means and variances in closed form against all possible cases, many draws, and integrals."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import attncli
from attncli.errors import InputError
from attncli.studies.pairs.entries import Entries
from attncli.studies.variance.theory import Theory, score_theory
from tests.combinations import varied
from tests.experiments import entry_of
from tests.margins import sampled
from tests.reference import ORACLES
from tests.scorers.catalogue import make
from tests.studies.pairs.samples import Array, standard

SCORERS: list[tuple[str, dict[str, Any]]] = [
    ("dot", {}),
    ("scaled_dot", {}),
    ("scaled_dot", {"scale": "1/d"}),
    ("scaled_dot", {"scale": 0.3}),
    ("general", {}),
    ("gaussian", {}),
    ("gaussian", {"sigma": 0.6}),
    ("vector_sum", {}),
]
PLACES: list[dict[str, float]] = [  # (mean, std) of queries and keys, and rho
    {},
    {"query_mean": 0.5, "key_mean": 0.5},
    {"query_mean": -1.0, "key_mean": 0.3, "query_std": 2.0, "key_std": 0.7},
    {"rho": 0.6},
    {"rho": -1.0, "key_std": 1.5},
    {"rho": -0.8, "query_mean": 0.4, "key_mean": 1.1, "query_std": 0.5, "key_std": 3.0},
    {"query_std": 0.0, "query_mean": 2.0, "key_std": 0.5},
]


def theory(name: str, options: dict[str, Any], d: int, *, changes: Any = (), **keys: Any) -> Theory:
    """Return the theory of an entry with these options and with other keys, `changes`."""
    entry = entry_of(scorer=name, **options, **dict(changes))
    return score_theory(entry, make(name, d, **options), Entries(**keys), d)


def moved(u: Array, w: Array, keys: dict[str, float]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return queries and keys (n, d) made of independent numbers of mean 0 and variance 1."""
    rho = keys.get("rho", 0.0)
    v = rho * u + math.sqrt(1 - rho**2) * w
    sides = [keys.get(f"{side}_mean", 0.0) + keys.get(f"{side}_std", 1.0) * z for side, z in (("query", u), ("key", v))]
    return torch.from_numpy(sides[0]), torch.from_numpy(sides[1])


def every_sign(name: str, options: dict[str, Any], d: int, keys: dict[str, float]) -> tuple[float, float]:
    """Return exact mean and variance of the scores of all equally likely vectors of signs."""
    patterns = np.array(list(itertools.product([-1.0, 1.0], repeat=2 * d)))
    queries, others = moved(patterns[:, :d], patterns[:, d:], keys)
    scorer = make(name, d, **options)
    scores = [ORACLES[name](scorer, q[None], k[None], **options).item() for q, k in zip(queries, others, strict=True)]
    mean = math.fsum(scores) / len(scores)
    return mean, math.fsum((score - mean) ** 2 for score in scores) / len(scores)


def assert_theory(found: Theory, mean: float, variance: float) -> None:
    assert found.mean == pytest.approx(mean, rel=1e-6, abs=1e-6)  # the scale and W are float32
    assert found.variance == pytest.approx(variance, rel=1e-6, abs=1e-9)
    assert not found.limit


COSINES: list[tuple[str, dict[str, Any]]] = [("cosine", {}), ("cosine", {"scale": 4.0})]
CASES = [(*scorer, places) for scorer in SCORERS for places in PLACES]
CASES += [
    (*cosine, places)
    for cosine in COSINES
    for places in ({}, {"query_mean": 0.5}, {"key_mean": -2.0, "key_std": 0.5, "query_std": 3.0})
]


@pytest.mark.parametrize(("name", "options", "places"), CASES)
def test_all_signs(name: str, options: dict[str, Any], places: dict[str, float]) -> None:
    for d in (1, 2, 3):
        found = theory(name, options, d, distribution="rademacher", **places)
        assert_theory(found, *every_sign(name, options, d, places))


@varied(
    mixes=16, scorer=SCORERS, places=[PLACES[5], *PLACES], distribution=["student_t", "normal", "uniform", "laplace"]
)
def test_many_draws(scorer: tuple[str, dict[str, Any]], distribution: str, places: dict[str, float]) -> None:
    """Scores of many numbers drawn by NumPy agree with the theory within five standard errors."""
    (name, options), d, randomness = scorer, 3, np.random.default_rng(5)
    u, w = (standard(distribution, (200_000, d), randomness, df=20.0) for _ in range(2))
    queries, keys = moved(u, w, places)
    with torch.no_grad():
        scores = make(name, d, **options).double()(queries[:, None], keys[:, None]).flatten().numpy()
    df = 20.0 if distribution == "student_t" else None
    found = theory(name, options, d, distribution=distribution, df=df, **places)
    assert found.mean is not None
    assert found.variance is not None
    squares = (scores - found.mean) ** 2
    for numbers, expected in ((scores, found.mean), (squares, found.variance)):
        standard_error = numbers.std() / math.sqrt(len(numbers))
        assert abs(numbers.mean() - expected) < sampled(5 * standard_error, standard_error)


PARAMETERS = {"parameters": {"file": "trained.safetensors"}}


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("dot", {"changes": {"softcap": 5.0}}),
        ("dot", {"changes": {"qk_norm": "rms"}}),
        ("dot", {"changes": {"dtype": "bfloat16"}}),
        ("additive", {"changes": PARAMETERS}),
        ("cosine", {"rho": 0.5}),
        ("cosine", {"query_mean": 0.5, "key_mean": 0.5}),
        ("cosine", {"query_std": 0.0, "query_mean": 1.0}),
        ("cosine", {"key_std": 0.0}),
        ("cosine", {"distribution": "rademacher", "key_mean": -1.0}),  # one key in 2^d is 0
        ("cosine", {"distribution": "rademacher", "query_mean": 2.0, "query_std": 2.0}),
    ],
)
def test_where_nothing_is_known(name: str, keys: dict[str, Any]) -> None:
    assert theory(name, {}, 4, **keys) == Theory(None, None, limit=False)
    assert theory("general", {}, 4, changes=PARAMETERS).variance is not None


LIMITED: list[dict[str, float]] = [
    {},
    {"query_mean": 0.5, "key_mean": 0.5},
    {"query_mean": 2.0, "key_mean": -1.0},
    {"query_std": 3.0, "key_std": 0.5, "key_mean": 1.0},
    {"query_std": 300.0, "key_std": 1e3},
    {"query_std": 5.0, "key_std": 4.0, "query_mean": 20.0, "key_mean": -15.0},
    {"query_std": 0.01, "key_std": 0.02, "query_mean": 3.0},
    {"query_std": 0.0, "key_std": 0.0, "query_mean": 3.0},
]


def density(variance: float) -> tuple[Array, Array]:
    """Return points of a normal density of mean 0, with their shares of the probability.

    They are close enough together for tanh, too: the error of sums is exp(-pi^2 / step).
    """
    deviation = math.sqrt(variance)
    points = np.arange(-9.5 * deviation, 9.5 * deviation, min(0.25, deviation / 3)) if variance else np.zeros(1)
    shares = np.exp(-(points**2) / (2 * variance)) if variance else np.ones(1)
    return points, shares / shares.sum()


def integral(query_mean: float = 0.0, key_mean: float = 0.0, query_std: float = 1.0, key_std: float = 1.0) -> float:
    """Return E[Var(tanh(c + z) | c)] / 3; the variances of c and z follow from Var(W entry) = 1 / (3 size)."""
    z, shares = density((query_std**2 + key_std**2) / 3)
    total = 0.0
    for c, share in zip(*density((query_mean**2 + key_mean**2) / 3), strict=True):
        hidden = np.tanh(c + z)
        total += share * float((shares * (hidden - (shares * hidden).sum()) ** 2).sum())
    return total / 3


@pytest.mark.parametrize("places", LIMITED)
def test_the_integral(places: dict[str, float]) -> None:
    found = theory("additive", {}, 64, **places)
    assert found.limit
    assert found.variance == pytest.approx(integral(**places), rel=1e-9)
    assert found.mean == (None if places.get("query_mean") or places.get("key_mean") else 0.0)


@pytest.mark.parametrize("places", LIMITED[:3])
@pytest.mark.parametrize("distribution", ["normal", "rademacher"])
def test_many_hidden_units(distribution: str, places: dict[str, Any]) -> None:
    """Scores of several scorers of many hidden units have about the variance of the limit."""
    entries = [{"scorer": "additive", "num_hiddens": 1024, "label": label} for label in "abcd"]
    keys = {"study": "variance", "d": [200, 201], "samples": 500, "distribution": distribution, "scorers": entries}
    rows = attncli.run({**keys, **places}).records
    assert rows[0]["theory_variance"] == pytest.approx(np.mean([row["variance"] for row in rows]), rel=0.08)
    assert (rows[0]["theory"], rows[0]["z"]) == ("limit", None)


class WithTheory(nn.Module):
    """q . k times 3, and its theory."""

    def __init__(self, query_size: int, key_size: int, *, wrong: bool = False) -> None:
        super().__init__()
        self.wrong = wrong

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return 3 * queries @ keys.mT

    def theory(self, moments: Any) -> Any:
        return "many" if self.wrong else moments.of_dot(3.0)


def test_a_scorer_brings_its_theory() -> None:
    keys = {"study": "variance", "d": [4], "samples": 500, "rho": 0.5}
    own = {"scorer": f"{__name__}:WithTheory", "label": "own"}
    (row,) = attncli.run({**keys, "scorers": [own]}).records
    assert (row["theory_mean"], row["theory_variance"], row["theory"]) == (6.0, 45.0, "exact")
    assert abs(row["z"]) < 5
    with pytest.raises(InputError, match=r"scorers\[0\]: the method theory of the scorer gave ValueError"):
        attncli.run({**keys, "scorers": [{**own, "wrong": True}]})
