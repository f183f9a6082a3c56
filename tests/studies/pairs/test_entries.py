"""Entries of random queries and keys against the closed forms of their distributions, within five standard errors."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attncli.studies.pairs.entries import Entries
from tests.margins import sampled

N = 200_000
T10 = {"distribution": "student_t", "df": 10.0}
# Moments of order 2, 4, 6 and 8; for student_t from E T^2k = df^k prod (2i - 1) / (df - 2i), rescaled.
MOMENTS: dict[str, tuple[dict[str, Any], list[float]]] = {
    "normal": ({}, [1, 3, 15, 105]),
    "uniform": ({"distribution": "uniform"}, [1, 9 / 5, 27 / 7, 9]),
    "rademacher": ({"distribution": "rademacher"}, [1, 1, 1, 1]),
    "laplace": ({"distribution": "laplace"}, [1, 6, 90, 2520]),
    "student_t": (T10, [1, 4, 40, 1400]),
}


def drawn(seed: int = 0, dtype: torch.dtype = torch.float64, n: int = N, **keys: Any) -> tuple[Tensor, Tensor]:
    queries, keys_ = Entries(**keys).draw((n, 1, 1), (n, 1, 1), torch.Generator().manual_seed(seed), dtype)
    return queries.flatten(), keys_.flatten()


def assert_mean(numbers: Tensor, wanted: float, second: float) -> None:
    """`second` is the second moment about `wanted`."""
    standard_error = math.sqrt(second / len(numbers)) + 1e-12  # of signs it is 0
    assert abs(float(numbers.double().mean()) - wanted) < sampled(5 * standard_error, standard_error)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", MOMENTS)
def test_moments(name: str, dtype: torch.dtype) -> None:
    keys, (second, fourth, sixth, eighth) = MOMENTS[name]
    assert Entries(**keys).kurtosis == pytest.approx(fourth, rel=1e-12)
    for side in drawn(dtype=dtype, **keys):
        assert side.dtype == dtype
        assert_mean(side, 0, second)
        assert_mean(side**2, second, fourth - second**2)
        assert_mean(side**3, 0, sixth)
        assert_mean(side**4, fourth, eighth - fourth**2)
        assert_mean(side[1:] * side[:-1], 0, 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("end", [0.0, 1 - 2.0**-24, 1 - 2.0**-53])  # of the numbers in [0, 1) that torch draws
@pytest.mark.parametrize("keys", [{**T10, "df": 1.0}, {**T10, "df": 2.0}, *(keys for keys, _ in MOMENTS.values())])
def test_every_draw_is_finite(
    keys: dict[str, Any], end: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    def filled(
        self: Tensor, low: float = 0.0, high: float = 1.0, *, generator: torch.Generator | None = None
    ) -> Tensor:
        share = min(end, 1 - 2.0**-24) if self.dtype == torch.float32 else end
        return self.fill_(low + share * (high - low))

    monkeypatch.setattr(Tensor, "uniform_", filled)
    for side in drawn(**keys, dtype=dtype, n=10):
        assert side.isfinite().all()


@pytest.mark.parametrize("rho", [-1.0, -0.6, 0.0, 0.3, 0.999, 1.0])
@pytest.mark.parametrize("name", MOMENTS)
def test_correlation(name: str, rho: float) -> None:
    keys, (_, fourth, *_) = MOMENTS[name]
    u, v = drawn(rho=rho, **keys)
    noise = (v - rho * u).square()
    assert_mean(v, 0, 1)
    assert_mean(u * v, rho, rho**2 * (fourth - 1) + 1 - rho**2)
    assert_mean(noise, 1 - rho**2, (1 - rho**2) ** 2 * (fourth - 1))
    if abs(rho) == 1:
        assert torch.equal(v, rho * u)
    queries, keys_ = drawn(rho=rho, query_mean=0.5, query_std=2.0, key_mean=-3.0, key_std=0.25, **keys)
    torch.testing.assert_close(queries, 0.5 + 2.0 * u)
    torch.testing.assert_close(keys_, -3.0 + 0.25 * v)


@pytest.mark.parametrize("rho", [0.0, 0.7])
def test_a_row_has_one_query_with_keys_of_its_own(rho: float) -> None:
    entries, randomness = Entries(rho=rho), torch.Generator().manual_seed(1)
    queries, keys = entries.draw((50_000, 1, 2), (50_000, 3, 2), randomness, torch.float64)
    assert queries.shape == (50_000, 1, 2)
    columns = torch.cat([queries, keys], 1).flatten(1).mT.numpy()  # query and three keys, two entries each
    wanted = np.eye(8)
    for row in range(4):
        for other in range(4):
            for i in (0, 1) if row != other else ():
                wanted[2 * row + i, 2 * other + i] = rho if 0 in (row, other) else rho**2
    assert np.abs(np.corrcoef(columns) - wanted).max() < 5 / math.sqrt(50_000)
