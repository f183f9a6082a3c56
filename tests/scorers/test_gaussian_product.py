"""Gaussian scores from one matrix product, where that keeps the digits, and from differences elsewhere."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attncli.scorers import gaussian
from tests.reference import ORACLES
from tests.scorers.catalogue import make, normal

EPS = torch.finfo(torch.float32).eps


def count_differences(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []
    original = torch.cdist

    def counting(*args: Any, **keys: Any) -> Tensor:
        calls.append(1)
        return original(*args, **keys)

    monkeypatch.setattr(torch, "cdist", counting)
    return calls


@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_far_apart_is_one_product(shift: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also far from the origin, since only the distance from the mean query counts."""
    queries, keys = normal(6, 64) + shift, normal(7, 64, seed=1) + shift
    wanted = ORACLES["gaussian"](None, queries, keys)
    calls = count_differences(monkeypatch)
    scores = make("gaussian", 64)(queries, keys).double()
    assert calls == []
    # LOST times the rounding of a sum of 64 squares, and at 1e4 that of the mean that is taken away
    torch.testing.assert_close(scores, wanted, rtol=gaussian.LOST * 8 * EPS + shift * EPS, atol=0)


@pytest.mark.parametrize(("d", "apart"), [(64, 1e-3), (64, 0.0), (3, 1.0)])
def test_close_together_or_of_few_entries_is_differences(d: int, apart: float, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = normal(6, d)
    keys = queries + apart * normal(6, d, seed=1)
    wanted = ORACLES["gaussian"](None, queries, keys)
    calls = count_differences(monkeypatch)
    scores = make("gaussian", d)(queries, keys).double()
    assert calls == [1]
    torch.testing.assert_close(scores, wanted, rtol=1e-5, atol=1e-12)
    if apart == 0:
        assert bool((scores.diagonal() == 0).all())


@pytest.mark.parametrize("junk", [torch.nan, torch.inf, 1e30])
def test_one_key_changes_no_other_beyond_rounding(junk: float) -> None:
    scorer, queries, keys = make("gaussian", 64), normal(6, 64), normal(7, 64, seed=1)
    clean = scorer(queries, keys)
    keys[3] = junk
    torch.testing.assert_close(
        scorer(queries, keys)[:, [0, 1, 2, 4, 5, 6]], clean[:, [0, 1, 2, 4, 5, 6]], rtol=1e-5, atol=0
    )
