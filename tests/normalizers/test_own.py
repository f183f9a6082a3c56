"""Custom normalisers, `module:Class`: they work like built-in ones in every study, and are checked."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attncli.catalogue.guarding import OwnNormalizer
from attncli.normalizers import NORMALIZERS
from tests.cli import swept
from tests.experiments import result_of
from tests.scorers.catalogue import normal, same_bits
from tests.studies.pairs.samples import swept as paired

MINE = __name__


class Squared(nn.Module):
    """s_j^2 / sum_i s_i^2, of one's own"""

    def __init__(self, *, power: int = 2) -> None:
        super().__init__()
        self.power = power

    def forward(self, scores: Tensor, valid: Tensor) -> Tensor:
        powers = scores.abs().pow(self.power).masked_fill(~valid, 0.0)
        return powers / powers.sum(-1, keepdim=True)


class Soft(nn.Module):
    """softmax, again"""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, scores: Tensor, valid: Tensor) -> Tensor:
        return (self.scale * scores).masked_fill(~valid, -math.inf).softmax(-1)


class Hard(nn.Module):
    """all weight on the largest score"""

    def forward(self, scores: Tensor, valid: Tensor) -> Tensor:
        best = scores.masked_fill(~valid, -math.inf).argmax(-1, keepdim=True)
        return torch.zeros_like(scores).scatter(-1, best, 1.0)


DATA: dict[str, Any] = {
    "queries": {"shape": [2, 3, 4, 5]},
    "keys": {"shape": [2, 3, 6, 5]},
    "valid_lens": [[6, 0, 1, 3], [2, 4, 6, 5]],
}


def squares(scores: Tensor, valid: Tensor, power: int = 2) -> Tensor:
    powers = scores.double().abs().pow(power).where(valid, 0.0)
    return powers / powers.sum(-1, keepdim=True).clamp(min=1e-30)


@pytest.mark.parametrize("weights", [True, False])
def test_weights_and_options(weights: bool) -> None:
    entries = [
        {"scorer": "dot", "normalizer": f"{MINE}:Squared"},
        {"scorer": "dot", "normalizer": {"normalizer": f"{MINE}:Squared", "power": 3}, "label": "cubed"},
        {"scorer": "dot", "normalizer": f"{MINE}:Soft"},
        {"scorer": "dot"},
    ]
    result = result_of(data=DATA, scorers=entries, weights=weights)
    assert [row["label"] for row in result.records] == ["dot_Squared", "cubed", "dot_Soft", "dot"]
    assert [row["normalizer"] for row in result.records] == [
        f"{MINE}:Squared",
        f"{MINE}:Squared",
        f"{MINE}:Soft",
        "softmax",
    ]
    assert result.formulas["cubed"].endswith(f"; {MINE}:Squared, power = 3: s_j^2 / sum_i s_i^2, of one's own")
    queries, keys, values = (result.inputs[name].double() for name in ("queries", "keys", "values"))
    for label, power in (("dot_Squared", 2), ("cubed", 3)):
        wanted = squares(queries @ keys.mT, result.inputs["valid"], power)
        torch.testing.assert_close(result.tensors[f"{label}/output"].double(), wanted @ values, rtol=1e-4, atol=1e-5)
        if weights:
            torch.testing.assert_close(result.tensors[f"{label}/weights"].double(), wanted, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(result.tensors["dot_Soft/output"], result.tensors["dot/output"])
    soft, dot = result.records[2:]
    for key in ("score_mean", "entropy", "max_weight", "weight_sum", "empty_rows"):
        assert soft[key] == pytest.approx(dot[key], rel=1e-5)


def test_gradients_by_autograd_in_saturation() -> None:
    """Autograd agrees with the closed forms of softmax; a normaliser without a gradient has the norm 0."""
    keys = {"d": [8], "keys": 5, "rows": 40}
    entries = [{"scorer": "dot", "normalizer": name} for name in (f"{MINE}:Soft", f"{MINE}:Hard", "softmax")]
    soft, hard, dot = paired("saturation", **keys, scorers=entries).records
    for key in ("jacobian_median", "query_gradient_median", "entropy", "max_weight"):
        assert soft[key] == pytest.approx(dot[key], rel=1e-5)
    assert (hard["jacobian_median"], hard["query_gradient_median"], hard["max_weight"]) == (0, 0, 1)


def test_its_parameters_are_not_trained(here: Any) -> None:
    entries = ["--scorer", f"dot:normalizer={MINE}:Soft", "--scorer", "dot"]
    records = swept("train", "--d", "4", "--steps", "3", "--seeds", "1", *entries)["records"]
    own, usual = ((record["accuracy"], record["parameters"]) for record in records)
    assert own == usual


def test_it_never_sees_padding_and_rows_without_a_key_are_zero() -> None:
    class Spy(torch.nn.Module):
        def forward(self, scores: Tensor, valid: Tensor) -> Tensor:
            assert bool(scores.isfinite().all())
            assert valid.shape == scores.shape
            weights: Tensor = NORMALIZERS["softmax"]()(scores, valid)
            return weights.masked_fill(~valid.any(-1, keepdim=True), math.nan)

    normalizer, scores = OwnNormalizer(Spy()), normal(2, 3, 4)
    valid = torch.tensor([[True, True, False, False], [False] * 4, [True] * 4])
    dirty = scores.masked_fill(~valid, math.nan)
    assert same_bits(normalizer(dirty, valid), NORMALIZERS["softmax"]()(scores, valid))
    weights = OwnNormalizer(NORMALIZERS["softmax"]())(torch.tensor([[math.nan, 1.0], [0.0, 1.0]]))
    assert weights.isnan().all(-1).tolist() == [True, False]
