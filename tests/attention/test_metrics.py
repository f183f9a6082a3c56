"""Shares and top keys of weights; studies/test_records.py has their entropy and divergence."""

import math

import pytest
import torch

from attncli.core.metrics import entropy, shares, top1_agreement, top_keys

SIGNED = [0.5, -0.25, 0.25]  # the scores 2, -1 and 1 over the sum of their sizes


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
