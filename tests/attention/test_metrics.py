"""Entropy, divergence and top keys of weights, and the relative L2, against their definitions in Python floats."""

import math

import pytest
import torch

from attncli.core.metrics import entropy, js_divergence, relative_l2, shares, top1_agreement, top_keys
from tests import reference

EPS = torch.finfo(torch.float64).eps
SIGNED = [0.5, -0.25, 0.25]  # the scores 2, -1 and 1 over the sum of their sizes


@pytest.mark.parametrize("m", [2, 9, 300])
@pytest.mark.parametrize("spread", [1e-9, 1.0, 30.0])
def test_entropy_and_divergence_are_those_of_slow_sums(m: int, spread: float) -> None:
    generator = torch.Generator().manual_seed(m)
    a, b = (torch.randn(4, m, generator=generator, dtype=torch.float64) * spread).exp(), torch.rand(4, m).double()
    p, q = shares(a), shares(b)
    nats = entropy(p)
    bits = js_divergence(entropy((p + q) / 2), nats, entropy(q))
    for row in range(4):
        x, y = (reference.shares(each[row].tolist()) for each in (a, b))
        assert float(nats[row]) == pytest.approx(reference.entropy(x), abs=4 * m * EPS * math.log(m))
        middle = reference.entropy([(i + j) / 2 for i, j in zip(x, y, strict=True)])
        expected = (middle - (reference.entropy(x) + reference.entropy(y)) / 2) / math.log(2)
        assert float(bits[row]) == pytest.approx(expected, abs=16 * m * EPS * math.log(m))


@pytest.mark.parametrize(
    ("before", "new", "wanted"),
    [
        ([3.0, 4.0], [3.0, 5.0], 1 / 5),
        ([0.0, 0.0], [0.0, 0.0], 0.0),
        ([0.0, 0.0], [0.0, 1.0], math.inf),
        ([math.inf, 4.0], [math.inf, 4.0], 0.0),
        ([math.nan, 3.0, 4.0], [math.nan, 3.0, 5.0], 1 / 5),
        ([3.0, 4.0], [3.0, math.nan], math.inf),
    ],
)
def test_relative_l2_by_hand(before: list[float], new: list[float], wanted: float) -> None:
    rows = torch.tensor([before, before], dtype=torch.float64), torch.tensor([new, before], dtype=torch.float64)
    assert relative_l2(rows[0][0], rows[1][0]).item() == pytest.approx(wanted, abs=8 * EPS)
    assert relative_l2(*rows, axes=(1,)).tolist() == pytest.approx([wanted, 0.0], abs=8 * EPS)


@pytest.mark.parametrize("row", [SIGNED, [0.5, -0.5, 0.0], [-1.0, -2.0, -1.0], [0.0, 0.0, 0.0], [math.nan, 1.0, 0.0]])
def test_negative_weights_have_no_shares(row: list[float]) -> None:
    weights = torch.tensor([row, [1.0, 3.0, 4.0]], dtype=torch.float64)
    undefined, defined = shares(weights).tolist()
    assert undefined == pytest.approx([math.nan] * 3, nan_ok=True)
    assert defined == [0.125, 0.375, 0.5]
    assert entropy(shares(weights)).isnan().tolist() == [True, False]


@pytest.mark.parametrize(
    ("row", "visible", "top"),
    [
        ([0.5, 0.3, 0.2], 3, {0}),
        ([0.5, 0.5, 0.0], 3, set()),  # two of three
        ([0.5, 0.5, 0.0, 0.0], 4, {0, 1}),  # half is not more than half
        ([0.5, 0.5, 0.0, 0.0], 3, set()),
        ([0.25] * 4, 4, set()),
        ([1.0, 0.0, 0.0], 1, {0}),
        ([0.5, 0.5 * (1 - 9e-6), 0.0], 3, set()),
        ([0.5, 0.5 * (1 - 1.1e-5), 0.0], 3, {0}),
        ([-0.3, -0.1, -0.2, 0.0], 3, {1}),
        ([0.0, 0.0, 0.0], 0, set()),
        ([math.nan, 1.0, 0.0], 3, set()),
    ],
)
def test_top_keys(row: list[float], visible: int, top: set[int]) -> None:
    weights = torch.tensor([row], dtype=torch.float64)
    mask = top_keys(weights, torch.arange(len(row)) < torch.tensor([[visible]]))
    assert set(mask[0].nonzero()[:, 0].tolist()) == top


def test_agreement_is_of_queries_with_top_keys() -> None:
    a = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 0, 0]]) == 1
    b = torch.tensor([[0, 1, 0], [0, 0, 1], [0, 1, 0], [0, 0, 0]]) == 1
    assert top1_agreement(a, b).tolist() == pytest.approx([1.0, 0.0, math.nan, math.nan], nan_ok=True)
