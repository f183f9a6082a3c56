"""Biases of scores: ALiBi against slow loops and published slopes, and a given tensor."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from attncli.attention import Bias, alibi_slopes
from attncli.core.masks import ALL
from tests import reference
from tests.experiments import result_of
from tests.scorers.catalogue import normal


def test_published_slopes() -> None:
    """1/2, 1/4, ..., 1/256 for 8 heads (Press et al. 2022); for 12 also slopes 1, 3, 5 and 7 of 16 heads."""
    eight = [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    assert alibi_slopes(8) == reference.alibi_slopes(8) == eight
    for slopes in (alibi_slopes, reference.alibi_slopes):
        assert slopes(12) == pytest.approx([*eight, 0.70710678, 0.35355339, 0.17677670, 0.08838835])
        assert slopes(3) == [1 / 16, 1 / 256, 1 / 4]
    for heads in range(1, 70):
        assert alibi_slopes(heads) == pytest.approx(reference.alibi_slopes(heads), rel=1e-12)


@pytest.mark.parametrize("given", [(1, 6), (4, 1), (4, 6), (2, 1, 4, 6), (1, 3, 4, 6), (2, 3, 1, 6), (2, 3, 4, 6)])
def test_tiles_are_parts_of_the_whole(given: tuple[int, ...]) -> None:
    shape = (2, 3, 4, 6)
    scores, bias = normal(*shape), Bias(shape, normal(*given, seed=1, dtype=torch.float64), alibi=True, first=2)
    whole, own = bias.added_to(scores), scores.clone()
    assert whole.dtype == torch.float32
    for elements, rows in itertools.product((ALL, slice(0, 1), slice(1, 2)), (ALL, slice(0, 3), slice(3, 4))):
        assert torch.equal(bias.added_to(scores[elements, ..., rows, :], elements, rows), whole[elements, ..., rows, :])
    assert torch.equal(scores, own)


@pytest.mark.parametrize("kind", ["align", "causal"])
@pytest.mark.parametrize(("corner", "first"), [("top_left", 0), ("bottom_right", 3)])
@pytest.mark.parametrize("heads", [(), (3,), (2, 2)])
def test_every_stage_of_an_experiment(kind: str, corner: str, first: int, heads: tuple[int, ...]) -> None:
    """A softcap comes before both biases. With `bottom_right` query i has position i + m - n."""
    n, m, shape, mask = 3, 6, (2, *heads, 3, 6), {kind: corner}
    data: dict[str, Any] = {
        "queries": {"shape": [2, *heads, n, 4]},
        "keys": {"shape": [2, *heads, m, 4]},
        "bias": np.random.default_rng(0).normal(size=(n, m)).tolist(),
        "valid_lens": [4, 6],
    }
    entry = {"scorer": "dot", "label": "all", "softcap": 0.7, "bias": "alibi", "normalizer": "sparsemax"}
    found = result_of(data=data, scorers=[entry, {"scorer": "dot"}], dtype="float64", mask=mask)
    scores, valid = found.tensors["all/scores"], found.inputs["valid"]
    slow = reference.alibi(torch.Size(heads).numel(), n, m, first).view(*heads, n, m)
    given = torch.tensor(data["bias"], dtype=torch.float64)
    biased = 0.7 * (scores / 0.7).tanh() + given + slow
    torch.testing.assert_close(found.tensors["all/biased"], biased.expand(shape))
    weights = reference.for_each_matrix(lambda s, v: reference.weights_of("sparsemax", s, v), biased, valid)
    torch.testing.assert_close(found.tensors["all/weights"], weights)
    torch.testing.assert_close(found.tensors["dot/biased"], found.tensors["dot/scores"] + given)
    usual = reference.for_each_matrix(reference.masked_softmax, found.tensors["dot/biased"], valid)
    torch.testing.assert_close(found.tensors["dot/weights"], usual)
