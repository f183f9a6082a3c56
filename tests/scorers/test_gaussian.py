"""Gaussian scores from one matrix product if it keeps the digits, and otherwise from differences."""

from unittest import mock

import pytest
import torch

from attncli.scorers import gaussian
from tests.reference import ORACLES
from tests.scorers.catalogue import make, normal

EPS = torch.finfo(torch.float32).eps
# Allowed errors: LOST times the rounding of a sum of 64 squares; at 1e4 also the rounding of the subtracted mean.
PRODUCT, FAR = gaussian.LOST * 8 * EPS, 1e4 * EPS


@pytest.mark.parametrize(
    ("d", "apart", "shift", "sigma", "rtol"),
    [
        (64, 1.0, 0.0, 1.0, PRODUCT),
        (64, 1.0, 1e4, 1.0, PRODUCT + FAR),  # only the distance from the mean query counts
        (64, 1e-3, 0.0, 1.0, None),
        (64, 0.0, 0.0, 1.0, None),
        (3, 1.0, 0.0, 1.0, None),
        (3, 1.0, 1e4, 1.0, None),
        (2, 1e-3, 0.0, 1e-9, None),
        (2, 1e-3, 0.0, 1e9, None),
    ],
)
def test_digits(d: int, apart: float, shift: float, sigma: float, rtol: float | None) -> None:
    """If q and k are close together or have few entries, scores come from differences, with the usual tolerance."""
    queries = normal(6, d) + shift
    keys = (queries if apart < 1 else shift) + apart * normal(6, d, seed=1)
    wanted = ORACLES["gaussian"](None, queries, keys, sigma=sigma)
    with mock.patch.object(torch, "cdist", wraps=torch.cdist) as differences:
        scores = make("gaussian", d, sigma=sigma)(queries, keys).double()
    assert differences.call_count == (0 if rtol else 1)
    torch.testing.assert_close(scores, wanted, rtol=rtol or 2e-6, atol=0 if apart else 1e-12)
    assert apart > 0 or bool((scores.diagonal() == 0).all())
