"""A normaliser of one's own may give negative weights: they have no entropy, divergence or shares."""

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attncli
from tests.studies.swap.models import tower

UNDEFINED = {"entropy", "effective_keys", "entropy_bound", "entropy_share", "first_key", "js_divergence"}
UNDEFINED |= {"start_entropy", "uniform", "saturated", "previous_key", "next_key", "duplicate", "silent"}


class Signed(nn.Module):
    """s / sum abs(s)"""

    def forward(self, scores: Tensor, valid: Tensor | None) -> Tensor:
        seen = scores if valid is None else scores.masked_fill(~valid, 0.0)
        return seen / seen.abs().sum(-1, keepdim=True)


class Balanced(nn.Module):
    """s minus its mean: the weights of a query have the sum 0"""

    def forward(self, scores: Tensor, valid: Tensor | None) -> Tensor:
        return scores - scores.mean(-1, keepdim=True)


ENTRY = {"scorer": "dot", "normalizer": f"{__name__}:Signed", "label": "signed"}
TENSORS = {side: {"shape": [2, 2, 9, 4]} for side in ("queries", "keys", "values")}
STUDIES: dict[str, dict[str, Any]] = {
    "attention": {"data": TENSORS},
    "without weights": {"data": TENSORS, "weights": False},
    "saturation": {"study": "saturation", "d": [4, 16], "rows": 50, "keys": 8},
    "doctor": {"study": "doctor", "data": TENSORS, "tokens": {"keys": [["a"] * 6 + ["[PAD]"] * 3, ["a"] * 9]}},
    "train": {"study": "train", "d": [4], "steps": 3, "seeds": 2, "batch": 4},
}


@pytest.mark.parametrize("normalizer", [Signed, Balanced])
@pytest.mark.parametrize("study", STUDIES)
def test_numbers_of_signed_weights_are_null(study: str, normalizer: type) -> None:
    entry = {**ENTRY, "normalizer": f"{__name__}:{normalizer.__name__}"}
    result = attncli.run({**STUDIES[study], "scorers": [{"scorer": "dot"}, entry]})
    rows = [*itertools.chain(*result.rows.values())]
    of_signed = [row for row in rows if "signed" in (row.get("label"), row.get("b"))]
    assert of_signed
    for row in of_signed:
        undefined = {key for key in row if any(key in (name, f"{name}_mean", f"{name}_std") for name in UNDEFINED)}
        undefined |= {key for key in row if key.startswith(("entropy_", "effective_keys_"))}
        assert all(row[key] is None for key in undefined), row
        assert not any(isinstance(value, float) and math.isnan(value) for value in row.values()), row
    texts = [finding.text for finding in result.findings if finding.label == "signed"]
    assert any("signed weights" in text for text in texts)
    assert not any("signed weights" in finding.text for finding in result.findings if finding.label == "dot")
    others = [row for row in rows if row.get("label") == "dot"]
    assert all(row["entropy"] is not None for row in others if "entropy" in row)


def test_doctor_judges_padding_overflow_and_dead_queries_only() -> None:
    result = attncli.run({**STUDIES["doctor"], "scorers": [ENTRY]})
    assert {row["check"] for row in result.records} == {"padding"}
    row = result.heads[0]
    scores = attncli.run({"data": TENSORS, "scorers": [ENTRY]}).tensors["signed/scores"]
    weights = Signed()(scores, None)[0, 0, :6, 6:].abs()
    assert row["padding"] == pytest.approx(float(weights.sum()) / 15, rel=1e-5)


def test_largest_weights_are_of_visible_keys() -> None:
    """All visible weights are negative, and an invalid key has the weight 0."""
    data = {"queries": [[1.0]], "keys": [[-1.0], [-3.0], [5.0]], "values": [[1.0]] * 3, "valid_lens": [2]}
    both = {"data": data, "scorers": [ENTRY, {"scorer": "dot"}]}
    result = attncli.run(both)
    assert result.records[0]["max_weight"] == -0.25
    assert torch.equal(result.tensors["signed/weights"].flatten(), torch.tensor([-0.25, -0.75, 0.0]))
    assert result.comparisons[0]["top1_agreement"] == 1.0


def test_findings_on_layers_of_a_model_say_so_and_count_heads_once(tmp_path: Path) -> None:
    """Two texts do not make more heads."""
    attncli.save(attncli.capture(*tower()), tmp_path / "seen.safetensors")
    data = {"capture": str(tmp_path / "seen.safetensors"), "layers": [0, 1]}
    result = attncli.run({"data": data, "scorers": [{"scorer": "scaled_dot"}, {"scorer": "cosine"}, ENTRY]})
    texts = [finding.text for finding in result.findings]
    assert texts[1] == "signed: signed weights, so entropy, effective keys and divergences are undefined."
    assert "mean of 8 heads;" in texts[2]
